"""The model that a training script trains: what it loads, and what it has made of that before it hands it over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from extractor.usecases.fromrun.files import is_on_the_hub
from extractor.usecases.fromrun.other_libraries.script_calls import may_hold, walked
from extractor.usecases.fromrun.other_libraries.script_names import Known, name_of
from extractor.usecases.fromrun.other_libraries.script_values import Computed, value_of

_LOADS = re.compile(r"(Model|For(CausalLM|ConditionalGeneration))\w*\.from_pretrained$")
_NAMED = ("model_name", "pretrained_model_name_or_path")
# Loads an adapter into one.
_ADAPTS = "PeftModel.from_pretrained"
# Loads one by a function of the script's repository.
_MAY_LOAD = re.compile(r"(load|get|build|make|create|setup|init|prepare)_?\w*model\w*", re.IGNORECASE)
_MOVES = ("bfloat16", "cuda", "eval", "float", "half", "merge_and_unload", "to", "train")
# How often a model becomes something else.
_DEEPEST = 20


def loaded(handed_over: Sequence[ast.expr], calls: Sequence[ast.Call], known: Known) -> str | None:
    """Return the model that a script loads; None where it loads none, several, or one that is not known.

    Args:
        handed_over: What its trainers get.
        calls: Of the script: where trainers get something else, a model may be loaded in any above them.
        known: What its names stand for.
    """
    made = [[*_made_by(node, known)] for node in handed_over]
    loading = [call for calls_ in made for call in calls_ if _loads(call)]
    loading = loading or [call for call in calls if call.lineno < known.last and _loads(call)]
    paths: set[Any] = set()
    for call in loading:
        given = [*call.args[:1], *(item.value for item in call.keywords if item.arg in _NAMED)]
        paths |= {value_of(node, known) for node in given}
    if not paths:
        first = [calls_[0] for calls_ in made if calls_ and _MAY_LOAD.fullmatch(name_of(calls_[0]))]
        paths = {value for call in first for value in [value_of(node, known) for node in call.args[:1]]}
        paths = {value for value in paths if isinstance(value, str) and is_on_the_hub(value)}
    only = paths.pop() if len(paths) == 1 else None
    return only if isinstance(only, str) and not isinstance(only, Computed) else None


def adapter(tree: ast.Module, known: Known) -> dict[str, str]:
    """Return the adapter that a script puts into the model that it loads, where it does, or may do."""
    for node, conditions, _ in walked(tree):
        is_simple = isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return, ast.Expr))
        if not is_simple or node.lineno > known.last or not may_hold(conditions, known):
            continue  # below it is what is done with the model afterwards
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(_ADAPTS) and len(call.args) > 1:
                return {"adapter": str(value_of(call.args[1], known))}
    return {}


def _loads(call: ast.Call) -> bool:
    owner = ast.unparse(call.func)
    return _LOADS.search(owner) is not None and not owner.endswith(_ADAPTS)


def _made_by(node: ast.expr, known: Known) -> Iterator[ast.Call]:
    """Yield the calls that a model has come from, the last first: moved, prepared, given an adapter, loaded."""
    made: ast.expr | None = node
    for _ in range(_DEEPEST):
        if isinstance(made, ast.Name):
            made = known.there.get(id(made)) or known.constants.get(made.id)
        elif isinstance(made, ast.Call):
            yield made
            is_moved = isinstance(made.func, ast.Attribute) and made.func.attr in _MOVES
            made = made.func.value if is_moved else next(iter(made.args), None)  # type: ignore[attr-defined]
