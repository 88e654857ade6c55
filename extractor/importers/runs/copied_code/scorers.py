"""What scores responses in a run's checkout where no setting names it: its program's manager, its default scorers.

Forks change `verl/utils/reward_score`, or the manager's class in `main_ppo.py`. These are copied where they are no
version of verl's, or know a source of data that the run's release does not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from extractor.importers.runs import templates
from extractor.importers.runs.copied_code import managers, own_verl
from extractor.importers.runs.copied_code.code import method_of, registered_by, required_by, settings_read, tree_of
from extractor.importers.runs.copied_code.copying import Copied
from extractor.importers.runs.copied_code.manager_hooks import (
    HAS_ITS_OWN,
    PROGRAMS,
    adapted,
    hand_overlong,
    handed_by_programs,
)
from extractor.importers.runs.copied_code.modules import SCORERS
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject, copied_remarks
from extractor.importers.runs.own_config import program_file
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values.errors import UsageError

_FUNCTIONS = ("reward.custom_reward_function.path", "custom_reward_function.path")
_FOLDER = f"{SCORERS.replace('.', '/')}/"
_SCORERS = f"{_FOLDER}__init__.py"
_NAMES = ("default_compute_score", "_default_compute_score")
# The managers that score by the default function where the run names none.
_BY_DEFAULT = {"naive", "dapo", *managers.AS_NAIVE}
# What a function that scores is given.
_OF_A_ROW = {"data_source", "solution_str", "ground_truth", "extra_info"}
_NOT_VERLS = "no version of verl has it so"
_REWARD, _PROGRAM = "custom/verl_reward", "custom/verl_program"
# The name under which the class of a run's program is registered.
_OF_THE_RUN = "of_the_run"


@dataclass(frozen=True)
class _Scorer:
    """A class or a function of the checkout that scores.

    Attributes:
        path: Its file, below a root of the checkout.
        name: What it is called there.
        text: Of the file.
        key: The setting that is to name it.
        new: The sources of data that only it knows, or why else it is not verl's.
        program: What makes it, where that is known.
    """

    path: str
    name: str
    text: str = field(repr=False)
    key: str
    new: str
    program: str = ""


def take(project: TargetProject, program: str, before: Mapping[str, Any]) -> CopyResult:
    """Copy what scores the responses of a run that names no function and no manager.

    Args:
        project: The project, and the run.
        program: What the run launches.
        before: The project's config without the run's settings.
    """
    if found := _changed_class(project, before, program):
        taken = _copy_class(found, project)
        if taken.settings:
            return taken
    function = next((key for key in _FUNCTIONS if key in before), None)
    named = {project.settings[key] for key in managers.KEYS if project.settings.get(key)}
    if function is None or not named <= _BY_DEFAULT or any(project.settings.get(key) for key in _FUNCTIONS):
        return CopyResult(project.tree)
    key = next((key for key in managers.KEYS if key in before), None) if named <= {managers.PLAIN} else None
    path = program_file(program)
    text = project.checkouts(path)
    classes = own_verl.classes_of_program(tree_of(text))
    new = _sources(text) - _known(project) or ({_NOT_VERLS} if own_verl.is_own_manager(text) else set())
    if new and classes and key is not None:
        return _copy_class(_Scorer(path, classes[-1], text, key, ", ".join(sorted(new))), project)
    text = project.checkouts(_SCORERS)
    new = _sources(text) - _known(project) or {item for item in own_verl.changed(project) if item.startswith(_FOLDER)}
    defined = [name for name in _NAMES if f"def {name}(" in text]
    if new and defined:
        return _copy_function(_Scorer(_SCORERS, defined[-1], text, function, ", ".join(sorted(new))), project)
    return CopyResult(project.tree)


def _changed_class(project: TargetProject, before: Mapping[str, Any], program: str) -> _Scorer | None:
    """Return the checkout's class of the manager that a run goes by, where no version of verl's is the same."""
    key = next((key for key in managers.KEYS if key in before), None)
    name = managers.chosen(project) or managers.PLAIN
    path = f"verl/workers/reward_manager/{name}.py"
    if key is None or not own_verl.is_changed(project, path):
        return None
    text = project.checkouts(path)
    classes = [node for node in tree_of(text).body if isinstance(node, ast.ClassDef) and method_of(node, "__call__")]
    if not classes:
        return None
    decorated = registered_by(text, managers.decorator_of(name))
    verls = project.source.read(path) if path in project.source.files else ""
    all_of_them = [node.name for node in classes]
    same = [cls for cls in all_of_them if re.search(rf"^class {cls}\b", verls, re.MULTILINE)]
    lines = text.split("\n")
    for node in reversed(classes):  # what they register themselves as is the project's own
        for item in reversed(node.decorator_list):
            if ast.unparse(item).startswith("register("):
                del lines[item.lineno - 1 : item.end_lineno]
    cls = ([item for item in all_of_them if item in decorated] or same or all_of_them)[-1]
    return _Scorer(path, cls, "\n".join(lines), key, _NOT_VERLS, program)


def _known(project: TargetProject) -> set[str]:
    """Return the sources of data that the scorers of the run's release, or the project's, know."""
    known = _sources(project.source.read(_SCORERS)) if _SCORERS in project.source.files else set()
    texts = [file.data.decode() for file in project.tree if file.upstream_path == _SCORERS]
    return known.union(*map(_sources, texts))


def _what(found: _Scorer) -> str:
    return f"{found.path}, which scores by rules of its own ({found.new}),"


def _cannot_be_had(found: _Scorer, copied: Copied | None, project: TargetProject) -> CopyResult:
    lost = [] if copied is None else [f"{_what(found)} cannot be imported here: {'; '.join(copied.missing)}"]
    return CopyResult(project.tree, [Remark(found.key, None, "to do", why) for why in lost])


def _copy_function(found: _Scorer, project: TargetProject) -> CopyResult:
    """Copy the checkout's scorers, with a hook that calls them as a project does."""
    copying = project.copying()
    try:
        copied = copying.copy(f"from {SCORERS} import {found.name}\n", [found.name])
    except (SyntaxError, UsageError, OSError):
        copied = None
    if copied is None or copied.missing:
        return _cannot_be_had(found, copied, project)
    hook = f"{project.package}/{_REWARD}.py"
    text = templates.render("verl_reward.py", place=found.path, imports=copied.text.strip(), name=found.name)
    tree = project.with_hooks({f"{_REWARD}.py": text, **copying.files}, {})
    remarks = copied_remarks(found.key, None, _what(found), hook, copied)
    functions = [node for node in tree_of(found.text).body if isinstance(node, ast.FunctionDef)]
    asked = {name for node in functions if node.name == found.name for name in required_by(node)} - _OF_A_ROW
    if asked:
        why = f"{found.name} takes {', '.join(sorted(asked))}, which {hook} is to hand over"
        remarks.append(Remark(found.key, None, "to do", why))
    settings: dict[str, Any] = {found.key: hook}
    named = f"{found.key.removesuffix('path')}name"
    if named in project.settings:  # null, of a run that names no function
        settings[named] = "compute_score"
    return CopyResult(tree, remarks, settings, (found.path, _FOLDER))


def _copy_class(found: _Scorer, project: TargetProject) -> CopyResult:
    """Copy the checkout's reward manager, with a hook that registers it."""
    copying = project.copying()
    try:
        place = project.places.find(found.path)
        copied = copying.copy(found.text, [found.name], place=place, version_of=found.path)
    except (SyntaxError, UsageError, OSError):
        copied = None
    if copied is None or copied.missing:
        return _cannot_be_had(found, copied, project)
    hook = f"{project.package}/{managers.TARGET}.py"
    programs = sorted({program_file(found.program) if found.program else found.path, *PROGRAMS})
    texts = [project.checkouts(path) for path in programs]
    handed, lacking = handed_by_programs(texts, found.name)
    hooks = adapted(
        _OF_THE_RUN,
        found.path,
        found.name,
        f"from {project.package}.{_PROGRAM.replace('/', '.')} import {found.name}",
        "None",
        handed,
        has_its_own=HAS_ITS_OWN.search(copied.text) is not None,
        has_overlong=hand_overlong(texts, found.name),
    )
    own = {f"{_PROGRAM}.py": copied.text, **hooks, **copying.files}
    tree = project.with_hooks(own, {managers.TARGET: managers.IMPORTED_BY})
    remarks = copied_remarks(found.key, managers.chosen(project), _what(found), hook, copied)
    if lacking:
        why = f"{found.path} is made with {', '.join(lacking)}: {hook} is to hand it over"
        remarks.append(Remark(found.key, None, "to do", why))
    reads = settings_read([*handed.values(), copied.text, *copying.files.values()])
    return CopyResult(tree, remarks, {found.key: _OF_THE_RUN}, (found.path, _FOLDER), tuple(sorted(reads)))


def _sources(text: str) -> set[str]:
    """Return the names of sources of data that a module compares with."""
    return {name for node in ast.walk(tree_of(text)) for name in _compared(node)}


def _compared(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and any(map(_is_source, [node.left, *node.comparators])):
        yield from _texts([node.left, *node.comparators])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_source(node.func.value):
        yield from _texts(node.args)


def _is_source(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and "data_source" in node.id


def _texts(nodes: Collection[ast.AST]) -> Iterator[str]:
    for item in (part for node in nodes for part in ast.walk(node)):
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value
