"""Put a run's settings and reward function into a project's tree."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from extractor.importers.config.project import UNKNOWN, load
from extractor.importers.runs.copied_code import named
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.placeholders import shown
from extractor.importers.runs.run import Run
from extractor.importers.runs.unsupported_keys import Remark
from extractor.usecases.changes.config_keys import select_config
from extractor.values.configtree import compose, flatten
from extractor.values.configtree.compose import merge, read_yaml
from extractor.values.configtree.written import dump_yaml, nest
from extractor.values.errors import InternalError
from extractor.values.tree import File, FileKind, Tree

RECIPE = "verl_run"
_CONFIG = "config/"
_DEFAULT = re.compile(r"^(\s*- recipe@_global_: )\S+$", re.MULTILINE)
_OVER_TOY = "# What the run has otherwise than the toy sizes.\n"


@dataclass(frozen=True)
class WrittenSettings:
    """A project's tree with the run's settings written.

    Attributes:
        tree: All files, with the run's.
        settings: The run's settings.
        remarks: On files that were not found.
    """

    tree: Tree
    settings: Mapping[str, Any]
    remarks: tuple[Remark, ...]


def load_config(tree: Tree, *settings: str) -> Mapping[str, Any]:
    """Return a tree's config with further settings, flat and resolved."""
    return load(select_config(tree), settings).flat


def list_following(tree: Tree) -> set[str]:
    """Return config keys whose value refers to others, `${data.max_response_length}`."""
    composed = compose(select_config(tree), "ppo_trainer.yaml").config
    return {key for key, value in flatten(composed).items() if isinstance(value, str) and "${" in value}


def add_unknown(tree: Tree, run: Run, unknown: Mapping[str, Any]) -> Tree:
    """Add a file with settings unknown to every release."""
    if not unknown:
        return tree
    read = any(
        file.kind is FileKind.HOOK and file.path.endswith(".py") and b"unknown.yaml" in file.data for file in tree
    )
    by = "only what was copied from its checkout reads this file" if read else "nothing in the project reads this file"
    head = f"# What {Path(run.file).name} has and the project has no setting for; {by}.\n"
    return add_hook(tree, UNKNOWN, head + dump_yaml({key: shown(value) for key, value in sorted(unknown.items())}))


def add_hook(tree: Tree, path: str, text: str) -> Tree:
    """Return a tree with another hook file."""
    return Tree.of([*tree, File(path, FileKind.HOOK, text.encode())])


def write(project: TargetProject, run: Run) -> WrittenSettings:
    """Write a run's settings into a tree as a config recipe.

    Args:
        project: The project as generated, and the run's settings.
        run: As it was read.
    """
    taken = named.take_files(project)
    files = {file.path: file for file in taken.tree}
    chosen = {**project.settings, **taken.settings}
    main = files[f"{_CONFIG}ppo_trainer.yaml"]
    text, count = _DEFAULT.subn(rf"\g<1>{RECIPE}", main.data.decode())
    if count != 1:
        raise InternalError("config/ppo_trainer.yaml does not name its recipe", hint="report it")
    files[main.path] = replace(main, data=text.encode())
    recipe = files.get(f"{_CONFIG}recipe/toy.yaml")
    body = (read_yaml(recipe.data.decode()) or {}) if recipe is not None else {}
    merge(body, nest(chosen))
    head = f"# The settings of {Path(run.file).name} where they differ from this project's own.\n"
    path = f"{_CONFIG}recipe/{RECIPE}.yaml"
    files[path] = File(path, FileKind.HOOK, (head + dump_yaml(body)).encode())
    _override_toy(files, chosen)
    return WrittenSettings(Tree.of(list(files.values())), chosen, tuple(taken.remarks))


def _override_toy(files: dict[str, File], settings: Mapping[str, Any]) -> None:
    """Repeat settings in toy configs that would otherwise override them."""
    if settings.get("actor_rollout_ref.model.path") is not None:
        return
    for name in ("scale/toy.yaml", "critic_scale/toy.yaml"):
        file = files.get(_CONFIG + name)
        if file is None:
            continue
        body = read_yaml(file.data.decode()) or {}
        keys = set(flatten(body))
        wrong = {key: value for key, value in settings.items() if key in keys and flatten(body)[key] != value}
        if wrong:
            merge(body, nest(wrong))
            first = "".join(line for line in file.data.decode().splitlines(True) if line.startswith("#"))
            files[file.path] = replace(file, data=(first + _OVER_TOY + dump_yaml(body)).encode())
