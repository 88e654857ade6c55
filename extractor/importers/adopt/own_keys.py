"""Config keys that a fork has added for its own code: the project's code that came along reads them there, too."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from extractor.pipeline.render.unread import named
from extractor.values import limits, readers
from extractor.values.configtree import compose, flatten
from extractor.values.configtree.written import dumped, nested
from extractor.values.fingerprint import names_of_upstreams_keys
from extractor.values.tree import File

if TYPE_CHECKING:
    from extractor.importers.adopt.findings import Copy
    from extractor.pipeline.source import Source

_OWN = "config/fork"
FILE = f"{_OWN}/keys.yaml"
_FOLDER, _MAIN = "verl/trainer/config/", "ppo_trainer"
_PROJECTS = f"config/{_MAIN}.yaml"
_HEAD = "# @package _global_\n# Settings that the fork has added to verl's, for its own code.\n"
_SELF = "  - _self_\n"
_LINE = f"  # Settings that came with the fork: {FILE.removeprefix('config/')}.\n  - fork@_global_: keys\n{_SELF}"


def added(copy: Copy, source: Source, project: Mapping[str, File]) -> dict[str, Any]:
    """Return the settings of a fork that a release's config lacks, flat, with their defaults.

    Args:
        copy: The fork.
        source: The release.
        project: The project's files, by path: a section of verl's config that theirs does not have stays out of it.
    """
    from extractor.importers.runs.checkout import composed

    theirs = flatten(composed(copy.root / "trainer" / "config", _MAIN))
    known = flatten(_of_release(source))
    without = _sections(known) - _sections(_of_project(project))
    return {
        key: value
        for key, value in sorted(theirs.items())
        if key not in known
        and key.partition(".")[0] not in without
        and all(map(str.isidentifier, key.split(".")))
        and _follows(value) <= theirs.keys()
    }


def read_by(new: Mapping[str, Any], code: Iterable[str]) -> dict[str, Any]:
    """Return those of the fork's settings that code reads by name, a section of the fork's own by its name too."""
    texts = list(code)
    read, words = named(new, texts), {word for text in texts for word in re.findall(r"\w+", text)}
    words |= names_of_upstreams_keys()
    return {key: value for key, value in new.items() if key in read and words.issuperset(key.split("."))}


def without_field(keys: Iterable[str], files: Iterable[bytes]) -> dict[str, str]:
    """Return the settings that a project's typed config could not hold, each with the class that has no such field.

    Args:
        keys: Dotted names.
        files: The project's Python files.
    """
    fields: dict[str, set[str]] = {}
    for data in files:
        for node in readers.python(data).body if b"dataclass" in data else ():
            if isinstance(node, ast.ClassDef) and node.name.endswith("Config"):
                targets = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
                fields.setdefault(node.name, set()).update(item.id for item in targets if isinstance(item, ast.Name))
    found = {}
    for key in keys:
        parts = key.split(".")
        for section, name in pairwise(parts):
            cls = "".join(map(str.capitalize, section.split("_"))) + "Config"
            held = set().union(*(have for other, have in fields.items() if other.endswith(cls)))
            if cls in fields and name not in held:
                found[key] = cls
    return found


def with_files(keys: Mapping[str, Any], copy: Copy) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the settings, and the files of the fork that they name (a prompt, a template): these come along.

    Args:
        keys: Flat; a path in them is from the fork's root, or from where its copy of verl lies.
        copy: The fork.
    """
    found, files = dict(keys), {}
    for key, value in keys.items():
        if not isinstance(value, str) or "/" not in value or not PurePosixPath(value).suffix:
            continue
        for folder in (copy.top, copy.root.parent):
            place = (folder / value).resolve()
            if not place.is_relative_to(copy.top.resolve()):
                continue
            with contextlib.suppress(OSError, ValueError):
                data = readers.read_bytes(place, limits.MAX_TEXT)
                found[key] = f"{_OWN}/{place.relative_to(copy.top.resolve()).as_posix()}"
                files[found[key]] = data
                break
    return found, files


def with_keys(tree: Mapping[str, File], keys: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the files that give a project's config these keys; none where it has them all.

    Args:
        tree: The project's files, by path.
        keys: Flat.
    """
    have = flatten(_of_project(tree))
    new = {key: value for key, value in keys.items() if not _stands_in_the_way(key, have)}
    while lost := [key for key, value in new.items() if not _follows(value) <= {*have, *new}]:
        new = {key: value for key, value in new.items() if key not in lost}
    main = tree[_PROJECTS].data.decode()
    if not new or main.count(_SELF) != 1:
        return {}
    return {FILE: (_HEAD + dumped(nested(new))).encode(), _PROJECTS: main.replace(_SELF, _LINE).encode()}


def _follows(value: Any) -> set[str]:
    """Return the settings that a value follows: `${data.seed}`. What is worked out in another way is none."""
    return set(re.findall(r"\$\{([^{}]*)", value)) if isinstance(value, str) else set()


def _of_release(source: Source) -> Mapping[str, Any]:
    files = {path.removeprefix(_FOLDER): source.read(path) for path in source.files if path.startswith(_FOLDER)}
    return compose({path: text for path, text in files.items() if path.endswith(".yaml")}, f"{_MAIN}.yaml").config


def _of_project(tree: Mapping[str, File]) -> Mapping[str, Any]:
    files = {path.removeprefix("config/"): file.data.decode() for path, file in tree.items() if _is_config(path)}
    return compose(files, f"{_MAIN}.yaml").config


def _is_config(path: str) -> bool:
    return path.startswith("config/") and path.endswith(".yaml")


def _sections(keys: Iterable[str]) -> set[str]:
    return {key.partition(".")[0] for key in keys}


def _stands_in_the_way(key: str, have: Mapping[str, Any]) -> bool:
    """Tell whether a config has a key, a section of its name, or a value where it would need a section."""
    parts = key.split(".")
    above = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
    return any((name in above and have[name] is not None) or name.startswith(f"{key}.") for name in have)
