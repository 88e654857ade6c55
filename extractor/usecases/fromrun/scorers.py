"""What scores responses in a run's checkout where the run itself names nothing: its program's manager, its scorers.

Forks change `verl/utils/reward_score` or the class in `main_ppo.py`, and no setting says so. They are copied where they
know a source of data that the run's release does not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from extractor.pipeline.source import Source
from extractor.usecases.fromrun import managers
from extractor.usecases.fromrun.files import Copying, Places
from extractor.usecases.fromrun.meaning import Remark
from extractor.values import readers
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree

_FUNCTIONS = ("reward.custom_reward_function.path", "custom_reward_function.path")
_SCORERS = "verl/utils/reward_score/__init__.py"
_NAMES = ("default_compute_score", "_default_compute_score")
# The managers that score by the default function where the run names none.
_BY_DEFAULT = {"naive", "dapo", managers.AS_NAIVE}
_TARGET, _PROGRAM = "custom/verl_reward", "custom/verl_program"
# The name under which the class of a run's program is registered.
_OF_THE_RUN = "of_the_run"
_HOOK = '''# vextract:hook  yours: written once, never touched by an upgrade
"""The scorers of the run's checkout: its {place}."""

import inspect
from typing import Any

{imports}


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **more: Any
) -> Any:
    """Score a response as the run's checkout does, with the arguments that its function takes."""
    given = dict(more, data_source=data_source, solution_str=solution_str, ground_truth=ground_truth)
    given["extra_info"] = extra_info
    taken = inspect.signature({name}).parameters
    every = any(item.kind is item.VAR_KEYWORD for item in taken.values())
    return {name}(**{{key: value for key, value in given.items() if every or key in taken}})
'''

_Taken = tuple[Tree, dict[str, Any], list[Remark]]


def take(
    tree: Tree,
    package: str,
    source: Source,
    places: Places,
    program: str,
    settings: Mapping[str, Any],
    project: Mapping[str, Any],
) -> _Taken:
    """Copy what scores the responses of a run that names no function and no manager.

    Args:
        tree: The project's files.
        package: Its package.
        source: verl, of the run's release.
        places: Where the run may have been started from.
        program: What it launches.
        settings: By the project's keys.
        project: The project's config before.

    Returns:
        The tree with the copies, settings that name them, and what a user should know.
    """
    function = next((key for key in _FUNCTIONS if key in project), None)
    named = {settings[key] for key in managers.KEYS if settings.get(key)}
    if function is None or any(settings.get(key) for key in _FUNCTIONS) or named - _BY_DEFAULT:
        return tree, {}, []
    manager = next((key for key in managers.KEYS if key in project), None) if named <= {"naive"} else None
    known = _sources(source.read(_SCORERS)) if _SCORERS in source.files else set()
    known |= {name for file in tree if file.upstream_path == _SCORERS for name in _sources(file.data.decode())}
    file = program.removesuffix(".py") if "/" in program else program.removesuffix(".py").replace(".", "/")
    for path, key in ((f"{file}.py", manager), (_SCORERS, function)):
        text = _text(places, path)
        new = _sources(text) - known
        names = _classes(text) if path != _SCORERS else [name for name in _NAMES if f"def {name}(" in text]
        if new and names and key is not None:
            found = _Scoring(path, names[-1], text, key, ", ".join(sorted(new)))
            return _copied(found, tree, package, Copying(package, tree, source, places))
    return tree, {}, []


@dataclass(frozen=True)
class _Scoring:
    """A class or a function of the checkout that scores.

    Attributes:
        path: Its file, below a root of the checkout.
        name: What it is called there.
        text: Of the file.
        key: The setting that is to name it.
        new: The sources of data that only it knows.
    """

    path: str
    name: str
    text: str = field(repr=False)
    key: str
    new: str


def _copied(found: _Scoring, tree: Tree, package: str, copying: Copying) -> _Taken:
    """Copy it, with a hook that calls it as a project does."""
    is_class = found.path != _SCORERS
    asked = found.text if is_class else f"from verl.utils.reward_score import {found.name}\n"
    try:
        copied = copying.copy(asked, [found.name])
    except (SyntaxError, UsageError, OSError):
        return tree, {}, []
    what = f"{found.path} of the run's checkout scores by rules of its own ({found.new})"
    if copied.missing:
        why = f"{what}, and cannot be imported here: {'; '.join(copied.missing)}"
        return tree, {}, [Remark(found.key, None, "to do", why)]
    files = {file.path: file for file in tree}
    texts = {f"{package}/{path}": text for path, text in copying.files.items()}
    hook = f"{package}/{managers.TARGET if is_class else _TARGET}.py"
    if is_class:
        texts[f"{package}/{_PROGRAM}.py"] = copied.text
        line = f"from {package}.{_PROGRAM.replace('/', '.')} import {found.name}"
        texts[hook] = managers.adapted(_OF_THE_RUN, found.path, found.name, line, "None")
        managers.import_hook(files, package)
    else:
        texts[hook] = _HOOK.format(place=found.path, imports=copied.text.strip(), name=found.name)
    files.update({path: File(path, FileKind.HOOK, text.encode()) for path, text in texts.items()})
    remarks = [Remark(found.key, None, "changed", f"{what}: copied to {hook}, with what it imports")]
    if copied.packages:
        why = f"{hook} needs packages: pip install {' '.join(copied.packages)}"
        remarks.append(Remark(found.key, None, "to do", why))
    return Tree.of(list(files.values())), {found.key: _OF_THE_RUN if is_class else hook}, remarks


def _text(places: Places, path: str) -> str:
    """Return the text of a Python file of the checkout; "" where there is none."""
    file = places.find(path)
    try:
        text = "" if file is None else readers.read_text(file)
        readers.python(text)
    except (OSError, SyntaxError, UsageError):
        return ""
    return text


def _classes(text: str) -> list[str]:
    """Return the classes of a program that it makes reward managers of: called with `num_examine`."""
    tree = ast.parse(text)
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return [
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in defined
        and any(item.arg == "num_examine" for item in node.keywords)
    ]


def _sources(text: str) -> set[str]:
    """Return the names of sources of data that a module compares with."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return set()
    return {name for node in ast.walk(tree) for name in _compared(node)}


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
