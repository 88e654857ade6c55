"""What a launch comes to when Hydra itself composes it, with the config tree of a checkout or of a release of verl."""

import ast
import contextlib
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from extractor.values.configtree import flatten

_FLAGS = {"--config-name": "name", "-cn": "name", "--config-path": "path", "-cp": "path"}
_DIRECTORY = ("--config-dir", "-cd")
_UNKNOWN = re.compile(r"[Cc]ould not override '([^']+)'|Key '([^']+)' is not in struct|full_key: (\S+)")
_PACKAGE = "pkg://"


@dataclass(frozen=True)
class Composition:
    """Holds what Hydra makes of a launch.

    Attributes:
        config: By dotted key, resolved; "???" where a value is missing.
        written: The same keys as they are written, with what they follow.
        forced: Overrides that Hydra refused as they were, and took with `++`.
        refused: What Hydra says; "": nothing.
    """

    config: Mapping[str, Any]
    written: Mapping[str, Any]
    forced: tuple[str, ...] = ()
    refused: str = ""


def configs_of(files: Mapping[str, str], into: Path) -> Path:
    """Write the YAML files of a tree, by path, and no code: packages without any, which Hydra can search."""
    shutil.rmtree(into, ignore_errors=True)
    for path, text in files.items():
        if path.endswith(".yaml"):
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            (into / path).write_text(text, encoding="utf-8")
            (into / path).with_name("__init__.py").touch()  # Hydra warns of a package without one
    return into


def composed(
    tree: Path,
    program: Path | None,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    root: Path,
    started_in: Path | None = None,
) -> Composition:
    """Compose a launch as the program's `hydra.main` would.

    Args:
        tree: Of `configs_of`, with the config directories at their paths.
        program: The file that is launched, below root; None: verl's main_ppo.
        arguments: Behind the program.
        environment: Which the program sees.
        root: What the paths of tree are relative to in the launch.
        started_in: The directory of the launch; None, or not below root: root.
    """
    folder, name = _of_the_program(program)
    overrides, directories = [], []
    items = iter(arguments)
    for item in items:
        flag, equals, value = item.partition("=")
        if flag in _FLAGS or flag in _DIRECTORY:
            value = value if equals else next(items, "")
            if flag in _DIRECTORY:
                directories.append(value)
            elif _FLAGS[flag] == "name":
                name = value
            else:
                folder = value
        elif not item.startswith("-"):
            overrides.append(item)
    place = "verl/trainer" if program is None else program.relative_to(root).parent.as_posix()
    if folder.startswith(_PACKAGE):
        at = tree / folder.removeprefix(_PACKAGE).replace(".", "/")
    elif folder.startswith(str(root)):
        at = tree / Path(folder).relative_to(root)
    else:
        at = tree / place / folder
    if not at.is_dir():  # a folder on somebody's machine, in which the checkout is
        ends = (Path(*Path(folder).parts[start:]) for start in range(1, len(Path(folder).parts)))
        at = next((tree / end for end in ends if (tree / end).is_dir()), at)
    if directories:
        overrides.append(f"hydra.searchpath=[{','.join(f'file://{item}' for item in directories)}]")
    stands = root if started_in is None or not started_in.is_relative_to(root) else started_in
    with _seeing(tree, environment, tree / stands.relative_to(root)):
        return _composed(at.resolve(), name.removesuffix(".yaml"), overrides)


def _composed(at: Path, name: str, overrides: list[str]) -> Composition:
    forced: list[str] = []
    while True:
        try:
            with initialize_config_dir(str(at), version_base=None):
                config = compose(name, overrides=overrides)
            values = dict(leaves(config))
            written = flatten(cast("dict[str, Any]", OmegaConf.to_container(config, resolve=False)))
            return Composition(values, {key: written.get(key) for key in values}, tuple(forced))
        except (HydraException, OmegaConfBaseException) as error:
            said = " ".join(str(error).split())
            found = _UNKNOWN.search(str(error))
            key = next((part for part in found.groups() if part), "") if found else ""
            mended = _forced(overrides, key, said)
            if mended is None:
                return Composition({}, {}, tuple(forced), said or type(error).__name__)
            forced.append(overrides[mended])
            overrides[mended] = "++" + overrides[mended].lstrip("+")


def _forced(overrides: Sequence[str], key: str, said: str) -> int | None:
    """Return which override Hydra speaks of, and would take with `++`."""
    for index, item in enumerate(overrides):
        own = item.lstrip("+").partition("=")[0]
        if not item.startswith(("++", "~")) and own and (own == key or f"'{own}'" in said or f" {own}" in said):
            return index
    return None


def leaves(config: DictConfig, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a config's values by dotted key, each resolved by itself."""
    for name in map(str, config):
        key = f"{prefix}{name}"
        if OmegaConf.is_missing(config, name):
            yield key, "???"
            continue
        try:
            value = config[name]
        except (OmegaConfBaseException, ValueError):
            value = str(OmegaConf.to_container(config, resolve=False)[name])  # type: ignore[index, call-overload]
        if isinstance(value, DictConfig) and len(value):
            yield from leaves(value, f"{key}.")
        elif isinstance(value, (DictConfig, ListConfig)):
            try:
                yield key, OmegaConf.to_container(value, resolve=True)
            except OmegaConfBaseException:
                yield key, OmegaConf.to_container(value, resolve=False)
        else:
            yield key, value


def _of_the_program(program: Path | None) -> tuple[str, str]:
    """Return the config directory and name that a program's `hydra.main` says; verl's where it does not."""
    if program is not None:
        try:
            tree = ast.parse(program.read_text(encoding="utf-8"))
        except SyntaxError:  # Python would not run it either
            return "config", "ppo_trainer"
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "hydra.main":
                given = {item.arg: ast.literal_eval(item.value) for item in node.keywords}
                return given.get("config_path") or ".", given.get("config_name") or "config"
    return "config", "ppo_trainer"


@contextlib.contextmanager
def _seeing(tree: Path, environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Let Hydra see a tree's packages, stand in a directory of it, and have an environment."""
    before, place, paths = dict(os.environ), Path.cwd(), list(sys.path)
    GlobalHydra.instance().clear()
    _forget()
    os.environ.update(environment)
    sys.path.insert(0, str(tree))
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(place)
        sys.path[:] = paths
        os.environ.clear()
        os.environ.update(before)
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("verl", "recipe")]:
        del sys.modules[name]
