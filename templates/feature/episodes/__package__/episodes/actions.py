# vextract:template - edit freely
"""What a turn of the model asks of an environment: its last tool call, what its last tag holds, or the whole text."""

import difflib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.steps import Observation
from ..errors import ConfigError
from ..settings.setting import choose

CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)  # as Hermes and Qwen write it
TAGGED = re.compile(r"<(action|answer)>(.*?)</\1>", re.DOTALL)


@dataclass(frozen=True)
class Action:
    """An action, as it stands in a turn.

    Attributes:
        text: the action: of a call its only argument, or all of them as JSON.
        tagged: whether it stood in <action>, <answer> or a call.
        name: of the function that is called; "" where none is.
        arguments: of the call.
    """

    text: str
    tagged: bool = False
    name: str = ""
    arguments: Mapping[str, Any] | None = None

    def answer(self, text: str) -> Observation:
        """Return what the environment says to it as a message: the tool's where a tool was called."""
        return text if self.arguments is None else [{"role": "tool", "content": text}]


def read_action(turn: str) -> Action:
    """Read the action in a turn; a call whose JSON is broken is text."""
    if calls := CALL.findall(turn):
        try:
            call = json.loads(calls[-1])
            name, arguments = str(call["name"]), dict(call["arguments"])
        except (KeyError, TypeError, ValueError):
            pass
        else:
            only = next(iter(arguments.values())) if len(arguments) == 1 else arguments
            return Action(only if isinstance(only, str) else json.dumps(only), True, name, arguments)
    tagged = TAGGED.findall(turn)
    return Action(tagged[-1][1].strip(), True) if tagged else Action(turn.strip())


def check_name(package: str, name: str, names: Collection[str]) -> None:
    """Raise a ConfigError where a package has no environment of that name, and name those that are like it."""
    if name not in names:
        near = difflib.get_close_matches(name, names, n=8, cutoff=0.3)
        raise ConfigError(f"{package} has no environment {name!r}", choose(name, near or list(names)[:8]))


def first_message(settings: Mapping[str, Any], observation: str, rules: str = "") -> str:
    """Return the first message: `data.env.prompt` with the observation in it, or else the rules and the observation."""
    prompt = settings.get("prompt") or f"{rules}\n{{observation}}".lstrip()
    return str(prompt).replace("{observation}", observation)


def numbers_in(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among what an environment reports, to be logged."""
    kinds = (int, float, np.number, np.bool_)
    return {str(name): float(value) for name, value in values.items() if isinstance(value, kinds)}
