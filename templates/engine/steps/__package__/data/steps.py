# vextract:template - edit freely
"""What `step` of an environment returns, checked."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..rewards.scoring import source_of

Observation = str | Sequence[Mapping[str, Any]]


class UnusableStep(RuntimeError):
    """A `step` returned what cannot be used.

    Attributes:
        hook_file: where that is, as "path:line".
    """

    def __init__(self, env: Any, message: str) -> None:
        super().__init__(message)
        self.hook_file = source_of(env.step)


def checked_step(result: Any, env: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
    """Return what `step` of an environment has returned: observation, reward, terminated, truncated and info.

    Raises:
        UnusableStep: it cannot be used.
    """
    if not isinstance(result, tuple) or len(result) != 5:
        found = f"{len(result)} values" if isinstance(result, tuple) else f"a {type(result).__name__}"
        raise UnusableStep(env, f"step returned {found}, not (observation, reward, terminated, truncated, info)")
    observation, reward, terminated, truncated, info = result
    if not isinstance(observation, str) and not _are_messages(observation):
        kind = type(observation).__name__
        raise UnusableStep(env, f"step returned a {kind} as observation, not text or a list of {{role, content}}")
    try:
        number = finite_number(reward)
    except ValueError as error:
        raise UnusableStep(env, f"step returned {error} as reward, not a finite number") from error
    if info is not None and not isinstance(info, Mapping):
        raise UnusableStep(env, f"step returned a {type(info).__name__} as info, not a dictionary")
    return observation, number, bool(terminated), bool(truncated), dict(info or {})


def finite_number(value: Any) -> float:
    """Return a reward as a number.

    Raises:
        ValueError: it is no finite one; the text shows what it is.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(repr(value)[:60] if isinstance(value, str | float | None) else f"a {type(value).__name__}")
    return number


def _are_messages(observation: Any) -> bool:
    return isinstance(observation, Sequence) and all(
        isinstance(message, Mapping) and {"role", "content"} <= message.keys() for message in observation
    )
