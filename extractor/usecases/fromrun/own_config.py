"""The config that a run starts from, where it is not verl's own ppo_trainer."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from extractor.usecases.fromrun import checkout
from extractor.usecases.fromrun.files import Places
from extractor.usecases.fromrun.unknowns import readable
from extractor.values import readers
from extractor.values.configtree.compose import read_mapping
from extractor.values.errors import UsageError

VERLS = re.compile(r"_?(generated_)?ppo_(megatron_|torchtitan_|veomni_)?trainer")
_NAME, _FOLDER = ("--config-name", "-cn"), ("--config-path", "-cp", "--config-dir", "-cd")
_FILE = re.compile(r"[\w./~][\w./~-]*\.yaml")
_QUOTES = "'\""
_OF_A_PACKAGE = "pkg://"


@dataclass(frozen=True)
class OwnConfig:
    """Holds what a launch says of the config that it starts from.

    Attributes:
        name: verl's config that it ends at.
        defaults: That one, composed, as the checkout that the run is started in has it; empty where none is at hand.
        overlay: What the run's own configs have besides.
        words: The other arguments.
        notes: What a user should know.
    """

    name: str
    defaults: Mapping[str, Any]
    overlay: tuple[Mapping[str, Any], ...]
    words: tuple[str, ...]
    notes: tuple[str, ...]


def read(module: str, arguments: Sequence[str], path: Path, config_dirs: Sequence[Path], places: Places) -> OwnConfig:
    """Take the config's name out of a launch's arguments, and read it.

    Args:
        module: What is launched: `verl.trainer.main_ppo`, `recipe.dapo.main_dapo`, or its file.
        arguments: Behind it.
        path: The script.
        config_dirs: Where the user says that configs are.
        places: Where the run may have been started from.

    Raises:
        UsageError: the run names a config that is not there.
    """
    name, folder, words = "", "", []
    elsewhere: Sequence[Path] = ()
    items = iter(arguments)
    for item in items:
        flag, equals, value = item.partition("=")
        if flag in (*_NAME, *_FOLDER):
            value = unquoted(value) if equals else next(items, "")
            if flag in _NAME:
                name = value
            else:
                folder = value
        elif _FILE.fullmatch(item):  # which a program of its own reads
            name, elsewhere = item, places.folders
        else:
            words.append(item)
    default, beside = _of_the_module(module, places)
    said = name.removesuffix(".yaml")
    if folder:
        beside += places.folders_like(readable(folder))
    folders = [*config_dirs, *beside, path.parent, path.parent / "config", *elsewhere]
    overlay: list[Mapping[str, Any]] = []
    notes: list[str] = []
    main = said or default
    if VERLS.fullmatch(main) is None:
        try:
            main = _overlay(main, folders, path, overlay)
        except UsageError:
            if said:
                raise
            overlay.clear()
            notes.append(f"{module} starts from {main}.yaml, which is not here: name its directory with --config-dir")
            main = "ppo_trainer"
    at = next((place for place in (*config_dirs, *beside) if (place / f"{main}.yaml").is_file()), None)
    return OwnConfig(main, checkout.defaults_of(at, main, places), tuple(overlay), tuple(words), tuple(notes))


def file_of(module: str) -> str:
    """Return the file of a program as it is launched: its own name, or that of a module below where it is started."""
    name = module.removesuffix(".py")
    return f"{name if name != module or '/' in name else name.replace('.', '/')}.py"


def _of_the_module(module: str, places: Places) -> tuple[str, list[Path]]:
    """Return the config that a module starts from by itself, and where it is."""
    file, inner = places.find_like(file_of(module)), file_of(module).removesuffix(".py")
    name = "ppo_trainer" if "main_ppo" in module else f"{inner.rpartition('_')[2]}_trainer"
    if file is None:
        return name, [place / inner.rpartition("/")[0] / "config" for place in places.folders]
    folder = "config"
    try:
        tree = readers.python(readers.read_text(file))
    except (OSError, SyntaxError, UsageError):
        return name, [file.parent / folder]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hydra.main":
            given = {item.arg: item.value.value for item in node.keywords if isinstance(item.value, ast.Constant)}
            name, folder = str(given.get("config_name", name)), str(given.get("config_path", folder))
    if folder.startswith(_OF_A_PACKAGE):
        inner = folder.removeprefix(_OF_A_PACKAGE).replace(".", "/")
        return name.removesuffix(".yaml"), [place / inner for place in places.folders]
    return name.removesuffix(".yaml"), [file.parent / folder]


def _overlay(
    name: str, places: Sequence[Path], path: Path, found: list[Mapping[str, Any]], above: tuple[Path, ...] = ()
) -> str:
    """Read a config that is the run's own, and those of its own that it starts from; returns verl's it ends at."""
    file = next((place / f"{name}.yaml" for place in places if (place / f"{name}.yaml").is_file()), None)
    if file is None:
        shown = ", ".join(dict.fromkeys(str(place) for place in places))
        raise UsageError(
            f"{path}: its config {name}.yaml is not here (looked in {shown})",
            hint="pass --config-dir DIR, the directory that it is in",
        )
    if file in above:
        raise UsageError(f"{file}: configs that start from each other in a circle", hint="correct its defaults")
    try:
        body = read_mapping(readers.read_text(file))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}", hint="correct the file") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not valid YAML: {error}", hint="correct the file") from None
    main = "ppo_trainer"
    entries = body.pop("defaults", [])
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, str) and entry != "_self_":
            main = entry if VERLS.fullmatch(entry) else _overlay(entry, places, path, found, (*above, file))
    body.pop("hydra", None)
    found.append(body)
    return main


def unquoted(text: str) -> str:
    """Return a text without the quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0] else text
