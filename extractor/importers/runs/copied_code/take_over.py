"""All that a run's checkout has and a project has not, copied in order."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from extractor.importers.runs.copied_code import easyr1, managers, named, own_verl, registered, scorers, trl
from extractor.importers.runs.copied_code.code import tree_of
from extractor.importers.runs.copied_code.copying import FOLDER
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject
from extractor.importers.runs.other_libraries.translation import FileScored
from extractor.importers.runs.own_config import program_file
from extractor.importers.runs.run import Run
from extractor.importers.runs.unsupported_keys import Remark

_READS = {"os.getenv", "getenv", "os.environ.get", "environ.get", "os.environ.setdefault"}
_ANYONES = {"HOME", "PATH", "PWD", "USER"}


@dataclass(frozen=True)
class CopiedCode:
    """A project with what its run's checkout has.

    Attributes:
        project: It.
        remarks: What a user should know.
        aside: Settings that name what neither has.
        asked: Settings of no release that copies ask their config for.
    """

    project: TargetProject
    remarks: list[Remark]
    aside: dict[str, Any]
    asked: Mapping[str, Any]


def copy_user_code(
    project: TargetProject,
    run: Run,
    said: Mapping[str, Any],
    unknown: Mapping[str, Any],
    before: Mapping[str, Any],
    *,
    keeps_unknown: bool,
    is_adopted: bool,
) -> CopiedCode:
    """Copy what the run's settings name and the project has not.

    Args:
        project: With the run's settings.
        run: As it was read.
        said: All that it says, its checkout's defaults included, by the run's keys.
        unknown: Settings of it that no release has.
        before: The project's own settings.
        keeps_unknown: Whether what is not known is put aside.
        is_adopted: Whether the project has the checkout's edits, as far as they have a place there.
    """
    remarks: list[Remark] = []
    aside: dict[str, Any] = {}
    reads: set[str] = set()
    places: list[str] = []

    def put_aside(target: TargetProject) -> CopyResult:
        taken, names = registered.put_aside(target, before) if keeps_unknown else (CopyResult(target.tree), {})
        aside.update(names)
        return taken

    for take in _steps(run, before, put_aside):
        taken = take(project)
        remarks += taken.remarks
        reads.update(taken.reads)
        places += taken.places
        project = replace(project, tree=taken.tree, settings={**project.settings, **taken.settings})
    remarks += own_verl.remarks(project, tuple(places), is_adopted=is_adopted)
    remarks += own_verl.own_trainer(project, program_file(run.program))
    handed = managers.handed_settings(project, unknown)
    project = replace(project, settings={**handed, **project.settings})
    why = "what the run's program makes its reward manager with"
    remarks += [Remark(key, value, "changed", why) for key, value in handed.items()]
    left = [key for key in managers.not_taken(project) if key not in before]
    why = "its reward manager takes no such argument"
    remarks += [Remark(key, project.settings[key], "dropped", why) for key in left]
    kept = {key: value for key, value in project.settings.items() if key not in left}
    return CopiedCode(replace(project, settings=kept), remarks, aside, _asked_for(reads, said, before))


def _steps(
    run: Run, before: Mapping[str, Any], put_aside: Callable[[TargetProject], CopyResult]
) -> Iterator[Callable[[TargetProject], CopyResult]]:
    """Yield what copies one kind of code each, in order."""
    yield registered.take
    scored_by = run.scored_by
    if isinstance(scored_by, FileScored):
        yield lambda project: easyr1.take_rewards(project, scored_by)
    elif scored_by is not None:
        yield lambda project: trl.take_rewards(project, scored_by)
    yield lambda project: easyr1.take_prompts(project, run.written)
    yield managers.take
    yield named.take_modules
    yield put_aside
    yield lambda project: scorers.take(project, run.program, before)


def _asked_for(reads: Iterable[str], said: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run says of the settings that copies read, as far as the project has none of that name."""
    sections = {key.partition(".")[0] for key in before}  # of which one that is handed on whole says nothing
    names = [name for name in reads if name not in sections]
    return {
        key: value
        for key, value in said.items()
        if key not in before and any(key == name or key.startswith(f"{name}.") for name in names)
    }


def variables_read(project: TargetProject, environment: Mapping[str, str]) -> list[Remark]:
    """Report the variables that copies read and the run's script exports.

    Args:
        project: The project, with the copies.
        environment: What the run's command would see.
    """
    below = tuple(f"{project.package}/custom/{name}" for name in (f"{FOLDER}/", "verl_", "trl_", "easyr1_"))
    found = {
        name: path
        for path, text in project.code.items()
        if path.startswith(below) and re.search("environ|getenv", text)
        for name in _variables(tree_of(text))
        if name in environment.keys() - _ANYONES
    }
    why = "{path} reads it, and the run's script exports it: export it before a run"
    return [Remark(f"${name}", None, "to do", why.format(path=path)) for name, path in sorted(found.items())]


def _variables(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the variables that a module reads."""
    for node in ast.walk(tree):
        name: ast.expr | None = None
        if isinstance(node, ast.Call) and ast.unparse(node.func) in _READS and node.args:
            name = node.args[0]
        elif isinstance(node, ast.Subscript) and ast.unparse(node.value) in {"os.environ", "environ"}:
            name = node.slice
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            yield name.value
