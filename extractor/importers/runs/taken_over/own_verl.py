"""A checkout whose copy of verl was changed: what of it decides the training, and is no version of upstream's."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over import registered
from extractor.importers.runs.taken_over.recipient import Recipient
from extractor.values.fingerprint import (
    fingerprint,
    names_of_upstreams_keys,
    of_part,
    of_upstream,
    of_upstreams_programs,
    parts_of_upstream,
)
from extractor.values.modules import absolute

_PACKAGE = "verl"
_MANAGERS = "verl/workers/reward_manager/"
# What all that decides a gradient is a function of.
_ALGORITHMS, _MOST = "verl/trainer/ppo/core_algos.py", 5
_THE_REST = "The project has verl's; adopting the copy with --from-verl-run carries over what has a place in a project"
_SHOWN = 60  # characters of a value
# Values of a setting that does nothing.
_OFF: tuple[Any, ...] = (None, False, 0, "", [], {})
# Trainers of verl's programs, and those that a project has the algorithms of.
_TRAINER = re.compile(r"\w+Trainer")
_TRAINERS = {"RayPPOTrainer", "RayDAPOTrainer", "RayPRIMETrainer", "RayEntropyTrainer"}
# What verl's programs call the manager that scores in training.
_TRAINS = "reward_fn"


def changed(project: Recipient) -> list[str]:
    """Return the files of the checkout's verl that compute what no version of upstream's does, by path."""
    return [path for path in of_upstream() if is_changed(project, path)]


def is_changed(project: Recipient, path: str) -> bool:
    """Tell whether the checkout has a file of verl that is neither of the run's release nor of upstream's history.

    A file that upstream never had is the checkout's own, and none that was changed.
    """
    known = of_upstream().get(path)
    text = project.text(path) if known else ""
    if not text or not known or (path in project.source.files and project.source.read(path) == text):
        return False
    return _fingerprint_of(text) not in known


@lru_cache(maxsize=128)  # each file is asked for several times in a conversion
def _fingerprint_of(text: str) -> str:
    return fingerprint(registered.tree_of(text))


def defaults(project: Recipient, own: Mapping[str, Any], known: Collection[str]) -> list[Remark]:
    """Return a remark on each default of the checkout's own that its changed files read, and no release of verl has.

    Args:
        project: The project, and the run.
        own: The checkout's config, flat.
        known: The keys of the run's release, and those that something is said of.
    """
    texts = {path: project.text(path) for path in changed(project)}
    names, found = names_of_upstreams_keys(), []
    for key, value in own.items():
        if key in known or value in _OFF or names.issuperset(key.split(".")):
            continue
        asked = re.compile(rf"[.\"']{re.escape(key.rpartition('.')[2])}\b")
        reader = next((path for path, text in texts.items() if asked.search(text)), None)
        if reader is not None:
            file = PurePosixPath(reader).relative_to(_PACKAGE)
            why = f"by default in the run's own checkout, whose {file} reads it; no release of verl has it"
            shown = str(value)
            shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
            found.append(Remark(key, shown, "not carried over", why))
    return found


def is_own(project: Recipient, path: str) -> bool:
    """Tell whether a file is one of the checkout's reward managers, and upstream never had one of that name."""
    return path.startswith(_MANAGERS) and path not in of_upstream() and bool(project.text(path))


def classes_of_program(tree: ast.Module) -> list[str]:
    """Return the classes of a program that it makes reward managers of, called with `num_examine`; last what trains."""
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    trains = {
        ast.unparse(node.value.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) == _TRAINS
    }
    return sorted((name for name in _made(tree) if name in defined), key=lambda name: name in trains)


def imported_by_program(tree: ast.Module, module: str) -> list[tuple[str, str]]:
    """Return the classes that a program imports and makes reward managers of, each with its module.

    Args:
        tree: The program.
        module: What it is called, for its relative imports.
    """
    made = set(_made(tree))
    return [
        (absolute(node, module, is_package=False), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname or alias.name) in made
    ]


def _made(tree: ast.Module) -> list[str]:
    """Return the names that a program makes reward managers by."""
    return [
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and any(item.arg == "num_examine" for item in node.keywords)
    ]


def manager_of_program(tree: ast.Module) -> ast.Module | None:
    """Return the reward managers that a program defines, with its functions that they use; None: it has none."""
    names = set(classes_of_program(tree))
    if not names:
        return None
    own = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    more = names
    while more:
        used = {item.id for name in more for item in ast.walk(own[name]) if isinstance(item, ast.Name)}
        more = (used & own.keys()) - names
        names |= more
    return ast.Module([node for name, node in own.items() if name in names], type_ignores=[])


def is_own_manager(text: str) -> bool:
    """Tell whether a program defines a reward manager that no version of upstream's programs did."""
    manager = manager_of_program(registered.tree_of(text))
    return manager is not None and fingerprint(manager) not in of_upstreams_programs()


def own_trainer(project: Recipient, program: str) -> list[Remark]:
    """Say that a run's program trains by a class which a project has nothing in the place of.

    Args:
        project: The project, and the run.
        program: The path of what it launches.
    """
    called = (node.func for node in ast.walk(registered.tree_of(project.text(program))) if isinstance(node, ast.Call))
    names = {item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in called}
    own = sorted(name for name in names if _TRAINER.fullmatch(name) and name not in _TRAINERS)
    if not own:
        return []
    why = f"the run's program trains by {', '.join(own)}, its own: the project trains as verl's main_ppo does"
    return [Remark(program, "", "not carried over", why)]


def remarks(project: Recipient, taken: tuple[str, ...], *, is_adopted: bool = False) -> list[Remark]:
    """Say in one line which of them the project has as upstream has them.

    Args:
        project: The project, and the run.
        taken: The paths, or folders, of what was taken over from the checkout.
        is_adopted: Whether the project has these edits, as far as they have a place there.
    """
    left = [path for path in changed(project) if not path.startswith(taken)]
    if not left:
        return []
    names = ", ".join(f"{PurePosixPath(path).relative_to(_PACKAGE)}{_functions(project, path)}" for path in left)
    why = f"the run's own copy of verl was changed in {names}: no known version of verl has these so"
    rest = "What has a place here was carried over, and the rest lies below orphaned/" if is_adopted else _THE_REST
    return [Remark(_PACKAGE, "", "not carried over", f"{why}. {rest}")]


def _functions(project: Recipient, path: str) -> str:
    """Return which functions of a checkout's file of algorithms upstream never had so, in parentheses."""
    if path != _ALGORITHMS:
        return ""
    nodes = registered.tree_of(project.text(path)).body
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    names = [node.name for node in functions if of_part(node) not in parts_of_upstream()]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f" ({', '.join(names[:_MOST])}{more})" if names else ""
