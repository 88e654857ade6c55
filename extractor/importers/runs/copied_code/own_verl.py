"""A checkout whose copy of verl was changed: what of it decides the training, and is no version of upstream's."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from extractor.importers.runs.copied_code.code import tree_of
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values import fingerprint

_PACKAGE = "verl"
# What all that decides a gradient is a function of; so many of its functions are named.
_ALGORITHMS, _MOST = "verl/trainer/ppo/core_algos.py", 5
_THE_REST = "The project has verl's; adopting the copy with --from-verl-run carries over what has a place in a project"
_ADOPTED = "What has a place here was carried over, and the rest lies below orphaned/"
_SHOWN = 60  # characters of a value
# Values of a setting that does nothing.
_OFF: tuple[Any, ...] = (None, False, 0, "", [], {})
# Trainers of verl's programs, and those that a project has the algorithms of.
_TRAINER = re.compile(r"\w+Trainer")
_TRAINERS = {"RayPPOTrainer", "RayDAPOTrainer", "RayPRIMETrainer", "RayEntropyTrainer"}
# What verl's programs call the manager that scores in training.
_TRAINS = "reward_fn"


def changed(project: TargetProject) -> list[str]:
    """Return the files of the checkout's verl that compute what no version of upstream's does."""
    return [path for path in fingerprint.load_upstream_files() if is_changed(project, path)]


def is_changed(project: TargetProject, path: str) -> bool:
    """Tell whether the checkout's file of verl is no version of upstream's; one that upstream never had is not."""
    known = fingerprint.load_upstream_files().get(path)
    text = project.checkouts(path) if known else ""
    if not text or not known or (path in project.source.files and project.source.read(path) == text):
        return False
    return _fingerprint_of(text) not in known


@lru_cache(maxsize=128)  # each file is asked for several times in a conversion
def _fingerprint_of(text: str) -> str:
    return fingerprint.fingerprint(tree_of(text))


def defaults(project: TargetProject, own: Mapping[str, Any], known: Collection[str]) -> list[Remark]:
    """Report defaults of the checkout's own that its changed files read.

    Args:
        project: The project, and the run.
        own: The checkout's config, flat.
        known: The keys of the run's release, and those that something is said of.
    """
    texts = {path: project.checkouts(path) for path in changed(project)}
    names, found = fingerprint.load_upstream_key_names(), []
    for key, value in own.items():
        if key in known or value in _OFF or names.issuperset(key.split(".")):
            continue
        asked = re.compile(rf"[.\"']{re.escape(key.rpartition('.')[2])}\b")
        reader = next((path for path, text in texts.items() if asked.search(text)), None)
        if reader is not None:
            file = PurePosixPath(reader).relative_to(_PACKAGE)
            why = f"by default in the run's own checkout, whose {file} reads it; no release of verl has it"
            text = str(value)
            shown = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
            found.append(Remark(key, shown, "not carried over", why))
    return found


def classes_of_program(tree: ast.Module) -> list[str]:
    """Return the classes of a program that it makes reward managers of; last the one that trains."""
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    made = [ast.unparse(call.func) for call in calls if any(item.arg == "num_examine" for item in call.keywords)]
    trains = {
        ast.unparse(node.value.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.targets[0]) == _TRAINS
    }
    return sorted((name for name in made if name in defined), key=lambda name: name in trains)


def manager_of_program(tree: ast.Module) -> ast.Module | None:
    """Return the reward managers that a program defines, with the functions that they use; None: it has none."""
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
    manager = manager_of_program(tree_of(text))
    return manager is not None and fingerprint.fingerprint(manager) not in fingerprint.load_upstream_programs()


def own_trainer(project: TargetProject, program: str) -> list[Remark]:
    """Report that a run's program, by its path, trains by a class that a project has nothing in the place of."""
    called = (node.func for node in ast.walk(tree_of(project.checkouts(program))) if isinstance(node, ast.Call))
    names = {item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in called}
    own = sorted(name for name in names if _TRAINER.fullmatch(name) and name not in _TRAINERS)
    if not own:
        return []
    why = f"the run's program trains by {', '.join(own)}, its own: the project trains as verl's main_ppo does"
    return [Remark(program, "", "not carried over", why)]


def remarks(project: TargetProject, copied: tuple[str, ...], *, is_adopted: bool = False) -> list[Remark]:
    """Report in one line the changed files that the project has as upstream has them.

    Args:
        project: The project, and the run.
        copied: The files or folders of the checkout that copies were made of.
        is_adopted: Whether the project has these edits, as far as they have a place there.
    """
    left = [path for path in changed(project) if not path.startswith(copied)]
    if not left:
        return []
    names = ", ".join(f"{PurePosixPath(path).relative_to(_PACKAGE)}{_functions(project, path)}" for path in left)
    why = f"the run's own copy of verl was changed in {names}: no known version of verl has these so"
    return [Remark(_PACKAGE, "", "not carried over", f"{why}. {_ADOPTED if is_adopted else _THE_REST}")]


def _functions(project: TargetProject, path: str) -> str:
    """Return which functions of a checkout's algorithms upstream never had so, in parentheses."""
    if path != _ALGORITHMS:
        return ""
    functions = [
        node
        for node in tree_of(project.checkouts(path)).body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        and fingerprint.fingerprint_statement(node) not in fingerprint.load_upstream_parts()
    ]
    names = [node.name for node in functions]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f" ({', '.join(names[:_MOST])}{more})" if names else ""
