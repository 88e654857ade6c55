"""Find settings that nothing in a project's code reads."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from extractor.pipeline.render.layers import list_engine_layers, list_feature_layers
from extractor.values import resources
from extractor.values.configtree import flatten
from extractor.values.configtree.compose import read_mapping

_CONFIG = "config/"
MAIN = f"{_CONFIG}ppo_trainer.yaml"
# Modules that list settings by name, for checks of the config itself: that is no use of them.
_TABLES = ("setting.py", "setting_checks.py")
# Folders of such modules.
_TABLE_FOLDERS = ("api/names/",)
# Comments, docstrings and messages: a word in them is no use of it. What an f-string has in braces is.
_STRING_OR_COMMENT = re.compile(
    r"""(?P<string>\"\"\"[^\\"]*(?:(?:\\.|"(?!""))[^\\"]*)*\"\"\"|'''[^\\']*(?:(?:\\.|'(?!''))[^\\']*)*'''
    |"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*')
    |\#[^\n]*""",
    re.VERBOSE | re.DOTALL,
)
_F_PREFIX = re.compile(r"(?:\b|[rR])[fF][rR]?\Z")
_NAME = re.compile(r"[\w./:-]*")
_WORD = re.compile(r"\w+")
_END = re.compile(r"\}(_\w{4,})")
_BEGIN = re.compile(r"\b(\w{4,}_)\{")
_ENTRY = re.compile(r"(?:optional\s+)?/?(?P<group>[\w/]+)(?:@(?P<package>[\w.]+))?$")


def collect_values(files: Mapping[str, str]) -> dict[str, list[Any]]:
    """Collect the values that config files give to each setting.

    Args:
        files: Every file of the project, by path.

    Returns:
        By dotted key, sorted; an empty section has the value {}.
    """
    main = dict(_read_once(files[MAIN]))
    groups = _group_files(files, main.pop("defaults"))
    found: dict[str, list[Any]] = {}
    for body in (main, *groups):
        for key, value in flatten(body).items():
            values = found.setdefault(key, [])
            if value not in values:
                values.append(value)
    return dict(sorted(found.items()))


def find_unread_settings(
    files: Mapping[str, str], shipped: Mapping[str, list[Any]], package: str
) -> dict[str, list[Any]]:
    """Find settings whose name a project's code never uses.

    Args:
        files: Every file of the project, by path; tests do not count.
        shipped: What `collect_values` returns of them.
        package: The project's.
    """
    tables = tuple(f"{package}/{folder}" for folder in _TABLE_FOLDERS)
    code = [
        text
        for path, text in sorted(files.items())
        if path.endswith(".py")
        and path.startswith((f"{package}/", "main.py"))
        and not path.endswith(_TABLES)
        and not path.startswith(tables)
    ]
    used = _collect_used_names(code, {_take_last(key) for key in shipped})
    return {key: values for key, values in shipped.items() if _take_last(key) not in used}


def find_named(keys: Iterable[str], code: Iterable[str]) -> set[str]:
    """Return the settings whose last part code uses."""
    keys = list(keys)
    used = _collect_used_names(code, {_take_last(key) for key in keys})
    return {key for key in keys if _take_last(key) in used}


def name_readers(keys: Iterable[str], engines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Name the engines and features that read a setting.

    Args:
        keys: The settings' dotted names.
        engines: Those that the release offers.

    Returns:
        Sorted parts by key: engines, or features where no engine reads it; keys that no part reads are left out.
    """
    keys = list(keys)
    names = {_take_last(key) for key in keys}
    texts = _collect_part_texts()
    layers = {f"engine {engine}": list_engine_layers(engine) for engine in engines}
    features = (layer.partition("/")[2] for layer in texts if layer.startswith("feature/"))
    layers |= {f"feature {name}": list_feature_layers(name) for name in features}
    used = {layer: _collect_used_names(code, names) for layer, code in texts.items()}
    found = {}
    for key in keys:
        last = _take_last(key)
        parts = [part for part in sorted(layers) if any(last in used.get(layer, ()) for layer in layers[part])]
        if parts:
            found[key] = tuple(part for part in parts if part.startswith("engine ")) or tuple(parts)
    return found


def find_compared_values(code: str, name: str) -> tuple[str, ...]:
    """List the texts that code compares a variable with, sorted."""
    compared = re.findall(rf"\b{name}\s*(?:==|in)\s*([(\[].*?[)\]]|\"[^\"]*\")", code, re.DOTALL)
    return tuple(sorted({text for part in compared for text in re.findall(r'"([^"]+)"', part)}))


def _take_last(key: str) -> str:
    return key.rpartition(".")[2]


def _collect_used_names(texts: Iterable[str], names: set[str]) -> set[str]:
    """Return the names that code uses outside comments and messages."""
    found: set[str] = set()
    for text in texts:
        missing = names - found
        code = _strip_texts(text)
        found |= missing.intersection(_WORD.findall(code))
        if "_{" in text or "}_" in text:  # f"{split}_max_samples" is the name of two settings
            ends, begins = tuple(set(_END.findall(code))), tuple(set(_BEGIN.findall(code)))
            found |= {name for name in missing if name.startswith(begins) or name.endswith(ends)}
    return found


def _strip_texts(code: str) -> str:
    """Return code without comments, docstrings and prose strings."""
    return _STRING_OR_COMMENT.sub(_name_in, code)


def _name_in(match: re.Match[str]) -> str:
    """Keep a string that may be a name; drop other matches."""
    string, start = match["string"], match.start()
    if string is None:
        return " "
    is_name = _NAME.fullmatch(string, 1, len(string) - 1)
    return string if is_name or _F_PREFIX.search(match.string, max(start - 2, 0), start) else " "


def _group_files(files: Mapping[str, str], defaults: Iterable[Any], above: str = "") -> Iterator[dict[str, Any]]:
    """Yield the content of config group files, nested at their place."""
    for entry in defaults:
        match = _ENTRY.match(str(next(iter(entry)))) if isinstance(entry, dict) else None
        if match is None:
            continue
        package = match["package"] or match["group"].replace("/", ".")
        places = [] if package == "_global_" else [*filter(None, above.split(".")), *package.split(".")]
        folder = f"{_CONFIG}{match['group']}/"
        for path in sorted(path for path in files if path.startswith(folder) and path.endswith(".yaml")):
            body = dict(_read_once(files[path]))
            yield from _group_files(files, body.pop("defaults", ()), ".".join(places))
            for part in reversed(places):
                body = {part: body}
            yield body


@cache
def _read_once(text: str) -> Mapping[str, Any]:
    """Read a config file; results are cached, and not to be changed."""
    return read_mapping(text)


@cache
def _collect_part_texts() -> Mapping[str, list[str]]:
    """Collect each engine's and feature's code in all releases, by layer."""
    root = resources.find_templates()
    found: dict[str, list[str]] = {}
    for top in (root, *sorted((root / "until").iterdir())):
        for kind in ("engine", "feature"):
            for part in sorted((top / kind).iterdir()) if (top / kind).is_dir() else ():
                texts = found.setdefault(f"{kind}/{part.name}", [])
                code = (path for path in sorted(part.rglob("__package__/**/*.py")) if not _is_settings_list(path))
                texts += [path.read_text(encoding="utf-8") for path in code]
    return found


def _is_settings_list(path: Path) -> bool:
    """Tell whether a template's module lists settings by name."""
    return any(f"/{folder}" in path.as_posix() for folder in _TABLE_FOLDERS)
