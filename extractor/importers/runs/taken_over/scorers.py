"""What scores responses in a run's checkout where the run itself names nothing: its program's manager, its scorers.

Forks change `verl/utils/reward_score` or the class in `main_ppo.py`, and no setting says so. They are copied where they
know a source of data that the run's release does not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from extractor.importers.runs import templates
from extractor.importers.runs.files import SCORERS, own_call
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.own_config import program_file
from extractor.importers.runs.taken_over import manager_hooks, managers, own_verl, registered
from extractor.importers.runs.taken_over.recipient import Recipient, Taken, copied_remarks
from extractor.pipeline.source import Source
from extractor.values import readers
from extractor.values.errors import UsageError
from extractor.values.modules import module_name

_FUNCTIONS = ("reward.custom_reward_function.path", "custom_reward_function.path")
_SCORERS = f"{SCORERS.replace('.', '/')}/__init__.py"
_NAMES = ("default_compute_score", "_default_compute_score")
# The managers that score by the default function where the run names none.
_BY_DEFAULT = {"naive", "dapo", *managers.AS_NAIVE}
# What a row and a response are to a function that scores; what it takes besides, a class of the checkout hands over.
_OF_A_ROW = {"data_source", "solution_str", "ground_truth", "extra_info"}
_CLASSES = "workers/reward_manager/"
_SCORED_BY = f"{SCORERS.replace('.', '/')}/"
# What makes the reward managers in verl.
_NOT_VERLS = "no version of verl has it so"
_TARGET, _PROGRAM = "custom/verl_reward", "custom/verl_program"
# The name under which the class of a run's program is registered.
_OF_THE_RUN = "of_the_run"


def take(project: Recipient, program: str, before: Mapping[str, Any]) -> Taken:
    """Copy what scores the responses of a run that names no function and no manager.

    Args:
        project: The project, and the run.
        program: What the run launches.
        before: The project's config without the run's settings.
    """
    settings, source = project.settings, project.source
    function = next((key for key in _FUNCTIONS if key in before), None)
    named = {settings[key] for key in managers.KEYS if settings.get(key)}
    changed = _changed_class(project, before, program)
    if changed.settings:
        return changed
    others = named - _BY_DEFAULT
    if function is None or not others <= _registered(project, others):
        return Taken(project.tree)
    if any(settings.get(key) for key in _FUNCTIONS):
        return _calling(project, before) if named <= {"naive"} else Taken(project.tree)
    manager = next((key for key in managers.KEYS if key in before), None) if named <= {"naive"} else None
    known = _sources(source.read(_SCORERS)) if _SCORERS in source.files else set()
    known |= {name for file in project.tree if file.upstream_path == _SCORERS for name in _sources(file.data.decode())}
    imported = _imported(project, program, manager) if manager is not None else None
    if imported is not None:
        return _copied(imported, project)
    for path, key in ((program_file(program), manager), (_SCORERS, function)):
        text = project.text(path)
        new = _sources(text) - known
        if path == _SCORERS and not new:
            new = {item for item in own_verl.changed(project) if item.startswith(_SCORED_BY)}
        elif not new and own_verl.is_own_manager(text):
            new = {_NOT_VERLS}
        defined = [name for name in _NAMES if f"def {name}(" in text]
        names = defined if path == _SCORERS else own_verl.classes_of_program(registered.tree_of(text))
        if new and names and key is not None:
            handing = _handing(project, _more(text, source)) if path == _SCORERS else None
            if handing is not None and manager is not None:
                place, cls, own = handing
                taken = _copied(_Scoring(place, cls, own, manager, ", ".join(sorted(new))), project)
                if taken.settings:
                    return taken
            return _copied(_Scoring(path, names[-1], text, key, ", ".join(sorted(new))), project)
    return Taken(project.tree)


def _registered(project: Recipient, names: Collection[str]) -> set[str]:
    """Return which reward managers the run's checkout registers itself: verl hands these its default function."""
    files = registered.python_files(project.places) if names else ()
    return managers.names({path: text for path, text in files if _CLASSES in path and "compute_score" in text})


def _imported(project: Recipient, program: str, key: str) -> _Scoring | None:
    """Return the class of a reward manager that a program imports from a file which no release of verl has."""
    file = program_file(program)
    found = own_verl.imported_by_program(registered.tree_of(project.text(file)), module_name(file))
    for module, name in found:  # the first is what trains, and others may only validate
        path = f"{module.replace('.', '/')}.py"
        text = project.text(path)
        if not path.startswith(f"verl/{_CLASSES}") and path not in project.source.files and f"class {name}" in text:
            return _Scoring(path, name, text, key, _NOT_VERLS, program)
    return None


def _changed_class(project: Recipient, before: Mapping[str, Any], program: str) -> Taken:
    """Copy the checkout's class of the manager that a run goes by, where it does what no version of verl's does."""
    key = next((key for key in managers.KEYS if key in before), None)
    named = {str(project.settings[name]) for name in managers.KEYS if project.settings.get(name)} or {managers.PLAIN}
    path = f"verl/{_CLASSES}{min(named)}.py"
    if key is None or len(named) > 1 or not own_verl.is_changed(project, path):
        return Taken(project.tree)
    text = project.text(path)
    classes = [node for node in registered.tree_of(text).body if isinstance(node, ast.ClassDef)]
    classes = [node for node in classes if any(getattr(item, "name", "") == "__call__" for item in node.body)]
    if not classes:
        return Taken(project.tree)
    cls = _of_name([node.name for node in classes], min(named), path, text, project)
    lines = text.split("\n")
    for node in reversed(classes):  # what they register themselves as is the project's own
        for item in reversed(node.decorator_list):
            if ast.unparse(item).startswith("register("):
                del lines[item.lineno - 1 : item.end_lineno]
    return _copied(_Scoring(path, cls, "\n".join(lines), key, _NOT_VERLS, program), project)


def _of_name(classes: list[str], name: str, path: str, text: str, project: Recipient) -> str:
    """Return which classes of a file a manager's name is for: what registers itself so, or is called as verl's is."""
    decorated = registered.registered_by(text, registered.decorator_of(name))
    verls = project.source.read(path) if path in project.source.files else ""
    same = [cls for cls in classes if re.search(rf"^class {cls}\b", verls, re.MULTILINE)]
    return ([cls for cls in classes if cls in decorated] or same or classes)[-1]


def _calling(project: Recipient, before: Mapping[str, Any]) -> Taken:
    """Copy the checkout's manager that calls the function of a run with more than a row and a response."""
    key = next(key for key in _FUNCTIONS if project.settings.get(key))
    manager = next((name for name in managers.KEYS if name in before), None)
    given = str(project.settings[key])
    file = project.places.find(given) or project.places.find_like(given)
    if file is None or manager is None or file.suffix != ".py":
        return Taken(project.tree)
    name = str(project.settings.get(f"{key.removesuffix('.path')}.name") or "compute_score")
    try:
        more = _takes_besides(readers.read_text(file), (name,))
    except SyntaxError:
        return Taken(project.tree)
    arguments = f"{key.removesuffix('.path')}.reward_kwargs."
    more -= {item.removeprefix(arguments) for item in project.settings if item.startswith(arguments)}
    handing = _handing(project, more)
    if handing is None:
        return Taken(project.tree)
    place, cls, text = handing
    return _copied(_Scoring(place, cls, text, manager, f"{name} takes {', '.join(sorted(more))}"), project)


@dataclass(frozen=True)
class _Scoring:
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


def _copied(found: _Scoring, project: Recipient) -> Taken:
    """Copy it, with a hook that calls it as a project does."""
    is_class = found.path != _SCORERS
    kept: list[str] = []
    reads: tuple[str, ...] = ()
    asked = found.text if is_class else f"from {SCORERS} import {found.name}\n"
    copying = project.copying()
    try:
        place = project.places.find(found.path) if is_class else None
        copied = copying.copy(asked, [found.name], place=place, version_of=found.path if is_class else None)
    except (SyntaxError, UsageError, OSError):
        return Taken(project.tree)
    what = f"{found.path}, which scores by rules of its own ({found.new}),"
    if copied.missing:
        why = f"{what} cannot be imported here: {'; '.join(copied.missing)}"
        return Taken(project.tree, [Remark(found.key, None, "to do", why)])
    package, target = project.package, managers.TARGET if is_class else _TARGET
    hook = f"{package}/{target}.py"
    if is_class:
        line = f"from {package}.{_PROGRAM.replace('/', '.')} import {found.name}"
        programs = (
            {program_file(found.program), *manager_hooks.PROGRAMS}
            if found.program
            else {found.path, *manager_hooks.PROGRAMS}
        )
        texts = [project.text(path) for path in sorted(programs)]
        handed, kept = manager_hooks.handed_by_programs(texts, found.name)
        section = manager_hooks.section_handed(texts, found.name)
        inside = () if section else (copied.text,)  # what is asked for there is of the section
        read = own_call.read_of_the_whole([*handed.values(), *inside, *copying.files.values()])
        read |= own_call.settings_read(copied.text, section) if section else set()
        reads = tuple(sorted(read))
        has_its_own = manager_hooks.HAS_ITS_OWN.search(copied.text) is not None
        text = manager_hooks.adapted(
            _OF_THE_RUN,
            found.path,
            found.name,
            line,
            "None",
            handed,
            section=section,
            has_its_own=has_its_own,
            has_overlong=manager_hooks.hand_overlong(texts, found.name),
        )
        own = {f"{_PROGRAM}.py": copied.text, **manager_hooks.support(text)}
        imported_by = {target: managers.IMPORTED_BY}
    else:
        text = templates.render("verl_reward.py", place=found.path, imports=copied.text.strip(), name=found.name)
        own, imported_by = {}, {}
    tree = project.with_hooks({**own, f"{target}.py": text, **copying.files}, imported_by)
    said = next((project.settings[key] for key in managers.KEYS if is_class and project.settings.get(key)), None)
    remarks = copied_remarks(found.key, said, what, hook, copied)
    if is_class:
        remarks += managers.asking(found.key, _OF_THE_RUN, found.name, [copied.text])
    if kept:
        why = (
            f"{found.path} is made with {', '.join(kept)}, which only the run's program has: {hook} is to hand it over"
        )
        remarks.append(Remark(found.key, None, "to do", why))
    settings = {found.key: _OF_THE_RUN if is_class else hook}
    named = f"{found.key.removesuffix('path')}name"
    if not is_class and named in project.settings:  # null, of a run that names no function
        settings[named] = "compute_score"
    return Taken(tree, remarks, settings, (found.path, _SCORED_BY), reads)


def _more(text: str, source: Source) -> set[str]:
    """Return what a checkout's default scorers must be given, and those of its release need not."""
    return _takes_besides(text) - _takes_besides(source.read(_SCORERS) if _SCORERS in source.files else "")


def _takes_besides(text: str, names: Collection[str] = _NAMES) -> set[str]:
    """Return what functions of a module must be given that is neither of a row nor of a response."""
    found = set()
    for node in registered.tree_of(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in names:
            found |= set(registered.required_by(node))
    return found - _OF_A_ROW


def _handing(project: Recipient, more: Collection[str]) -> tuple[str, str, str] | None:
    """Return the checkout's reward manager that hands more to its scorers: its file, its class, and the file's text.

    None where they need no more. One that names all of it comes first, then `naive`, which verl
    takes where a run names none. One that registers itself would take the place of the project's of that name: it is
    left.
    """
    found = []
    for place, text in registered.python_files(project.places):
        if more and _CLASSES in place and "_compute_score" in text:
            classes = [
                node.name
                for node in registered.tree_of(text).body
                if isinstance(node, ast.ClassDef)
                and not node.decorator_list
                and any(isinstance(item, ast.FunctionDef) and item.name == "__call__" for item in node.body)
            ]
            names_all = all(f"{name}=" in text for name in more)
            is_plain = PurePosixPath(place).stem == managers.PLAIN
            if classes and (names_all or is_plain):
                cls = _of_name(classes, managers.PLAIN, f"verl/{_CLASSES}{managers.PLAIN}.py", text, project)
                found.append((not names_all, not is_plain, place, cls, text))
    return min(found)[2:] if found else None


def _sources(text: str) -> set[str]:
    """Return the names of sources of data that a module compares with."""
    return {name for node in ast.walk(registered.tree_of(text)) for name in _compared(node)}


def _compared(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Compare) and any(map(_is_source, [node.left, *node.comparators])):
        yield from (name for side in [node.left, *node.comparators] for name in _texts(side))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_source(node.func.value):
        yield from (name for item in node.args for name in _texts(item))


def _is_source(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and "data_source" in node.id


def _texts(node: ast.AST) -> Iterator[str]:
    for item in ast.walk(node):
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value
