"""Settings of a project's config against the project's code: what nothing reads, and what values are known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from extractor.pipeline.render.layers import engine_layers
from extractor.values import resources
from extractor.values.configtree import flatten
from extractor.values.configtree.compose import read_mapping

_CONFIG = "config/"
_MAIN = "ppo_trainer.yaml"
# Modules that list settings by name, for checks of the config itself: that is no use of them.
_TABLES = ("former_keys.py", "ranges.py", "setting_checks.py", "setting_types.py", "shipped_settings.py", "unread.py")
# Comments, docstrings and messages: a word in them is no use of it. What an f-string has in braces is.
_STRING_OR_COMMENT = re.compile(
    r"""(?P<prefix>\b[rbufRBUF]{1,2})?
    (?P<string>\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |\#[^\n]*""",
    re.VERBOSE | re.DOTALL,
)
_ENTRY = re.compile(r"(?:optional\s+)?/?(?P<group>[\w/]+)(?:@(?P<package>[\w.]+))?$")


def shipped_values(files: Mapping[str, str]) -> dict[str, list[Any]]:
    """Collect the values that the config files of a project give to each setting, as they stand there.

    Args:
        files: Every file of the project, by path.

    Returns:
        By dotted key, sorted; an empty section has the value {}.
    """
    main = read_mapping(files[f"{_CONFIG}{_MAIN}"])
    groups = _group_files(files, main.pop("defaults"))
    found: dict[str, list[Any]] = {}
    for body in (main, *groups):
        for key, value in flatten(body).items():
            values = found.setdefault(key, [])
            if value not in values:
                values.append(value)
    return dict(sorted(found.items()))


def unread_settings(files: Mapping[str, str], package: str) -> dict[str, list[Any]]:
    """Find the settings whose name stands nowhere in a project's code, with the values that they come with.

    Args:
        files: Every file of the project, by path; tests do not count.
        package: The project's.
    """
    code = "\n".join(
        _without_text(text)
        for path, text in sorted(files.items())
        if path.endswith(".py") and path.startswith((f"{package}/", "main.py")) and not path.endswith(_TABLES)
    )
    words = set(re.findall(r"\w+", code))
    # f"{split}_max_samples" is the name of two settings.
    ends = tuple(set(re.findall(r"\}(_\w{4,})", code)))
    begins = tuple(set(re.findall(r"\b(\w{4,}_)\{", code)))
    return {
        key: values
        for key, values in shipped_values(files).items()
        if not _is_named(key.rpartition(".")[2], words, begins, ends)
    }


def readers(key: str, engines: Iterable[str]) -> tuple[str, ...]:
    """Name the parts that a project may have which read a setting: "engine vllm", "feature lora".

    Args:
        key: The setting's dotted name.
        engines: Those that the release offers.
    """
    name = key.rpartition(".")[2]
    offered = {f"engine {engine}" for engine in engines}
    return tuple(
        part for part, words in _words_of_parts() if name in words and (part in offered or part.startswith("feature "))
    )


def compared_values(code: str, name: str) -> tuple[str, ...]:
    """List the texts that a variable is compared with in some code, sorted: `name == "x"`, `name in ("y", "z")`."""
    compared = re.findall(rf"\b{name}\s*(?:==|in)\s*([(\[].*?[)\]]|\"[^\"]*\")", code, re.DOTALL)
    return tuple(sorted({text for part in compared for text in re.findall(r'"([^"]+)"', part)}))


def _is_named(name: str, words: set[str], begins: tuple[str, ...], ends: tuple[str, ...]) -> bool:
    return name in words or name.startswith(begins) or name.endswith(ends)


def _without_text(code: str) -> str:
    """Return code without its comments, its docstrings, and its strings that are no names."""
    return _STRING_OR_COMMENT.sub(_name_in, code)


def _name_in(match: re.Match[str]) -> str:
    """Keep a string that may be a name (a.b.c, or an f-string), and drop everything else that was matched."""
    string = match["string"] or ""
    is_name = "f" in (match["prefix"] or "").lower() or re.fullmatch(r"[\w./:-]*", string[1:-1])
    return string if is_name else " "


def _group_files(files: Mapping[str, str], defaults: Iterable[Any], above: str = "") -> Iterator[dict[str, Any]]:
    """Yield what every file of a config group says, at its place; `above` is the place of the list itself."""
    for entry in defaults:
        match = _ENTRY.match(str(next(iter(entry)))) if isinstance(entry, dict) else None
        if match is None:
            continue
        package = match["package"] or match["group"].replace("/", ".")
        places = [] if package == "_global_" else [*filter(None, above.split(".")), *package.split(".")]
        folder = f"{_CONFIG}{match['group']}/"
        for path in sorted(path for path in files if path.startswith(folder) and path.endswith(".yaml")):
            body = read_mapping(files[path])
            yield from _group_files(files, body.pop("defaults", ()), ".".join(places))
            for part in reversed(places):
                body = {part: body}
            yield body


@lru_cache(maxsize=1)
def _words_of_parts() -> tuple[tuple[str, frozenset[str]], ...]:
    """Collect the words of the code that each engine and each feature brings, in any release."""
    root = resources.templates()
    found: dict[str, set[str]] = {}
    for top in (root, *sorted((root / "until").iterdir())):
        for kind in ("engine", "feature"):
            if not (top / kind).is_dir():
                continue
            for part in sorted((top / kind).iterdir()):
                words = found.setdefault(f"{kind} {part.name}", set())
                for path in sorted(part.rglob("__package__/**/*.py")):
                    words.update(re.findall(r"\w+", _without_text(path.read_text(encoding="utf-8"))))
    for name in [name for name in found if name.startswith("engine ")]:
        layers = engine_layers(name.removeprefix("engine "))
        found[name] = set().union(*(found[layer.replace("/", " ")] for layer in layers))
    return tuple((part, frozenset(words)) for part, words in sorted(found.items()))
