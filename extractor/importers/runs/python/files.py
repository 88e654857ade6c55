"""Config files that a training script reads, of its own repository alone, and the config that Hydra makes for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from extractor.importers.runs.places import Places, is_file
from extractor.values import readers
from extractor.values.configtree import BadOverride, compose, parse_override, resolve
from extractor.values.configtree.compose import read_mapping
from extractor.values.errors import UsageError

# What may read a config by a function of the script's or its repository's.
MAY_READ = re.compile(r"(load|read|get|parse)_?\w*(config|cfg|yaml|json|params|settings)\w*", re.IGNORECASE)
CONFIGS = (".yaml", ".yml", ".json")
# A folder with more files is no folder of configs.
_MOST_FILES = 200


def is_own(file: Path, places: Places | None) -> bool:
    """Tell whether a file lies in the script's repository: nothing else is read for it."""
    home = None if places is None else places.home
    return home is not None and file.resolve().is_relative_to(home.resolve())


def config_in(path: Any, places: Places | None) -> dict[str, Any]:
    """Return what is in a config file.

    Raises:
        ValueError: it is none of the repository's, or cannot be read.
    """
    file = places.find(path) if places is not None and isinstance(path, str) else None
    if file is None or not is_own(file, places):
        raise ValueError("no file of its own")
    try:
        text = readers.read_text(file)
        found = readers.parse_json(text) if file.suffix == ".json" else read_mapping(text, last_counts=True)
    except (OSError, UsageError, yaml.YAMLError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, dict):
        raise ValueError("no mapping")
    return found


def module_at(name: str, path: Path, level: int, places: Places | None) -> Path | None:
    """Return the file of a module of the repository's.

    Args:
        name: Dotted, as it is imported.
        path: Of the file that imports it.
        level: How many dots stand before the name.
        places: Where the script may have been started from.
    """
    if places is None:
        return None
    inside = "/".join(name.split(".")) if name else ""
    ends = [f"{inside}.py", f"{inside}/__init__.py"] if inside else ["__init__.py"]
    above = [*path.resolve().parents]
    folders = above[level - 1 : level] if level else [above[0], *places.folders]
    files = (folder / end for folder in folders for end in ends)
    return next((file for file in files if is_file(file) and is_own(file, places)), None)


def by_hydra(function: ast.AST, path: Path, places: Places | None, words: Sequence[str]) -> Any:
    """Return the config that Hydra makes, `@hydra.main(config_path="conf", config_name="train")`; None: it makes none.

    Raises:
        ValueError: what it makes cannot be said.
    """
    for call in (item for item in getattr(function, "decorator_list", ()) if isinstance(item, ast.Call)):
        said = {item.arg: item.value.value for item in call.keywords if isinstance(item.value, ast.Constant)}
        folder, name = said.get("config_path"), said.get("config_name")
        if ast.unparse(call.func) != "hydra.main" or not isinstance(folder, str) or not isinstance(name, str):
            continue
        try:
            root = path.resolve().parent / folder
            found = [file for file in sorted(root.rglob("*.yaml"))[:_MOST_FILES] if is_own(file, places)]
            files = {file.relative_to(root).as_posix(): readers.read_text(file) for file in found}
            overrides = [parse_override(word) for word in words if "=" in word and not word.startswith("-")]
            return resolve(compose(files, f"{name.removesuffix('.yaml')}.yaml", overrides).config)
        except (OSError, UsageError, yaml.YAMLError, LookupError, BadOverride) as error:
            raise ValueError(str(error)) from None
    return None
