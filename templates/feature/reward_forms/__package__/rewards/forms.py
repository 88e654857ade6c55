# vextract:template
"""Reward functions as people write them: told apart by the names of their arguments."""

import inspect
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any

from .scoring import takes_batch

# What a function that scores one sample may ask for, besides the columns of the data.
TEXTS = ("solution_str", "response", "completion")
OF_SAMPLE = ("data_source", "ground_truth", "extra_info", "prompt", *TEXTS)
VERLS = ("data_source", "solution_str", "ground_truth", "extra_info")
# What one that scores a batch may ask for. The first are verl's names; "completions" says that it is of TRL's form.
VERLS_OF_BATCH = ("data_sources", "solution_strs", "ground_truths", "extra_infos")
OF_BATCH = ("prompts", "completions", "completion_ids", "responses", "trainer_state", "log_extra", "log_metric")
FORMS = (
    "f(data_source, solution_str, ground_truth, extra_info), f(response), f(prompt, response), "
    "f(prompts, completions, **columns) -> list, or a reward manager f(batch, return_dict)"
)


class FormError(ValueError):
    """A reward cannot be called: it takes arguments that nothing is known to put into."""


@dataclass(frozen=True)
class Form:
    """Says how a reward is called.

    Attributes:
        kind: sample: once for each sample; batch: with lists; manager: with the batch itself.
        names: of the arguments that it is called with.
        takes_all: whether it gets all columns besides.
        by_position: whether the arguments have other names there.
    """

    kind: str
    names: tuple[str, ...] = ()
    takes_all: bool = False
    by_position: bool = False


def form_of(function: Callable[..., Any], columns: Set[str] | None = None) -> Form:
    """Tell how a reward is called.

    Args:
        function: or an object with `__call__`.
        columns: of the data; None: not known yet.

    Raises:
        FormError: it needs an argument that is neither among the known ones nor a column.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise FormError(f"the arguments of {name_of(function)} cannot be told; its form has to be {FORMS}") from error
    takes_all = any(item.kind is item.VAR_KEYWORD for item in parameters)
    named = [item for item in parameters if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)]
    names = [item.name for item in named]
    required = [item.name for item in named if item.default is item.empty]
    known = {*OF_SAMPLE, *OF_BATCH, *VERLS_OF_BATCH, *(columns or ())}
    if takes_batch(function):
        return Form("manager")
    if {"completions", "responses", "solution_strs"} & set(names):
        return Form("batch", _chosen(function, named, {*OF_BATCH, *VERLS_OF_BATCH}, columns), takes_all)
    if not names and takes_all:
        return Form("sample", VERLS)
    if len(required) == 1 and required[0] not in known:
        return Form("sample", ("response",), by_position=True)
    if len(required) == 2 and not set(required) & known:
        return Form("sample", ("prompt", "response"), by_position=True)
    chosen = _chosen(function, named, set(OF_SAMPLE), columns)
    if not set(chosen) & set(TEXTS):
        raise FormError(f"{name_of(function)} takes {', '.join(names) or 'nothing'}; its form has to be {FORMS}")
    if takes_all and set(names) >= set(VERLS[:3]):  # what is left over may be for verl's other settings
        return Form("sample", tuple(dict.fromkeys((*VERLS, *chosen))))
    return Form("sample", chosen, takes_all)


def name_of(function: Any) -> str:
    """Return what a reward function is called, for its metric."""
    inner = getattr(function, "func", function)
    name = getattr(inner, "__name__", type(inner).__name__)
    return "reward" if name == "<lambda>" else str(name)


def _chosen(
    function: Any, named: list[inspect.Parameter], known: Set[str], columns: Set[str] | None
) -> tuple[str, ...]:
    """Return the arguments to give; those with a default that nothing is known for are left out."""
    if any(item.kind is item.POSITIONAL_ONLY for item in named):
        raise FormError(f"{name_of(function)} takes arguments by position only; its form has to be {FORMS}")
    missing = [
        item.name
        for item in named
        if item.default is item.empty and item.name not in known and columns is not None and item.name not in columns
    ]
    if missing:
        has = ", ".join(sorted(columns or ()))
        raise FormError(
            f"{name_of(function)} takes {', '.join(missing)}, and no column of the data is called so (it has {has}); "
            f"its form has to be {FORMS}"
        )
    return tuple(
        item.name for item in named if item.name in known or item.default is item.empty or item.name in (columns or ())
    )
