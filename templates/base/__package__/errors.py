# vextract:template - edit freely
"""The errors of whatever a run's owner can put right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


class ProjectError(Exception):
    """The base of this project's errors: ConfigError, DataError, HookError, CheckpointError, DivergenceError..."""


class HintedError(ProjectError, ValueError):
    """An error whose text ends with a hint that says what to do.

    Attributes:
        message: what is wrong.
        hint: what to do.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)  # both, so that it can be pickled
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}"


class ConfigError(HintedError):
    """The config, the command line, or what a caller gives beside it, cannot be used."""


class DataError(HintedError):
    """The data cannot be used as configured, or as given."""


@dataclass(frozen=True)
class Problem:
    """Something that keeps a run from starting, and other settings with which it would start.

    Attributes:
        message, hint: what is wrong, and what to do.
        settings: by their keys; they stand for the hint.
        is_of_data: whether it is the data's, and not the config's alone.
    """

    message: str
    hint: str
    settings: Mapping[str, Any]
    is_of_data: bool = False


class DataProblems(DataError):
    """The data can be used with other settings.

    Attributes:
        problems: all that was found.
        prompts: so many for training.
    """

    def __init__(self, problems: Sequence[Problem], prompts: int) -> None:
        super().__init__("\n".join(one.message for one in problems), "; ".join(one.hint for one in problems))
        self.problems = list(problems)
        self.prompts = prompts
        self.args = (self.problems, prompts)  # so that it can be pickled
