"""What expressions of a training script are worth, as far as that can be said without running it."""

from __future__ import annotations

import ast
import operator
import posixpath
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import yaml

from extractor.usecases.fromrun.other_libraries.script_names import (
    Function,
    Known,
    bound_by,
    handed_to,
    is_own,
    name_of,
    result_of,
)
from extractor.values import readers
from extractor.values.configtree import resolve
from extractor.values.configtree.compose import read_mapping
from extractor.values.errors import UsageError

_OPERATIONS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}
_COMPARES: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}
_MAKES: Mapping[str, Callable[[Any], Any]] = {
    **{kind.__name__: kind for kind in (int, float, str, bool, list, dict)},
    "set": lambda value: value,
    **dict.fromkeys(("Path", "pathlib.Path", "os.path.abspath", "os.path.realpath"), str),
    "os.path.dirname": posixpath.dirname,
    "os.path.basename": posixpath.basename,
    "OmegaConf.to_container": lambda value: value,
}
# What is asked of a text or a path.
_OF_TEXT: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(str, name) for name in ("split", "strip", "lower", "upper", "rstrip", "lstrip")},
    **dict.fromkeys(("resolve", "absolute", "expanduser", "as_posix"), lambda text: text),
    "joinpath": posixpath.join,
}
_OF_PATH: Mapping[str, Callable[[str], str]] = {
    "parent": posixpath.dirname,
    "name": posixpath.basename,
    "stem": lambda text: PurePosixPath(text).stem,
}
_VARIABLES = ("os.getenv", "os.environ.get", "getenv", "environ.get")
# What is so on the GPU that such a run is for.
_OF_A_GPU = re.compile(r"(torch\.cuda\.)?is_(available|bf16_supported|bfloat16_supported|bf16_available)")
# What reads a config from a file, and what may do it by a function of the script's or its repository's.
_READS = ("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "json.loads", "OmegaConf.load")
_MAY_READ = re.compile(r"(load|read|get|parse)_?\w*(config|cfg|yaml|json|params|settings)\w*", re.IGNORECASE)
_CONFIGS = (".yaml", ".yml", ".json")
# How a number is written into a text.
_FORMAT = re.compile(r"[,.\d]{0,4}[defg%]?")
# Names that follow each other; how long a text or a list may get, and how large a number.
_DEEPEST, _LONGEST, _MOST_BITS = 20, 100_000, 1_000


class Computed(str):
    """The text of an expression that only the script knows the value of."""


class _Anything:
    """Has whatever is looked for in it: the names that a config of TRL's takes."""

    def __contains__(self, item: object) -> bool:
        return True


class _Opened(str):
    """The path of a file whose text is read."""


def value_of(node: ast.expr, known: Known) -> Any:
    """Return the value of an expression, or its text."""
    try:
        value = _worked_out(node, known, 0)
        if not isinstance(value, (_Opened, _Anything)) and not (isinstance(value, str) and "${" in value):
            return value
    except (ValueError, TypeError, SyntaxError, ArithmeticError, LookupError, MemoryError, RecursionError):
        pass
    return Computed(ast.unparse(known.constants.get(node.id, node) if isinstance(node, ast.Name) else node))


def _worked_out(node: ast.expr, known: Known, depth: int) -> Any:
    if depth > _DEEPEST:
        raise RecursionError
    way = _WAYS.get(type(node))
    value = ast.literal_eval(node) if way is None else way(node, known, depth + 1)
    if isinstance(value, (str, list)) and len(value) > _LONGEST:
        raise ValueError("too long")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError("too large")
    return value


def _name(node: ast.Name, known: Known, depth: int) -> Any:
    if node.id == "__file__" and known.path is not None:
        return known.path.resolve().as_posix()
    stands_for = known.there.get(id(node)) or known.constants.get(node.id)
    if stands_for is None:
        raise ValueError(f"{node.id} is not known")
    return _worked_out(stands_for, known, depth)


def _operation(node: ast.BinOp, known: Known, depth: int) -> Any:
    one, other = (_worked_out(side, known, depth) for side in (node.left, node.right))
    if isinstance(node.op, ast.Div) and isinstance(one, str) and isinstance(other, str):
        return posixpath.join(one, other)
    if isinstance(node.op, ast.Add) and any(isinstance(one, kind) and isinstance(other, kind) for kind in (str, list)):
        return one + other
    if not all(isinstance(side, (int, float)) for side in (one, other)):
        raise TypeError("no numbers")
    return _OPERATIONS[type(node.op)](one, other)


def _list(node: ast.List, known: Known, depth: int) -> list[Any]:
    return [_worked_out(item, known, depth) for item in node.elts]


def _dict(node: ast.Dict, known: Known, depth: int) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found |= _worked_out(value, known, depth)
        else:
            found[_worked_out(key, known, depth)] = _worked_out(value, known, depth)
    return found


def _items(node: ast.ListComp, known: Known, depth: int) -> list[Any]:
    """Return the list of `[item.strip() for item in text.split(",") if item]`."""
    (part,) = node.generators
    if not isinstance(part.target, ast.Name):
        raise ValueError("several names")
    found = []
    for item in _worked_out(part.iter, known, depth):
        here = replace(known, constants={**known.constants, part.target.id: ast.Constant(item)})
        if all(_worked_out(test, here, depth) for test in part.ifs):
            found.append(_worked_out(node.elt, here, depth))
    return found


def _text(node: ast.JoinedStr, known: Known, depth: int) -> str:
    found = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = _worked_out(part.value, known, depth)
            how = "" if part.format_spec is None else _worked_out(part.format_spec, known, depth)
            if isinstance(value, _Opened) or part.conversion not in (-1, ord("s")) or not _FORMAT.fullmatch(how):
                raise ValueError("no text")
            found.append(format(value, how))
        else:
            found.append(ast.literal_eval(part))
    return "".join(found)


def _either_of(node: ast.IfExp, known: Known, depth: int) -> Any:
    return _worked_out(node.body if _worked_out(node.test, known, depth) else node.orelse, known, depth)


def _signed(node: ast.UnaryOp, known: Known, depth: int) -> Any:
    if isinstance(node.op, ast.Not):
        return not _worked_out(node.operand, known, depth)
    value = _worked_out(node.operand, known, depth)
    if not isinstance(value, (int, float)) or isinstance(node.op, ast.Invert):
        raise TypeError("no number")
    return -value if isinstance(node.op, ast.USub) else value


def _comparison(node: ast.Compare, known: Known, depth: int) -> bool:
    if len(node.ops) != 1:
        raise ValueError("several comparisons")
    one, other = (_worked_out(side, known, depth) for side in (node.left, *node.comparators))
    return _COMPARES[type(node.ops[0])](one, other)


def _first(node: ast.BoolOp, known: Known, depth: int) -> Any:
    """Return the first of what `or` or `and` joins that decides, or the last."""
    value = None
    for part in node.values:
        value = _worked_out(part, known, depth)
        if bool(value) is isinstance(node.op, ast.Or):
            break
    return value


def _item(node: ast.Subscript, known: Known, depth: int) -> Any:
    """Return an item of a list or a dict; of `path.parents[1]` the folder."""
    index = _worked_out(node.slice, known, depth)
    if isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
        return str(PurePosixPath(_worked_out(node.value.value, known, depth)).parents[index])
    owner = _worked_out(node.value, known, depth)
    if not isinstance(owner, (dict, list)):
        raise TypeError("no items")
    return owner[index]


def _attribute(node: ast.Attribute, known: Known, depth: int) -> Any:
    """Return an item, an option of the command line, `args.rate`, or an argument, `own.path` of `own = A(path=...)`."""
    if isinstance(node.value, ast.Name):
        made = known.there.get(id(node.value)) or known.constants.get(node.value.id)
        argument = next((item.value for item in getattr(made, "keywords", ()) if item.arg == node.attr), None)
        if argument is not None:
            return _worked_out(argument, known, depth)
    try:
        owner = _worked_out(node.value, known, depth)
    except (ValueError, TypeError, LookupError, SyntaxError, RecursionError):
        owner = None
    if isinstance(owner, dict):
        return owner[node.attr]
    if isinstance(owner, _Anything):
        return owner
    if isinstance(owner, str) and node.attr in _OF_PATH:
        return _OF_PATH[node.attr](owner)
    if not isinstance(node.value, ast.Name):
        raise ValueError(f"{node.attr} is not known")
    if node.attr in known.given and node.attr in known.options:
        return known.given[node.attr]
    default = known.options.get(node.attr)
    if default is None:
        raise ValueError(f"{node.value.id}.{node.attr} is not known")
    return _worked_out(default, known, depth)


def _called(node: ast.Call, known: Known, depth: int) -> Any:
    """Return what numbers, texts and paths are made of, a variable's default, and what a config file has."""
    called = ast.unparse(node.func)
    if called in known.functions:
        return _returned(known.functions[called], node, known, depth)
    if called in _READS and node.args:
        found = _read(_worked_out(node.args[0], known, depth), known)
        return resolve(found) if called.startswith("OmegaConf") else found
    if called == "inspect.signature":
        return _Anything()
    if _OF_A_GPU.fullmatch(called):
        return True
    given = [_worked_out(item, known, depth) for item in node.args]
    if called in ("open", "io.open") and given:
        return _Opened(given[0])
    if called in _VARIABLES and len(given) == 2:
        return given[1]
    if called == "os.path.join":
        return posixpath.join(*given)
    if called in _MAKES and len(given) == 1 and (not node.keywords or called.startswith("OmegaConf")):
        return _MAKES[called](given[0])
    if isinstance(node.func, ast.Attribute) and not node.keywords:
        return _method(_worked_out(node.func.value, known, depth), node.func.attr, given)
    return _may_be_read(name_of(node), given, known)


def _method(owner: Any, name: str, given: list[Any]) -> Any:
    if isinstance(owner, _Anything):
        return owner
    if isinstance(owner, dict) and name == "get":
        return owner.get(*given)
    if isinstance(owner, str) and name in ("open", "read_text", "read"):
        return _Opened(owner)
    if isinstance(owner, str) and name in _OF_TEXT:
        return _OF_TEXT[name](owner, *given)
    raise ValueError(f"{name} is called")


def _returned(function: Function, call: ast.Call, known: Known, depth: int) -> Any:
    """Return what one of the script's functions gives, which does no more than work that out; or the file it reads."""
    try:
        values = {
            name: ast.Constant(_worked_out(value, known, depth)) for name, value in bound_by(call, function).items()
        }
        if (result := result_of(function)) is None:
            raise ValueError(f"{function.name} may give this or that")
        here = ChainMap(dict(handed_to(function, values)), known.there)
        return _worked_out(result, replace(known, there=here), depth)
    except (ValueError, TypeError, LookupError):
        given = [_worked_out(value, known, depth) for value in call.args[:1]]
        return _may_be_read(function.name, given, known)


def _may_be_read(name: str, given: list[Any], known: Known) -> Any:
    """Return what is in the config file that a function is given, which is named after reading one."""
    if not given or not isinstance(given[0], str) or not given[0].endswith(_CONFIGS) or not _MAY_READ.fullmatch(name):
        raise ValueError(f"{name} is called")
    return _read(given[0], known)


def _read(path: Any, known: Known) -> dict[str, Any]:
    """Return what is in a config file."""
    file = known.places.find(path) if known.places is not None and isinstance(path, str) else None
    if file is None or not is_own(file, known.places):
        raise ValueError("no file of its own")
    try:
        text = readers.read_text(file)
        found = readers.parse_json(text) if file.suffix == ".json" else read_mapping(text, last_counts=True)
    except (OSError, UsageError, yaml.YAMLError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, dict):
        raise TypeError("no mapping")
    known.files.add(path)
    return found


_WAYS: Mapping[type[ast.expr], Callable[..., Any]] = {
    ast.Name: _name,
    ast.BinOp: _operation,
    ast.List: _list,
    ast.Dict: _dict,
    ast.ListComp: _items,
    ast.JoinedStr: _text,
    ast.IfExp: _either_of,
    ast.UnaryOp: _signed,
    ast.Compare: _comparison,
    ast.BoolOp: _first,
    ast.Subscript: _item,
    ast.Attribute: _attribute,
    ast.Call: _called,
}
