"""Cases of functions and methods, with the arguments that `calls.yaml` has for them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from omegaconf import OmegaConf

from .cases import CaseMaker, Cases, Each, family
from .pool import MADE, VALUES


def _make_objects(values: list[Any]) -> Any:
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


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


class Loader(yaml.SafeLoader):
    """Reads YAML with the tags of arrays and tensors."""


def _construct(loader: Loader, tag: str, node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return TAGS[tag](loader.construct_mapping(node, deep=True))
    if isinstance(node, yaml.SequenceNode):
        return TAGS[tag](loader.construct_sequence(node, deep=True))
    return TAGS[tag](yaml.safe_load(node.value))


Loader.add_multi_constructor("!", _construct)


def register() -> None:
    """Register a family of cases for each entry of the table."""
    text = Path(__file__).with_name("calls.yaml").read_text(encoding="utf-8")
    for name, table in yaml.load(text, Loader).items():
        needs, common = table.pop("in"), table.pop("with", {})
        family(name, needs)(partial(_iterate_calls, table, common))


def _iterate_calls(table: dict[str, list[dict[str, Any]]], common: dict[str, Any], call: CaseMaker) -> Cases:
    """Yield a case for each combination of arguments in each row."""
    for function, rows in table.items():
        for number, row in enumerate(rows):
            row = {**common, **row}
            label = row.pop("case", str(number) if number else "")
            only_kind = row.pop("kind", False)
            given = {name: _list_choices(value, call) for name, value in row.items()}
            for name, case in call.grid(function, label=label, available=VALUES, **given):
                yield name, (lambda: _name_kind(case())) if only_kind else case


def _name_kind(result: Any) -> str:
    return type(result if isinstance(result, Exception) else result[0]).__name__


def _list_choices(value: Any, call: CaseMaker) -> Any:
    """Return a value of the table with what it names; a list becomes `Each` of its items."""
    if not isinstance(value, list):
        return _resolve(value, call)
    found = Each()
    for item in value:
        made, label = _resolve(item, call), str(item).lstrip("$")[:60]
        found.update(made if isinstance(made, Each) else {label: made})
    return found


def _resolve(value: Any, call: CaseMaker) -> Any:
    if isinstance(value, str) and value.startswith("$"):
        return MADE[value[1:]](call.side) if value[1:] in MADE else VALUES[value[1:]]
    if isinstance(value, Each):
        return Each({label: _resolve(item, call) for label, item in value.items()})
    if isinstance(value, dict):
        return {key: _resolve(item, call) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolve(item, call) for item in value]
    return value
