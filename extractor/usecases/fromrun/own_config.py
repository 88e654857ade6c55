"""The config that a run starts from, where it is not verl's own ppo_trainer."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from extractor.usecases.fromrun import checkout
from extractor.usecases.fromrun.files import Places
from extractor.usecases.fromrun.unknowns import readable
from extractor.values import fingerprint, readers
from extractor.values.configtree.compose import read_mapping
from extractor.values.errors import UsageError

VERLS = re.compile(r"_?(generated_)?ppo_(megatron_|torchtitan_|veomni_)?trainer")
_NAME, _FOLDER = ("--config-name", "-cn"), ("--config-path", "-cp", "--config-dir", "-cd")
_CHOICE = re.compile(r"\+{0,2}([\w/]+(?:@[\w.]+)?)=(?:([\w/-]+)|\[\s*([\w/-]+(?:\s*,\s*[\w/-]+)*)\s*\])")
_FILE = re.compile(r"[\w./~][\w./~-]*\.yaml")
_QUOTES = "'\""
_OF_VERL = "ppo_trainer.yaml"
_OF_A_PACKAGE = "pkg://"
_PACKAGE = re.compile(r"\A(?:#.*\n|\s*\n)*?#\s*@package\s+(\S+)")


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
        beside += places.folders_like(readable(folder), by_last=True)
    folders = [*config_dirs, *beside, path.parent, path.parent / "config", *elsewhere]
    main = said or default
    choices = [_choice(item, folders) for item in words]
    chosen = dict(filter(None, choices))
    own = _Own(path, folders, dict(chosen))
    if VERLS.fullmatch(main) is None:
        try:
            main = own.read(main)
        except UsageError:
            if said:
                raise
            why = f"{module} starts from {main}.yaml, which is not here: name its directory with --config-dir"
            own = _Own(path, folders, dict(chosen), notes=[why])
            main = "ppo_trainer"
    own.add()
    words = [item for item, choice in zip(words, choices, strict=True) if choice is None]
    at = next((place for place in (*config_dirs, *beside) if (place / f"{main}.yaml").is_file()), None)
    return OwnConfig(main, checkout.defaults_of(at, main, places), tuple(own.found), tuple(words), tuple(own.notes))


def _choice(word: str, places: Sequence[Path]) -> tuple[str, list[str]] | None:
    """Return group and options of a word that chooses files of the run's own; None for any other."""
    found = _CHOICE.fullmatch(word)
    if found is None:
        return None
    options = [found[2]] if found[2] else re.split(r"\s*,\s*", found[3])
    group = found[1].partition("@")[0]
    return (found[1], options) if all(_own_file(f"{group}/{option}", places) for option in options) else None


def _own_file(name: str, places: Sequence[Path]) -> Path | None:
    """Return the file of a group's option that is the run's own; None where it is verl's, or there is none."""
    for place in places:
        file = place / f"{name}.yaml"
        if file.is_file() and not ((place / _OF_VERL).is_file() and _is_verls(file)):
            return file
    return None


def _is_verls(file: Path) -> bool:
    """Tell whether upstream has or had a file so: what is chosen of those is looked up in the release."""
    try:
        return fingerprint.of_text(readers.read_text(file)) in fingerprint.parts_of_upstream()
    except (OSError, UsageError):
        return True


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


@dataclass
class _Own:
    """Reads configs that are the run's own.

    Attributes:
        script: Which names them.
        places: Where they are looked for.
        chosen: What the launch says of groups, by group.
        found: What they have, in the order in which it counts.
        notes: What a user should know.
    """

    script: Path
    places: Sequence[Path]
    chosen: dict[str, list[str]]
    found: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def read(self, name: str, above: tuple[Path, ...] = ()) -> str:
        """Read a config, and those of the run's own that it starts from; returns verl's that it ends at."""
        file = _found(name, self.places)
        if file is None:
            shown = ", ".join(dict.fromkeys(str(place) for place in self.places))
            raise UsageError(
                f"{self.script}: its config {name}.yaml is not here (looked in {shown})",
                hint="pass --config-dir DIR, the directory that it is in",
            )
        if file in above:
            raise UsageError(f"{file}: configs that start from each other in a circle", hint="correct its defaults")
        body = _read(file)[0]
        main = "ppo_trainer"
        entries = body.pop("defaults", [])
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, str) and "@" in entry:  # without a group, below a package
                option, at, package = entry.partition("@")
                self._choose(at + package, option, file)
            elif isinstance(entry, str) and entry != "_self_":
                main = entry if VERLS.fullmatch(entry) else self.read(entry, (*above, file))
            elif isinstance(entry, dict):
                for key, option in entry.items():
                    self._choose(str(key), option, file)
        body.pop("hydra", None)
        self.found.append(body)
        return main

    def add(self) -> None:
        """Read what the launch adds of groups, and no config has an entry for."""
        parts = [self._of_group(key, option) for key, options in self.chosen.items() for option in options]
        self.found += [part for part in parts if part is not None]

    def _choose(self, key: str, option: Any, file: Path) -> None:
        key = key.split()[-1].strip("/")  # it may be optional, or override another one
        option = self.chosen.pop(key, self.chosen.pop(key.partition("@")[0], option))
        for one in option if isinstance(option, list) else [option]:
            part = None if one is None else self._of_group(key, str(one))
            if part is not None:
                self.found.append(part)
            elif one is not None and not key.startswith("hydra/"):
                named = f"{one}{key}" if key.startswith("@") else f"{key}: {one}"
                self.notes.append(f"{file.name}: {named} is not here, and is taken for what verl has there")

    def _of_group(self, key: str, option: str) -> Mapping[str, Any] | None:
        """Return what a choice of a group adds, below its package; None where its file is not here."""
        group, _, package = key.partition("@")
        file = _own_file(f"{group}/{option}".removesuffix(".yaml").lstrip("/"), self.places)
        if file is None:
            return None
        body, said = _read(file)
        body.pop("defaults", None)
        dotted = (group or option.rpartition("/")[0]).replace("/", ".")
        package = (package or said).replace("_group_", dotted) or dotted
        for part in reversed([] if package.startswith("_global_") else package.split(".")):
            body = {part: body}
        return body


def _found(name: str, places: Sequence[Path]) -> Path | None:
    return next((place / f"{name}.yaml" for place in places if (place / f"{name}.yaml").is_file()), None)


def _read(file: Path) -> tuple[dict[str, Any], str]:
    """Return a config file's body, and the package that it says in its first lines; "" where it says none.

    Raises:
        UsageError: it cannot be read, or is no YAML.
    """
    try:
        text = readers.read_text(file)
        said = _PACKAGE.search(text)
        return read_mapping(text), said[1] if said else ""
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}", hint="correct the file") from None
    except yaml.YAMLError as error:
        raise UsageError(f"{file}: not valid YAML: {error}", hint="correct the file") from None


def unquoted(text: str) -> str:
    """Return a text without the quotes around it."""
    return text[1:-1] if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0] else text
