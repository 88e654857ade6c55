"""What functions and methods of Python's and of libraries give, of those that a script's settings go through."""

from __future__ import annotations

import copy
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from extractor.importers.runs.python import files
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.values import (
    DEEPEST,
    LONGEST,
    Anything,
    Computed,
    FilePath,
    Items,
    Listed,
    Made,
    Method,
    Opened,
    Outside,
    Own,
    OwnClass,
    Ref,
    TooLong,
)
from extractor.values.configtree import resolve

# What nothing here says the value of.
NOT_HERE = object()
_KINDS: Mapping[str, Callable[[Any], Any]] = {
    **{kind.__name__: kind for kind in (int, float, str, bool)},
    **dict.fromkeys(("Path", "PurePath", "pathlib.Path"), FilePath),
    **dict.fromkeys(
        ("os.fspath", "os.path.abspath", "os.path.realpath", "os.path.expanduser", "os.path.normpath"), str
    ),
    "os.path.dirname": posixpath.dirname,
    "os.path.basename": posixpath.basename,
}
_NUMBERS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max, "round": round, "abs": abs, "pow": pow}
_OVER_ALL: Mapping[str, Callable[[Any], Any]] = {"sum": sum, "any": any, "all": all}
_TYPES: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
_OBJECTS: Mapping[str, type] = {
    **dict.fromkeys(("dict", "Mapping", "DictConfig"), Items),
    **dict.fromkeys(("list", "ListConfig"), Listed),
}
# Methods of dicts, and of configs.
OF_DICTS = ("get", "pop", "setdefault", "update", "items", "keys", "values", "copy", "to_dict", "model_dump")
# What is asked of a text or a path.
_OF_TEXT: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(str, name) for name in ("strip", "lower", "upper", "rstrip", "lstrip", "replace", "title")},
    **{name: getattr(str, name) for name in ("startswith", "endswith", "removesuffix", "removeprefix", "isdigit")},
    **dict.fromkeys(("resolve", "absolute", "expanduser"), lambda text: text),
    "as_posix": str,
    "joinpath": lambda text, *parts: FilePath(posixpath.join(text, *parts)),
    "is_absolute": posixpath.isabs,
    "with_suffix": lambda text, suffix: FilePath(PurePosixPath(text).with_suffix(suffix)),
    "with_name": lambda text, name: FilePath(PurePosixPath(text).with_name(name)),
}
_OF_PATH: Mapping[str, Callable[[str], Any]] = {
    "parent": lambda text: FilePath(posixpath.dirname(text)),
    "name": posixpath.basename,
    "stem": lambda text: PurePosixPath(text).stem,
    "suffix": lambda text: PurePosixPath(text).suffix,
}
_VARIABLES = ("os.getenv", "os.environ.get", "getenv", "environ.get")
# What is so on the GPU that such a run is for.
_OF_A_GPU = re.compile(r"(\w+\.)*is_(available|bf16_supported|bfloat16_supported|bf16_available)")
# What reads a config from a file.
_READS = ("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "json.loads", "OmegaConf.load", "toml.load")
_DICTS = ("dict", "vars", "OrderedDict", "SimpleNamespace", "Namespace", "EasyDict", "edict", "Box", "AttrDict")
_SAME = ("OmegaConf.to_container", "OmegaConf.create", "deepcopy", "copy", "asdict", "cast", "instantiate")
_MODULES = ("types.", "argparse.", "collections.", "omegaconf.", "copy.", "dataclasses.", "typing.", "easydict.")
# Where a class of a library's has the names of its fields.
_FIELDS = ("__annotations__", "__dataclass_fields__", "model_fields")
# How a number is written into a text.
_FORMAT = re.compile(r"[,.\d]{0,4}[defg%]?")
# How many numbers a range may have.
_MOST = 1_000


def joined_path(one: str, other: str) -> FilePath:
    """Return a path in a folder."""
    return FilePath(posixpath.join(one, other))


def parent(path: str, index: int) -> FilePath:
    """Return a folder above a path."""
    return FilePath(PurePosixPath(path).parents[index])


def formatted(value: Any, how: str, conversion: int = -1) -> str:
    """Return a value as it stands in a text.

    Raises:
        ValueError: that is not known.
    """
    if isinstance(value, (Ref, Outside, Own, Method, Opened, Anything)) or not _FORMAT.fullmatch(how):
        raise ValueError("no text")
    if conversion not in (-1, ord("s")):
        raise ValueError("no text")
    return format(value, how)


def attribute(owner: Any, name: str) -> Any:
    """Return an attribute of a text, a path or something of a library's; `NOT_HERE` where that is not known."""
    if isinstance(owner, Anything):
        return owner
    if isinstance(owner, Outside):
        if name in _FIELDS:
            return Anything()
        return Outside(f"{owner.name}.{name}")
    if isinstance(owner, str) and not isinstance(owner, Computed) and name in _OF_PATH:
        return _OF_PATH[name](owner)
    return Method(owner, name)


def called(name: str, given: Sequence[Any], named: Items, run: Run) -> Any:
    """Return what a function of Python's or of a library's gives; `NOT_HERE` where only the script knows.

    Raises:
        ValueError, TypeError, LookupError, ArithmeticError: it cannot be called so.
    """
    name = name.removeprefix("builtins.")
    short = next((name.removeprefix(module) for module in _MODULES if name.startswith(module)), name)
    if _OF_A_GPU.fullmatch(name):
        return True
    if name == "inspect.signature":
        return Anything()
    if any(isinstance(item, Computed) for item in given):
        return NOT_HERE
    if short in _DICTS or short.rpartition(".")[2] in _SAME or short in _SAME or short == "OmegaConf.merge":
        return _of_dicts(short, given, named, run)
    if name in ("list", "set", "sorted", "tuple", "range", "enumerate", "zip", "len", "sum", "any", "all", "reversed"):
        return _of_lists(name, given, named, run)
    if short in _READS and given:
        return _read(short, given[0], run)
    if name in ("open", "io.open") and given and isinstance(given[0], str):
        return Opened(given[0])
    if name in _VARIABLES:
        return given[1] if len(given) == 2 else NOT_HERE
    if name == "os.path.join" and all(isinstance(item, str) for item in given):
        return posixpath.join(*given)
    if not named.items:
        return _of_values(name, given, run)
    return NOT_HERE


def _of_values(name: str, given: Sequence[Any], run: Run) -> Any:
    """Return what numbers and texts become; of objects their attributes."""
    plain = not any(isinstance(item, (Ref, Outside, Opened, Own, Method)) for item in given)
    if name in _KINDS and len(given) == 1 and plain:
        return _KINDS[name](given[0])
    if name in ("Path", "pathlib.Path") and len(given) > 1 and plain:
        return FilePath(posixpath.join(*given))
    if name in _NUMBERS and given and all(isinstance(item, (int, float)) for item in given):
        return _NUMBERS[name](*given)
    if name in ("getattr", "hasattr") and len(given) > 1 and isinstance(given[1], str):
        return _attribute_of(name, given, run)
    if name == "isinstance" and len(given) == 2:
        return _is_instance(given[0], given[1], run)
    return NOT_HERE


def _is_instance(value: Any, kind: Any, run: Run) -> Any:
    if isinstance(kind, tuple):
        found = [_is_instance(value, item, run) for item in kind]
        return True if True in found else NOT_HERE if NOT_HERE in found else False
    name = kind.name.rpartition(".")[2] if isinstance(kind, Outside) else ""
    made = run.state.of(value)
    if name in _OBJECTS and isinstance(made, (Items, Listed)):
        return isinstance(made, _OBJECTS[name])
    if name in _OBJECTS and not isinstance(value, (Ref, Outside, Opened, Own, Method, tuple)):
        return False
    if name in _TYPES and not isinstance(value, (Ref, Outside, Opened, Own, Method)):
        return isinstance(value, _TYPES[name])
    is_known = isinstance(made, Listed) or (isinstance(made, Items) and not made.is_open)
    return False if name in _TYPES and is_known else NOT_HERE


def _attribute_of(name: str, given: Sequence[Any], run: Run) -> Any:
    value = run.attribute(given[0], given[1], "")
    if isinstance(value, (Computed, Method, Outside)):
        found = run.state.of(given[0])
        is_whole = isinstance(found, Items) or (isinstance(found, Made) and found.kind is not None)
        if not is_whole or not isinstance(value, Computed):
            return NOT_HERE
        return False if name == "hasattr" else given[2] if len(given) > 2 else NOT_HERE
    return True if name == "hasattr" else value


def _of_dicts(short: str, given: Sequence[Any], named: Items, run: Run) -> Any:
    """Return what dicts become, by a copy, a wrapper or a merge."""
    found = [run.state.of(item) for item in given]
    if short == "OmegaConf.merge":
        return merged(given, run) if given and all(isinstance(item, Items) for item in found) else NOT_HERE
    if short not in _DICTS:
        if not given or (found[0] is None and isinstance(given[0], Outside)):
            return NOT_HERE
        source = found[1] if short == "cast" and len(found) > 1 else found[0]
        if isinstance(source, Made):
            return run.new(_fields(source)) if short.endswith("asdict") else run.new(copy.copy(source))
        return run.copied(given[0] if short != "cast" else given[-1])
    if len(found) > 1 or (found and not isinstance(found[0], (Items, Made, Listed))):
        return NOT_HERE
    made = Items()
    if found and isinstance(found[0], Listed):
        if not all(isinstance(item, tuple) and len(item) == 2 for item in found[0].items):
            return NOT_HERE
        made.items |= dict(found[0].items)
    elif found:
        made.pour(found[0] if isinstance(found[0], Items) else _fields(found[0]))  # type: ignore[arg-type]
    made.pour(named)
    return run.new(made)


def merged(configs: Sequence[Any], run: Run) -> Any:
    """Return configs as one, of which later ones count more."""
    first, *others = (run.copied(item) for item in configs)
    for other in others:
        merged_into(run.items_of(first), run.items_of(other), run)
    return first


def merged_into(one: Items, other: Items, run: Run, depth: int = 0) -> None:
    """Put a config into another one.

    Raises:
        ValueError: it is deeper than a config can be, as one that is in itself.
        TooLong: it has too much in it.
    """
    run.steps += 1
    if run.steps > run.limit:
        raise TooLong
    if depth > DEEPEST:
        raise ValueError("too deep")
    one.maker = "OmegaConf.create"
    one.is_whole, one.doubtful = one.is_whole and other.is_whole, one.doubtful | other.doubtful
    one.unread += other.unread
    for key, value in other.items.items():
        theirs = run.state.of(value)
        is_section = isinstance(theirs, Items) and bool(theirs.items)
        mine = run.state.of(run.opened(one, key) if one.is_open and is_section else one.items.get(key))
        if isinstance(mine, Items) and isinstance(theirs, Items):
            merged_into(mine, theirs, run, depth + 1)
        else:
            one.put(key, value, other.nodes.get(key))


def _fields(made: Made) -> Items:
    """Return the attributes of an instance."""
    items = {**made.named.items, **made.attributes.items}
    nodes = {**made.named.nodes, **made.attributes.nodes}
    return Items(items, nodes, is_whole=made.kind is not None and made.named.is_whole)


def _of_lists(name: str, given: Sequence[Any], named: Items, run: Run) -> Any:
    """Return what lists become, and what is counted of them."""
    if name == "range" and given and all(isinstance(item, int) for item in given):
        numbers = range(*given)
        return run.new(Listed([*numbers])) if len(numbers) <= _MOST else NOT_HERE
    if named.items:
        return NOT_HERE
    if not given:
        return run.new(Listed([]))
    lists = [run.iterated(item) for item in given]
    if any(item is None for item in lists):
        return NOT_HERE
    items = lists[0] or []
    if name == "zip":
        return run.new(Listed([*zip(*[item or [] for item in lists], strict=False)]))
    if name == "enumerate":
        return run.new(Listed([*enumerate(items)]))
    if name == "len":
        return len(items)
    if name in ("sum", "any", "all"):
        known = all(isinstance(item, (int, float)) and not isinstance(item, Computed) for item in items)
        return _OVER_ALL[name](items) if known else NOT_HERE
    if name == "tuple":
        return tuple(items)
    if name == "sorted" and not all(isinstance(item, (int, float)) for item in items):
        items = sorted(str(item) for item in items) if all(type(item) is str for item in items) else items
        return run.new(Listed(items, all(type(item) is str for item in items)))
    ordered = sorted(items) if name == "sorted" else items[::-1] if name == "reversed" else [*items]
    return run.new(Listed(ordered))


def _read(name: str, path: Any, run: Run) -> Any:
    """Return what a config file has."""
    found = files.config_in(path, run.places)
    run.files.add(str(path))
    if not name.startswith("OmegaConf"):
        return run.entered(found)
    return run.entered(found if run.opens else resolve(found), "OmegaConf.create")


def may_be_read(name: str, given: Sequence[Any], run: Run) -> Any:
    """Return what is in the config file that a function is given, which is named after reading one."""
    path = given[0] if given else None
    is_path = isinstance(path, str) and not isinstance(path, Computed) and path.endswith(files.CONFIGS)
    return _read(name, path, run) if is_path and files.MAY_READ.fullmatch(name) else NOT_HERE


def method(owner: Any, name: str, given: Sequence[Any], named: Items, run: Run) -> Any:
    """Return what a method of a dict, a list, a text or a path gives, and have it do what it does.

    Raises:
        ValueError, TypeError, LookupError: it cannot be called so.
    """
    found = run.state.of(owner)
    if isinstance(owner, Anything) or (name == "options" and isinstance(owner, OwnClass)):
        return owner
    if isinstance(found, Items):
        return _of_items(found, name, given, named, run)
    if isinstance(found, Listed):
        return _of_listed(found, name, given, run)
    if isinstance(owner, Computed) or not isinstance(owner, str):
        return NOT_HERE
    if name in ("open", "read_text", "read"):
        return Opened(owner)
    if isinstance(owner, Opened) or named.items:
        return NOT_HERE
    if any(isinstance(item, (Computed, Ref, Outside)) for item in given) and name != "join":
        return NOT_HERE
    if name == "split":
        return run.new(Listed([*owner.split(*given)]))
    if name == "join" and given:
        parts = run.iterated(given[0])
        if parts is None or not all(type(item) is str for item in parts) or sum(map(len, parts)) > LONGEST:
            return NOT_HERE
        return owner.join(parts)
    is_long = (
        name == "replace" and len(owner) * max((len(item) for item in given if type(item) is str), default=0) > LONGEST
    )
    return _OF_TEXT[name](owner, *given) if name in _OF_TEXT and not is_long else NOT_HERE


def _of_items(found: Items, name: str, given: Sequence[Any], named: Items, run: Run) -> Any:
    if name in ("get", "pop") and given and not isinstance(given[0], (Computed, Ref)):
        default = given[1] if len(given) > 1 else named.items.get("default")
        value = found.get(given[0]) if given[0] in found.items else default if found.is_whole else NOT_HERE
        if name == "pop":
            found.items.pop(given[0], None)
        return value
    if name == "setdefault" and len(given) == 2 and found.is_whole:
        return found.items.setdefault(given[0], given[1])
    if name == "update":
        for item in given:
            found.pour(run.state.of(item))
        found.pour(named)
        return None
    if name in ("items", "keys", "values", "copy", "to_dict", "model_dump") and not given:
        if name in ("copy", "to_dict", "model_dump"):
            return run.new(found.copy())
        whole = {"items": [*found.items.items()], "keys": [*found.items], "values": [*found.items.values()]}[name]
        return run.new(Listed(whole, found.is_whole))
    return NOT_HERE


def _of_listed(found: Listed, name: str, given: Sequence[Any], run: Run) -> Any:
    if name in ("append", "add") and len(given) == 1:
        found.items.append(given[0])
        return None
    if name == "extend" and len(given) == 1:
        found.extend(run.iterated(given[0]))
        return None
    if name == "insert" and len(given) == 2 and isinstance(given[0], int):
        found.items.insert(*given)
        return None
    if name == "copy":
        return run.new(found.copy())
    if name in ("remove", "pop", "clear", "sort", "reverse", "discard"):
        found.is_whole = False
    return NOT_HERE
