"""The model that a training script trains: what it loads, and what it has made of that before it hands it over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from extractor.importers.runs.places import is_on_the_hub
from extractor.importers.runs.python.states import Event, State, plain_of
from extractor.importers.runs.python.values import Computed, Either, Made, Method, Ref

LOADS = re.compile(r"(Model|For(CausalLM|ConditionalGeneration))\w*\.from_pretrained$")
_NAMED = ("model_name", "pretrained_model_name_or_path", "model_name_or_path", "model_id", "model_path")
# Loads an adapter into one.
ADAPTS = "PeftModel.from_pretrained"
# Loads one by a function that is not here.
_MAY_LOAD = re.compile(r"(load|get|build|make|create|setup|init|prepare)_?\w*model\w*", re.IGNORECASE)
# How often a model becomes something else.
_DEEPEST = 20


def came_from(value: Any, state: State) -> Iterator[Made]:
    """Yield the calls that a model has come from, the last first: moved, prepared, given an adapter, loaded."""
    waiting = [value]
    for _ in range(_DEEPEST):
        if not waiting:
            return
        value = waiting.pop(0)
        made = state.of(value)
        if isinstance(value, Either):
            waiting.extend(value.parts)
        elif isinstance(made, Made) and made.kind is None:
            yield made
            owner = made.owner.owner if isinstance(made.owner, Method) else made.owner
            first = [*made.given[:1], *(made.named.items[name] for name in ("model",) if name in made.named.items)]
            waiting += [owner] if isinstance(owner, Ref) else first[:1]


def loaded(value: Any, state: State, loads: Sequence[Event]) -> str | None:
    """Return the model that a trainer gets; None where that is not known.

    Args:
        value: What it gets.
        state: The objects that there are then.
        loads: Where the script loads models, above it: any of them may be its one.
    """
    made = [*came_from(value, state)]
    loading = [(item, state) for item in made if _loads(item.of)]
    loading = loading or [(event.made, event.state) for event in loads if _loads(event.of)]
    paths: list[Any] = [_named(item, there) for item, there in loading]
    if not paths:
        last = made[-1] if made else None
        first = last.given[0] if last is not None and last.given else None
        is_model = last is not None and _MAY_LOAD.fullmatch(last.of.rpartition(".")[2]) is not None
        paths = [first] if is_model and isinstance(first, str) and is_on_the_hub(first) else []
    only = set(paths)
    path = only.pop() if len(only) == 1 else None
    return path if isinstance(path, str) and not isinstance(path, Computed) else None


def adapter(value: Any, state: State, loads: Sequence[Event]) -> str | None:
    """Return the adapter that a script puts into the model that it loads; None: it puts none into it."""
    made = [(item, state) for item in came_from(value, state)]
    if not any(_loads(item.of) for item, _ in made):
        made += [(event.made, event.state) for event in loads]
    for item, there in made:
        if item.of.endswith(ADAPTS):
            path = item.given[1] if len(item.given) > 1 else item.named.items.get("model_id")
            return None if path is None else str(plain_of(path, there))
    return None


def _named(made: Made, state: State) -> Any:
    given = [*made.given[:1], *(made.named.items[name] for name in _NAMED if name in made.named.items)]
    return plain_of(given[0], state, made.node) if given else Computed(made.of)


def _loads(of: str) -> bool:
    return LOADS.search(of) is not None and not of.endswith(ADAPTS)
