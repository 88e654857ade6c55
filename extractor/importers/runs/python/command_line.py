"""What the words of a command say of the options that a program has declared, as argparse itself reads them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import yaml

from extractor.importers.runs.python.values import Computed, Option
from extractor.importers.runs.unknowns import with_words
from extractor.values.configtree.compose import read_yaml

_ACTIONS = ("store", "store_true", "store_false", "store_const", "append", "append_const", "extend", "count")
BOTH_WAYS = "BooleanOptionalAction"
_FLAG = re.compile(r"--?[A-Za-z]")


class _Unreadable(Exception):
    """The words do not fit the options."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Unreadable(message)


def said(words: Sequence[str], options: Mapping[str, Option]) -> tuple[dict[str, Any], list[str]]:
    """Return the options that a command says, as texts, flags or lists of these; and the words that are none's.

    Args:
        words: Of the command, behind the program.
        options: By name. Those that stand for another one by a name of their own are not asked.
    """
    parser = _Parser(add_help=False, argument_default=argparse.SUPPRESS, conflict_handler="resolve")
    kept = {name: option for name, option in options.items() if option.flags is not None}
    try:
        for name, option in kept.items():
            _declare(parser, name, option)
        found, left = parser.parse_known_args(list(words))
    except (_Unreadable, argparse.ArgumentError, TypeError, ValueError):
        return {}, []
    return vars(found), left


def value(text: str) -> Any:
    """Return what a word means whose option does not say of which type it is."""
    plain, back = with_words(text)
    try:
        return float(plain) if "e" in plain.lower() and plain[:1].isdigit() else back(read_yaml(plain))
    except (ValueError, yaml.YAMLError):
        return back(plain)


def _declare(parser: argparse.ArgumentParser, name: str, option: Option) -> None:
    flags = option.flags or ()
    nargs = option.nargs if isinstance(option.nargs, (int, str)) and not isinstance(option.nargs, Computed) else None
    if not flags:
        parser.add_argument(name, nargs=nargs or "?")
    elif option.action == BOTH_WAYS:
        offs = option.offs or [f"--no-{flag[2:]}" for flag in flags if flag.startswith("--")]
        parser.add_argument(*flags, dest=name, action="store_const", const=True)
        parser.add_argument(*offs, dest=name, action="store_const", const=False)
    elif option.action in ("store_true", "store_false", "count"):
        parser.add_argument(*flags, dest=name, action=option.action)
    elif option.action in ("store_const", "append_const"):
        parser.add_argument(*flags, dest=name, action=option.action, const=option.const)
    else:
        action = option.action if option.action in _ACTIONS else "store"
        const = {"const": option.const} if nargs == "?" else {}
        parser.add_argument(*flags, dest=name, action=action, nargs=nargs, **const)


def is_flag(text: Any) -> bool:
    """Tell whether a text is the flag of an option."""
    return isinstance(text, str) and not isinstance(text, Computed) and _FLAG.match(text) is not None
