"""What a script's command line says: by argparse, as fields of dataclasses, by typer and the like."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import Any

from extractor.usecases.fromrun.python.run import Run
from extractor.usecases.fromrun.python.values import (
    Computed,
    FilePath,
    Items,
    Made,
    Method,
    Option,
    Outside,
    OwnClass,
    Unsaid,
)

_PARTS = ("add_argument_group", "add_mutually_exclusive_group", "add_subparsers", "add_parser")
# Give a default, where they stand as one.
_OPTIONS = ("Option", "Argument")
_BY_A_CLASS = ("tyro.cli", "simple_parsing.parse", "draccus.parse", "pyrallis.parse")
_TYPES = {"int": int, "float": float, "str": str, "Path": FilePath, "pathlib.Path": FilePath}
PARSES = (
    *("parse_args", "parse_known_args", "parse_args_and_config", "parse_args_into_dataclasses", "parse"),
    *("parse_intermixed_args", "parse_yaml_file", "parse_json_file", "parse_dict"),
)
# What a parser is told by whatever name the script has for it.
OF_A_PARSER = ("add_argument", "set_defaults", *_PARTS, *PARSES[:4])


def called(name: str, given: Sequence[Any], named: Items, node: ast.Call, run: Run) -> Any:
    """Return what a function gives that reads the command line; None: it does not."""
    if name.startswith(("typer.", "click.")) and name.rpartition(".")[2] in _OPTIONS:
        default = given[0] if given else named.items.get("default")
        return Unsaid(ast.unparse(node)) if default is None or default is ... else default
    if name in _BY_A_CLASS and given and isinstance(given[0], OwnClass):
        return _filled(given[0], node, run)
    return None


def by_method(target: Method, given: Sequence[Any], named: Items, node: ast.Call, run: Run) -> Any:
    """Return what a method of a parser gives; None: it is none."""
    found = run.state.of(target.owner)
    is_text = isinstance(target.owner, str) and not isinstance(target.owner, Computed)
    if is_text or not (found is None or isinstance(found, Made)):
        return None
    if target.name == "add_argument":
        _add(given, named, run)
        return target.owner
    if target.name in _PARTS:
        return target.owner
    if target.name == "set_defaults" and isinstance(found, Made):
        run.options |= {name: Option(value) for name, value in named.items.items()}
        return target.owner
    if target.name not in PARSES:
        return None
    if classes := _classes(found, run):
        return tuple(_filled(kind, node, run) for kind in classes)
    if not target.name.startswith("parse_") or not (target.name.endswith("args") or not run.options):
        return None
    args = _namespace(run)
    return (args, run.entered(_unknown(run))) if "known" in target.name else args


def _classes(found: Any, run: Run) -> list[Any]:
    """Return the classes that a parser fills: `HfArgumentParser((Script, GRPOConfig))`."""
    if not isinstance(found, Made):
        return []
    first = [*found.given[:1], *(value for key, value in found.named.items.items() if key == "dataclass_types")]
    listed = [item for value in first for item in (run.iterated(value) or [value])]
    return [item for item in listed if isinstance(item, (OwnClass, Outside))]


def _filled(kind: Any, node: ast.Call, run: Run) -> Any:
    """Return an instance of a class with what the command line says of its fields."""
    if isinstance(kind, Outside):
        return run.new(Made(kind.name, (), Items(), node, is_parsed=True))
    fields = run.fields(kind)
    for name, value in [*fields.items.items()]:
        if name in run.given:
            fields.items[name] = run.entered(run.given[name])
            fields.nodes.pop(name, None)
        elif isinstance(value, Computed):
            fields.items[name] = Unsaid(f"args.{name}")
    said = {name: value for name, value in fields.items.items() if name in run.given}
    return run.new(Made(kind.node.name, (), Items(said), node, kind, is_parsed=True, defaults=fields))


def _add(given: Sequence[Any], named: Items, run: Run) -> None:
    flags = [item for item in given if isinstance(item, str) and not isinstance(item, Computed)]
    said = named.items
    longest = next((item for item in flags if item.startswith("--")), flags[0] if flags else "")
    name = said["dest"] if isinstance(said.get("dest"), str) else longest.lstrip("-").replace("-", "_")
    if not name:
        return
    action = said.get("action")
    unsaid: Any = {"store_true": False, "store_false": True}.get(str(action), Unsaid(f"args.{name}"))
    default = said.get("default", unsaid)
    is_needed = said.get("required") is True or not longest.startswith("-")
    if not longest.startswith("-") and said.get("nargs") == "*" and "default" not in said:
        default, is_needed = run.entered([]), False
    kind = said.get("type")
    if not longest.startswith("-") and name not in run.positional:
        run.positional.append(name)
    if is_needed and "default" not in said:
        default = Computed(f"args.{name}")
    elif default is None:
        default = Unsaid(f"args.{name}")
    run.options[name] = Option(default, kind.name if isinstance(kind, Outside) else "")
    flag = longest.lstrip("-").replace("-", "_")
    if flag != name:
        run.options[flag] = Option(Computed(name), "")


def _namespace(run: Run) -> Any:
    """Return what `parse_args` gives."""
    made = Items(maker="SimpleNamespace")
    first = [*itertools.takewhile(lambda word: not word.startswith("-"), run.words or ())]
    said = {**dict(zip(run.positional, first, strict=False)), **run.given}
    for name, option in run.options.items():
        if isinstance(option.default, Computed) and str(option.default) in run.options:
            other = str(option.default)  # `--no-4bit` with `dest="by_four"`
            if name in said:
                made.items[other] = _typed(said[name], run.options[other], run)
        elif name in said:
            made.items[name] = _typed(said[name], option, run)
        else:
            is_text = type(option.default) is str  # which argparse reads as it would read a word of the command
            made.items.setdefault(name, _typed(option.default, option, run) if is_text else option.default)
    return run.new(made)


def _unknown(run: Run) -> list[str]:
    """Return the words of the command that no option of a parser has taken."""
    found: list[str] = []
    words, positional = list(run.words or ()), len(run.positional)
    while words:
        word = words.pop(0)
        flag, equals, _ = word.partition("=")
        option = run.options.get(flag.lstrip("-").replace("-", "_")) if flag.startswith("--") else None
        if option is not None:
            if not equals and not isinstance(option.default, bool):
                del words[:1]
        elif not word.startswith("-") and not found and positional:
            positional -= 1
        else:
            found.append(word)
    return found


def _typed(value: Any, option: Option, run: Run) -> Any:
    if option.default is True and value is True:  # `store_false`
        return False
    kind = _TYPES.get(option.kind.removeprefix("builtins."))
    if kind is None or isinstance(value, (bool, list, dict)) or value is None:
        return run.entered(value)
    try:
        return kind(value) if not isinstance(value, Computed) else value
    except ValueError:
        return run.entered(value)
