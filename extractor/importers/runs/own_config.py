"""Read a run's own config, if not verl's ppo_trainer."""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from extractor.importers.runs.placeholders import make_readable
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.run import Run
from extractor.values import fingerprint, limits, readers
from extractor.values.configtree import compose
from extractor.values.configtree.compose import read_config
from extractor.values.configtree.defaults import SELF
from extractor.values.configtree.places import find_file
from extractor.values.errors import UsageError

VERLS = re.compile(r"_?(generated_)?ppo_(megatron_|torchtitan_|veomni_)?trainer")
_NAME, _FOLDER = ("--config-name", "-cn"), ("--config-path", "-cp", "--config-dir", "-cd")
_CHOICE = re.compile(r"\+{0,2}([\w/]+)(?:@[\w.]+)?=([\w/-]+|\[[\w/,\s-]+\])")
_FILE = re.compile(r"[\w./~][\w./~-]*\.yaml")
_OF_VERL, _OF_A_PACKAGE, _CONFIG = "ppo_trainer.yaml", "pkg://", "verl/trainer/config"
# How many folders above the option of a group verl's config may lie.
_DEEPEST = 4
_CORRECT = "correct the file"
RESOLVED = "pass what the run resolves to: append `--cfg job --resolve > run.yaml` to its command, and pass run.yaml"


def read(
    module: str, arguments: Sequence[str], path: Path, config_dirs: Sequence[Path], places: RunFolders
) -> tuple[Run, list[str]]:
    """Read the config a launch names; return run and other arguments.

    Args:
        module: What is launched: `verl.trainer.main_ppo`, `recipe.dapo.main_dapo`, or its file.
        arguments: Behind it.
        path: The script.
        config_dirs: Where the user says that configs are.
        places: Where the run may have been started from.

    Raises:
        UsageError: the run names a config that is not there.
    """
    name, folder, words = _find_named(arguments)
    default, beside = _find_module_config(module, places)
    if folder:
        beside += places.find_folders_like(make_readable(folder), by_last=True)
    elsewhere = places.folders if name.endswith(".yaml") else ()
    folders = [*config_dirs, *beside, path.parent, path.parent / "config", *elsewhere]
    for word in words:
        _refuse_choice(word, folders, path)
    main, own, notes = name.removesuffix(".yaml") or default, _Own(), list[str]()
    if VERLS.fullmatch(main) is not None:
        own = _Own(main)
    elif (file := next(filter(Path.is_file, _list_candidates(f"{main}.yaml", folders)), None)) is not None:
        own = _read_own(file, folders)
    elif name:
        here = [place for place in dict.fromkeys(folders) if readers.is_there(place)]
        raise UsageError(
            f"{path}: its config {main}.yaml is not here (looked in {', '.join(map(str, here or folders[:1]))})",
            hint="pass --config-dir DIR, the directory that it is in",
        )
    else:
        notes = [f"{module} starts from {main}.yaml, which is not here: name its directory with --config-dir"]
    near = [*([own.beside] if own.beside is not None else []), *config_dirs, *beside]
    at = next((place for place in near if (place / f"{own.main}.yaml").is_file()), None)
    defaults = _read_defaults(at, own.main, places)
    run = Run(str(path), config_name=own.main, program=module, defaults=defaults, overlay=own.bodies)
    return replace(run, notes=tuple(notes)), words


def _find_named(arguments: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the config arguments name, its folder, and other arguments."""
    name, folder, words = "", "", []
    items = iter(arguments)
    for item in items:
        flag, equals, value = item.partition("=")
        if flag in (*_NAME, *_FOLDER):
            said = unquote(value) if equals else next(items, "")
            name, folder = (said.removesuffix(".yaml"), folder) if flag in _NAME else (name, said)
        elif _FILE.fullmatch(item):  # which a program of its own reads
            name = item
        else:
            words.append(item)
    return name, folder, words


def unquote(text: str) -> str:
    """Return a text without the quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0] else text


def find_program_file(module: str) -> str:
    """Return a launched program's file; modules become relative paths."""
    name = module.removesuffix(".py")
    return f"{name if name != module or '/' in name else name.replace('.', '/')}.py"


def _find_module_config(module: str, places: RunFolders) -> tuple[str, list[Path]]:
    """Return a module's default config name and its possible folders."""
    file, inner = places.find_like(find_program_file(module)), find_program_file(module).removesuffix(".py")
    name = "ppo_trainer" if "main_ppo" in module else f"{inner.rpartition('_')[2]}_trainer"
    if file is None:
        return name, [place / inner.rpartition("/")[0] / "config" for place in places.folders]
    folder = "config"
    try:
        tree = readers.parse_python(readers.read_text(file))
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


@dataclass(frozen=True)
class _Own:
    """A run's own config file.

    Attributes:
        main: verl's config that it starts from.
        beside: The folder of that config, where it leads there.
        bodies: What it has itself.
    """

    main: str = "ppo_trainer"
    beside: Path | None = None
    bodies: tuple[Mapping[str, Any], ...] = ()


def _read_own(file: Path, folders: Sequence[Path]) -> _Own:
    """Read a config that starts from verl's and from nothing else.

    Raises:
        UsageError: it cannot be read, or starts from other configs as well.
    """
    try:
        entries, body = read_config(readers.read_text(file))
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}", hint=_CORRECT) from None
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not valid YAML: {error}", hint=_CORRECT) from None
    if not isinstance(body, dict):
        raise UsageError(f"{file}: not valid YAML: no mapping at its top", hint=_CORRECT)
    body.pop("hydra", None)
    own = _Own(bodies=(body,) if body else ())
    for entry in entries:
        path, _, package = entry.partition("@") if isinstance(entry, str) else ("", "", "")
        path = find_file("", path)
        if VERLS.fullmatch(posixpath.basename(path).removesuffix(".yaml")) and package in ("", "_global_"):
            at = next((found.parent for found in _list_candidates(path, folders) if _has_verls(found.parent)), None)
            own = replace(own, main=posixpath.basename(path).removesuffix(".yaml"), beside=at)
        elif entry != SELF and not (isinstance(entry, dict) and all("hydra/" in str(key) for key in entry)):
            raise UsageError(f"{file}: it starts from {entry} as well, which is not read", hint=RESOLVED)
    return own


def _refuse_choice(word: str, folders: Sequence[Path], script: Path) -> None:
    """Refuse a word that chooses one of the run's own configs.

    Raises:
        UsageError: it does.
    """
    found = _CHOICE.fullmatch(word)
    if found is None:
        return
    for option in filter(None, re.split(r"[\[\],\s]+", found[2])):
        if not all(map(_is_verls, filter(Path.is_file, _list_candidates(find_file(found[1], option), folders)))):
            raise UsageError(f"{script}: {word} chooses a config of its own, which is not read", hint=RESOLVED)


def _list_candidates(path: str, folders: Sequence[Path]) -> list[Path]:
    return [Path(os.path.normpath(place / path)) for place in folders]


def _has_verls(folder: Path) -> bool:
    return (folder / _OF_VERL).is_file()


def _is_verls(file: Path) -> bool:
    """Tell whether a config group's option is verl's own file."""
    if not any(map(_has_verls, file.parents[:_DEEPEST])):
        return False
    try:
        return fingerprint.fingerprint_text(readers.read_text(file)) in fingerprint.load_upstream_parts()
    except (OSError, UsageError):
        return True


def _read_defaults(folder: Path | None, main: str, places: RunFolders) -> Mapping[str, Any]:
    """Return the composed config of the program, else verl's, else {}."""
    verls = places.find(f"{_CONFIG}/{main}.yaml")
    for place in (folder, None if verls is None else verls.parent):
        if place is None or not (place / f"{main}.yaml").is_file():
            continue
        try:
            found = [file for file in readers.list_files_below(place) if file.suffix == ".yaml"]
            files = {file.relative_to(place).as_posix(): readers.read_text(file) for file in found}
            config = compose(files, f"{main}.yaml").config if len(files) <= limits.MAX_CONFIG_PARTS else {}
        except (OSError, yaml.YAMLError):
            continue
        if config:
            return config
    return {}
