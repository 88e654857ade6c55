"""Read the table of cases (`cases.yaml`) and make what it calls and what it calls it with."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from omegaconf import OmegaConf

from . import batches, inputs, losses, rewards, training
from .calling import capture_outcome, compute
from .inputs import CHOICES, VALUES, Each
from .sides import Side

Thunk = Callable[[], Any]
Cases = Iterator[tuple[Any, Any]]
# Modules here, whose functions take a side and do what takes more than one call.
_STEPS = {"batches": batches, "losses": losses, "rewards": rewards, "training": training}
_MAKE = "make_"


@dataclass(frozen=True)
class CaseFamily:
    """A family of cases.

    Attributes:
        name: First part of its cases' names ("core_algos.kl_penalty").
        needs: The upstream module without which there is nothing to compare.
        expand: Yields each case's own name and what computes it. A case runs before the next one is made.
    """

    name: str
    needs: str
    expand: Callable[[Side], Cases]


# Reading the table


def _make_objects(values: list[Any]) -> Any:
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


# What is made for a case with a side's own classes: by a function called so, or by what a module says.
MADE: dict[str, Callable[..., Any]] = {
    **{
        name.removeprefix(_MAKE): made
        for module in (inputs, *_STEPS.values())
        for name, made in vars(module).items()
        if name.startswith(_MAKE) and made.__module__ == module.__name__
    },
    **inputs.MADE,
    **batches.MADE,
    **losses.MADE,
    **rewards.MADE,
}
# What a tag makes of what stands behind it.
TAGS: dict[str, Callable[[Any], Any]] = {
    "array": lambda value: np.array(value)[()],
    "config": OmegaConf.create,
    "double": partial(torch.tensor, dtype=torch.float64),
    "each": Each,
    "long": partial(torch.tensor, dtype=torch.long),
    "objects": _make_objects,
    "slice": lambda values: slice(*values),
    "tensor": torch.tensor,
    "tuple": tuple,
}


class _Loader(yaml.SafeLoader):
    """Reads YAML with the tags of arrays and tensors."""


def _construct(loader: _Loader, tag: str, node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return TAGS[tag](loader.construct_mapping(node, deep=True))
    if isinstance(node, yaml.SequenceNode):
        return TAGS[tag](loader.construct_sequence(node, deep=True))
    return TAGS[tag](yaml.safe_load(node.value))


_Loader.add_multi_constructor("!", _construct)


def read_table() -> list[CaseFamily]:
    """Return the families of the table."""
    text = Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8")
    families = []
    for name, rows in yaml.load(text, _Loader).items():
        needs, common = rows.pop("in"), rows.pop("with", {})
        families.append(CaseFamily(name, needs, partial(_iterate_rows, needs, rows, common)))
    return families


def _iterate_rows(needs: str, table: dict[str, list[dict[str, Any]]], common: dict[str, Any], side: Side) -> Cases:
    """Yield a case for each combination of arguments in each row."""
    for function, rows in table.items():
        module, _, step = function.partition(".")
        for number, row in enumerate(rows):
            row = {**common, **row}
            label = row.pop("case", str(number) if number else "")
            only_kind, uncaught = row.pop("kind", False), row.pop("uncaught", False)
            for texts, given in _combine(row, side):
                given |= given.pop("set", {})
                if module in _STEPS:
                    own = getattr(_STEPS[module], step)
                    case = partial(_take_step, own, side, given, uncaught)
                else:
                    case = partial(_call, f"{needs}:{function}", side, given)
                shown = (step if module in _STEPS else function) if len(table) > 1 else ""
                name = "/".join(text for text in (shown, *texts, label) if text)
                yield name, partial(_name_kind, case) if only_kind else case


def _take_step(own: Callable[..., Any], side: Side, given: dict[str, Any], uncaught: bool) -> Any:
    made = _make(given, side)
    return own(side, **made) if uncaught else capture_outcome(own, side, **made)


def _call(symbol: str, side: Side, given: dict[str, Any]) -> Any:
    function = None if symbol.endswith(":call") else side.get(symbol)
    made = capture_outcome(_make, given, side)
    if isinstance(made, Exception):
        return made
    return compute(function or made.pop("of"), available=VALUES, **made)


def _name_kind(case: Thunk) -> str:
    result = case()
    return type(result[0] if isinstance(result, tuple) else result).__name__


def _combine(given: dict[str, Any], side: Side) -> Cases:
    """Yield a label and arguments for each combination of choices."""
    choices = [_list_choices(value, side) for value in given.values()]
    for chosen in product(*(choice.items() for choice in choices)):
        yield [text for text, _ in chosen], dict(zip(given, (value for _, value in chosen), strict=True))


def _list_choices(value: Any, side: Side) -> dict[str, Any]:
    """Return by label what a value of the table stands for: one thing, or several."""
    if isinstance(value, Each):
        return value
    if isinstance(value, list):
        choices = {}
        for item in value:
            items = {"": item} if isinstance(item, list) else _list_choices(item, side)
            choices.update({one or str(item).lstrip("$")[:60]: chosen for one, chosen in items.items()})
        return choices
    if (name := _read_name(value)) and isinstance(value, dict):
        combined = _combine(value[f"${name}"], side)
        return {"/".join(filter(None, texts)): {f"${name}": chosen} for texts, chosen in combined}
    if name and name in CHOICES:
        return CHOICES[name](side)
    known = VALUES.get(name)
    return known if isinstance(known, Each) else {"": value}


def _read_name(value: Any) -> str:
    """Return the name in "$name" or {$name: arguments}, else ""."""
    text = next(iter(value), "") if isinstance(value, dict) and len(value) == 1 else value
    return text[1:] if isinstance(text, str) and text.startswith("$") else ""


def _make(value: Any, side: Side) -> Any:
    """Return a value of the table with what it names."""
    if name := _read_name(value):
        given = _make(value[f"${name}"], side) if isinstance(value, dict) else {}
        return MADE[name](side, **given) if name in MADE else VALUES[name]
    if isinstance(value, dict):
        return {key: _make(item, side) for key, item in value.items()}
    return [_make(item, side) for item in value] if isinstance(value, list) else value
