"""What a script's command line says: by argparse, as fields of dataclasses, by typer and the like."""

from __future__ import annotations

import argparse
import ast
from collections.abc import Mapping, Sequence
from typing import Any

from extractor.importers.runs.python import command_line
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.values import (
    Computed,
    FilePath,
    Items,
    Listed,
    Made,
    Method,
    Option,
    Outside,
    Own,
    OwnClass,
    Ref,
    Unsaid,
)

_GROUPS = ("add_argument_group", "add_mutually_exclusive_group")
_COMMANDS, _COMMAND = "add_subparsers", "add_parser"
# Give a default, where they stand as one.
_OPTIONS = ("Option", "Argument")
_BY_A_CLASS = ("tyro.cli", "simple_parsing.parse", "draccus.parse", "pyrallis.parse")
_TYPES = {"int": int, "float": float, "str": str, "bool": bool, "Path": FilePath, "pathlib.Path": FilePath}
_NARGS = {
    f"argparse.{name}": getattr(argparse, name) for name in ("OPTIONAL", "ZERO_OR_MORE", "ONE_OR_MORE", "REMAINDER")
}
PARSES = (
    *("parse_args", "parse_known_args", "parse_args_and_config", "parse_args_into_dataclasses", "parse"),
    *("parse_intermixed_args", "parse_yaml_file", "parse_json_file", "parse_dict"),
)
# What a parser is told by whatever name the script has for it.
OF_A_PARSER = ("add_argument", "set_defaults", *_GROUPS, _COMMANDS, _COMMAND, *PARSES[:4])


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
        _add(given, named, run, _options_of(target.owner, run))
        return target.owner
    if target.name in _GROUPS:
        return target.owner
    if target.name == _COMMANDS:
        run.command_option = dest if isinstance(dest := named.items.get("dest"), str) else ""
        return target.owner
    if target.name == _COMMAND:
        return _command(given, node, run)
    if target.name == "set_defaults" and isinstance(found, Made):
        _options_of(target.owner, run).update({name: Option(value) for name, value in named.items.items()})
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


def _options_of(parser: Any, run: Run) -> dict[str, Option]:
    """Return the options of a parser: its command's, or those that all commands have."""
    return run.commands.get(run.parser_of.get(parser, ""), run.options) if isinstance(parser, Ref) else run.options


def _command(given: Sequence[Any], node: ast.Call, run: Run) -> Any:
    """Return the parser of one of a script's commands."""
    parser = run.new(Made("argparse.ArgumentParser", (), Items(), node))
    name = given[0] if given else None
    if isinstance(name, str) and not isinstance(name, Computed):
        run.parser_of[parser] = name
        run.commands.setdefault(name, {})
    return parser


def _add(given: Sequence[Any], named: Items, run: Run, options: dict[str, Option]) -> None:
    flags = tuple(item for item in given if isinstance(item, str) and not isinstance(item, Computed))
    said = named.items
    longest = next((item for item in flags if item.startswith("--")), flags[0] if flags else "")
    name = said["dest"] if isinstance(said.get("dest"), str) else longest.lstrip("-").replace("-", "_")
    if not name:
        return
    is_placed, kind, action = not longest.startswith("-"), said.get("type"), said.get("action")
    action = action.name.rpartition(".")[2] if isinstance(action, Outside) else str(action or "store")
    unsaid: Any = {"store_true": False, "store_false": True}.get(action, Unsaid(f"args.{name}"))
    default = said.get("default", unsaid)
    nargs = _NARGS.get(nargs.name, nargs) if isinstance(nargs := said.get("nargs"), Outside) else nargs
    if is_placed and nargs in ("*", argparse.REMAINDER) and "default" not in said:
        default = run.entered([])
    elif (said.get("required") is True or is_placed) and "default" not in said:
        default = Computed(f"args.{name}")
    elif default is None:
        default = Unsaid(f"args.{name}")
    options[name] = Option(
        default,
        kind.name.removeprefix("builtins.") if isinstance(kind, Outside) else kind,
        () if is_placed else flags,
        action=action,
        nargs=nargs,
        const=said.get("const"),
    )
    flag = longest.lstrip("-").replace("-", "_")
    if flag != name:
        options[flag] = Option(Computed(name))


def _namespace(run: Run) -> Any:
    """Return what `parse_args` gives."""
    made = Items(maker="SimpleNamespace")
    options = _asked(run)
    words = command_line.said(_words(run), options)[0]
    for name, option in options.items():
        if isinstance(option.default, Computed) and str(option.default) in options:
            other = str(option.default)  # `--no-4bit` with `dest="by_four"`
            if name in run.given and other not in words:
                made.items[other] = _typed(run.given[name], options[other], run)
        elif name in words:
            made.items[name] = word_value(words[name], option, run)
        elif name in run.given:
            made.items[name] = _typed(run.given[name], option, run)
        else:
            made.items.setdefault(name, unsaid(option, run))
    if run.command_option:
        made.items[run.command_option] = _chosen(run) or Computed(f"args.{run.command_option}")
    return run.new(made)


def _chosen(run: Run) -> str:
    """Return the command of a script that is asked for; "": none, or nobody says."""
    said = run.given.get(run.command_option)
    return next((word for word in run.words or () if word in run.commands), said if said in run.commands else "")


def _asked(run: Run) -> Mapping[str, Option]:
    """Return the options of the command that is asked for; of all where none is."""
    chosen = _chosen(run)
    commands = [run.commands[chosen]] if chosen else run.commands.values()
    return {name: option for options in (run.options, *commands) for name, option in options.items()}


def _words(run: Run) -> list[str]:
    """Return the words of the command without the one that chooses among those of a script."""
    words, chosen = list(run.words or ()), _chosen(run)
    if chosen in words:
        words.remove(chosen)
    return words


def _unknown(run: Run) -> list[str]:
    """Return the words of the command that no option of a parser has taken."""
    return command_line.said(_words(run), _asked(run))[1]


def word_value(word: Any, option: Option, run: Run) -> Any:
    """Return what a word of the command, or several, are worth as an option."""
    if isinstance(word, list):
        return run.new(Listed([word_value(item, option, run) for item in word]))
    if not isinstance(word, str) or option.kind is None:
        return word
    if isinstance(option.kind, Own):
        made = run.enter(option.kind, [word], Items(), word)
        return run.entered(command_line.value(word)) if isinstance(made, Computed) else made
    try:
        return _TYPES[option.kind](word)
    except (LookupError, TypeError, ValueError):
        return run.entered(command_line.value(word))


def unsaid(option: Option, run: Run) -> Any:
    """Return what an option is worth that the command line does not say."""
    if isinstance(option.default, Unsaid):
        return option.default if run.words is None else None
    is_text = type(option.default) is str  # which argparse reads as it would read a word of the command
    return _typed(option.default, option, run) if is_text else option.default


def _typed(value: Any, option: Option, run: Run) -> Any:
    if option.default is True and value is True:  # `store_false`
        return False
    kind = _TYPES.get(option.kind) if isinstance(option.kind, str) else None
    if kind is None or isinstance(value, (bool, list, dict)) or value is None:
        return run.entered(value)
    try:
        return kind(value) if not isinstance(value, Computed) else value
    except ValueError:
        return run.entered(value)
