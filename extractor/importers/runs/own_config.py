"""The config that a run starts from, where it is not verl's own ppo_trainer."""

from __future__ import annotations

import ast
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from extractor.importers.runs.placeholders import readable
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.run import Run
from extractor.values import fingerprint, limits, readers
from extractor.values.configtree import compose
from extractor.values.configtree.compose import read_config
from extractor.values.configtree.defaults import SELF, Defaults, TooManyParts
from extractor.values.configtree.places import below, file_of, keys_of_choice, package_of_group, package_under
from extractor.values.errors import UsageError

VERLS = re.compile(r"_?(generated_)?ppo_(megatron_|torchtitan_|veomni_)?trainer")
_NAME, _FOLDER = ("--config-name", "-cn"), ("--config-path", "-cp", "--config-dir", "-cd")
_CHOICE = re.compile(r"\+{0,2}([\w/]+(?:@[\w.]+)?)=(?:([\w/-]+)|\[\s*([\w/-]+(?:\s*,\s*[\w/-]+)*)\s*\])")
_FILE = re.compile(r"[\w./~][\w./~-]*\.yaml")
_OF_VERL, _OF_A_PACKAGE, _CONFIG = "ppo_trainer.yaml", "pkg://", "verl/trainer/config"
# How many folders above the option of a group verl's config may lie.
_DEEPEST = 4
_CORRECT = "correct the file"


def read(
    module: str, arguments: Sequence[str], path: Path, config_dirs: Sequence[Path], places: RunFolders
) -> tuple[Run, list[str]]:
    """Take the config's name out of a launch's arguments, and read it; returns the run of it, and the other arguments.

    Args:
        module: What is launched: `verl.trainer.main_ppo`, `recipe.dapo.main_dapo`, or its file.
        arguments: Behind it.
        path: The script.
        config_dirs: Where the user says that configs are.
        places: Where the run may have been started from.

    Raises:
        UsageError: the run names a config that is not there.
    """
    name, folder, words = _named(arguments)
    default, beside = _of_the_module(module, places)
    if folder:
        beside += places.folders_like(readable(folder), by_last=True)
    elsewhere = places.folders if name.endswith(".yaml") else ()
    folders = [*config_dirs, *beside, path.parent, path.parent / "config", *elsewhere]
    own = _OwnConfigs(path, folders, [*places.folders, *config_dirs])
    choices = [own.choice(item) for item in words]
    own.chosen = dict(filter(None, choices))
    main = name.removesuffix(".yaml") or default
    if VERLS.fullmatch(main) is not None:
        own.main = main
    elif name or own.file(file_of("", main)) is not None:
        own.read(main)
    else:
        own.notes.append(f"{module} starts from {main}.yaml, which is not here: name its directory with --config-dir")
    own.add_chosen()
    near = [*([own.beside] if own.beside is not None else []), *config_dirs, *beside]
    at = next((place for place in near if (place / f"{own.main}.yaml").is_file()), None)
    defaults = _defaults_of(at, own.main, places)
    others = [item for item, choice in zip(words, choices, strict=True) if choice is None]
    run = Run(str(path), config_name=own.main, program=module, defaults=defaults, overlay=tuple(own.found))
    return replace(run, notes=tuple(own.notes)), others


def _named(arguments: Sequence[str]) -> tuple[str, str, list[str]]:
    """Return the config that arguments name, its folder, and the other arguments."""
    name, folder, words = "", "", []
    items = iter(arguments)
    for item in items:
        flag, equals, value = item.partition("=")
        if flag in (*_NAME, *_FOLDER):
            said = unquoted(value) if equals else next(items, "")
            name, folder = (said.removesuffix(".yaml"), folder) if flag in _NAME else (name, said)
        elif _FILE.fullmatch(item):  # which a program of its own reads
            name = item
        else:
            words.append(item)
    return name, folder, words


def unquoted(text: str) -> str:
    """Return a text without the quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0] else text


def program_file(module: str) -> str:
    """Return the file of a program as it is launched: its own name, or that of a module below where it is started."""
    name = module.removesuffix(".py")
    return f"{name if name != module or '/' in name else name.replace('.', '/')}.py"


def _of_the_module(module: str, places: RunFolders) -> tuple[str, list[Path]]:
    """Return the config that a module starts from by itself, and where it is."""
    file, inner = places.find_like(program_file(module)), program_file(module).removesuffix(".py")
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


@dataclass
class _OwnConfigs:
    """Reads configs that are the run's own, as Hydra puts them together; what verl has is left to verl.

    Attributes:
        script: Which names them.
        places: Where they are looked for.
        within: The folders that a config may be in: `../../x/base` may lead out of these.
        chosen: What the launch says of groups, by group.
        main: verl's config that they end at.
        beside: The folder of that config, where one of them leads there.
        found: What they have, in the order in which it counts.
        notes: What a user should know.
    """

    script: Path
    places: Sequence[Path]
    within: Sequence[Path]
    chosen: dict[str, list[str]] = field(default_factory=dict)
    main: str = "ppo_trainer"
    beside: Path | None = None
    found: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def choice(self, word: str) -> tuple[str, list[str]] | None:
        """Return group and options of a word that chooses files of the run's own; None for any other."""
        found = _CHOICE.fullmatch(word)
        if found is None:
            return None
        options = [found[2]] if found[2] else re.split(r"\s*,\s*", found[3])
        group = found[1].partition("@")[0]
        return (found[1], options) if all(self.file(file_of(group, option)) for option in options) else None

    def read(self, name: str) -> None:
        """Read a config, and those of the run's own that it starts from."""
        self._check_is_here(file_of("", name), name)
        self._add(file_of("", name), "")

    def add_chosen(self) -> None:
        """Read what the launch adds of groups, and no config has an entry for."""
        for key, options in self.chosen.items():
            group, sign, package = key.partition("@")
            for path in (file_of(group, option) for option in options):
                if self.file(path) is not None:
                    at = package if sign else None
                    self._add(path, self._walk().package_of(path, "", at, package_of_group(group)))

    def _add(self, path: str, package: str) -> None:
        try:
            for part, where in self._walk().parts(path, package):
                body = below(where, self._body_of(part)[1])
                if not isinstance(body, dict):
                    raise UsageError(f"{self.file(part)}: not valid YAML: no mapping at its top", hint=_CORRECT)
                body.pop("hydra", None)
                self.found += [body] if body else []
        except TooManyParts as error:
            raise UsageError(f"{self.script}: {error}", hint="correct the defaults of its configs") from None

    def _walk(self) -> Defaults:
        return Defaults(self._text_of, self._entries, self._choose, self._absent)

    def _entries(self, path: str) -> list[Any]:
        """Return the defaults list of a config, without verl's config that it starts from."""
        kept = []
        for entry in self._body_of(path)[0]:
            name, sign, at = entry.partition("@") if isinstance(entry, str) else (SELF, "", "")
            if VERLS.fullmatch(posixpath.basename(name).removesuffix(".yaml")) and not package_under("", at):
                verls = file_of(posixpath.dirname(path), name)
                self.main = posixpath.basename(verls).removesuffix(".yaml")
                self.beside = next((file.parent for file in self._candidates(verls) if _has_verls(file.parent)), None)
                continue
            if name != SELF and not sign:
                self._check_is_here(file_of(posixpath.dirname(path), name), name)
            kept.append(entry)
        return kept

    def _choose(self, *named: Any) -> list[str] | None:
        return next((self.chosen.pop(key) for key in keys_of_choice(*named) if key in self.chosen), None)

    def _absent(self, path: str, above: str, named: str) -> None:
        is_verls = any(file.is_file() for file in self._candidates(path))
        named = named.removeprefix("override ").removeprefix("optional ").lstrip("/")
        if not is_verls and not named.startswith("hydra/"):
            self.notes.append(f"{posixpath.basename(above)}: {named} is not here, and is taken for what verl has there")

    def file(self, path: str) -> Path | None:
        """Return a config that is the run's own: of a group's options those that verl has so are not."""
        files = filter(Path.is_file, self._candidates(path))
        return next((file for file in files if not ("/" in path and _is_verls(file))), None)

    def _candidates(self, path: str) -> list[Path]:
        found = [Path(os.path.normpath(place / path)) for place in self.places]
        if path.startswith(".."):
            return [file for file in found if any(file.is_relative_to(place) for place in self.within)]
        return found

    def _check_is_here(self, path: str, name: str) -> None:
        if self.file(path) is None:
            here = [place for place in dict.fromkeys(self.places) if readers.is_there(place)]
            raise UsageError(
                f"{self.script}: its config {name}.yaml is not here "
                f"(looked in {', '.join(map(str, here or self.places[:1]))})",
                hint="pass --config-dir DIR, the directory that it is in",
            )

    def _text_of(self, path: str) -> str | None:
        file = self.file(path)
        try:
            return None if file is None else readers.read_text(file)
        except OSError as error:
            raise UsageError(f"{file}: cannot be read: {error.strerror}", hint=_CORRECT) from None

    def _body_of(self, path: str) -> tuple[list[Any], Any]:
        """Return a config's defaults list, and the rest."""
        try:
            return read_config(self._text_of(path) or "")
        except yaml.YAMLError as error:
            raise UsageError(f"{self.file(path)}: not valid YAML: {error}", hint=_CORRECT) from None


def _has_verls(folder: Path) -> bool:
    return (folder / _OF_VERL).is_file()


def _is_verls(file: Path) -> bool:
    """Tell whether the option of a group lies in a tree that has verl's config, and upstream has or had it so."""
    if not any(map(_has_verls, file.parents[:_DEEPEST])):
        return False
    try:
        return fingerprint.fingerprint_text(readers.read_text(file)) in fingerprint.load_upstream_parts()
    except (OSError, UsageError):
        return True


def _defaults_of(folder: Path | None, main: str, places: RunFolders) -> Mapping[str, Any]:
    """Return the config of a name, composed: the launched program's in its folder, or verl's; empty: it is not here."""
    verls = places.find(f"{_CONFIG}/{main}.yaml")
    for place in (folder, None if verls is None else verls.parent):
        if place is None or not (place / f"{main}.yaml").is_file():
            continue
        try:
            found = [file for file in readers.files_below(place) if file.suffix == ".yaml"]
            files = {file.relative_to(place).as_posix(): readers.read_text(file) for file in found}
            config = compose(files, f"{main}.yaml").config if len(files) <= limits.MAX_CONFIG_PARTS else {}
        except (OSError, yaml.YAMLError):
            continue
        if config:
            return config
    return {}
