"""Find changed files and reward managers in a checkout's verl."""

import ast
import re
from functools import lru_cache
from pathlib import PurePosixPath

from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values import fingerprint, readers

_PACKAGE = "verl"
_THE_REST = "The project has verl's; adopting the copy with --from-verl-run carries over what has a place in a project"
_ADOPTED = "What has a place here was carried over, and the rest lies below orphaned/"


def find_changed(project: TargetProject) -> list[str]:
    """Return the checkout's verl files that match no upstream version."""
    return [path for path in fingerprint.load_upstream_files() if is_changed(project, path)]


def is_changed(project: TargetProject, path: str) -> bool:
    """Tell whether no version of upstream's has the checkout's version of a file."""
    text = project.checkouts(path)
    if not text or (path in project.source.files and project.source.read(path) == text):
        return False
    known = fingerprint.load_upstream_files().get(path)
    if known:
        return _compute_fingerprint(text) not in known
    nodes = [node for node in readers.parse_python(text).body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    return any(fingerprint.fingerprint_statement(node) not in fingerprint.load_upstream_parts() for node in nodes)


@lru_cache(maxsize=128)  # each file is asked for several times in a conversion
def _compute_fingerprint(text: str) -> str:
    return fingerprint.fingerprint(readers.parse_python_or_nothing(text))


def find_program_classes(tree: ast.Module) -> list[str]:
    """Return a program's reward manager classes, the training one last."""
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    made = [ast.unparse(call.func) for call in calls if any(item.arg == "num_examine" for item in call.keywords)]
    text = ast.unparse(tree)
    trains = set(re.findall(r"(?m)^ *reward_fn = (\w+)\(", text))
    return sorted((name for name in made if name in defined), key=lambda name: name in trains)


def find_program_managers(tree: ast.Module) -> ast.Module | None:
    """Return a program's reward managers and their functions, or None."""
    names = set(find_program_classes(tree))
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
    """Tell whether a program defines a reward manager unlike upstream's programs."""
    manager = find_program_managers(readers.parse_python_or_nothing(text))
    return manager is not None and fingerprint.fingerprint(manager) not in fingerprint.load_upstream_programs()


def remark_on_changed(project: TargetProject, copied: tuple[str, ...], *, is_adopted: bool = False) -> list[Remark]:
    """Report the changed verl files that were not carried over.

    Args:
        project: The project, and the run.
        copied: The files or folders of the checkout that copies were made of.
        is_adopted: Whether the project has these edits, as far as they have a place there.
    """
    left = [path for path in find_changed(project) if not path.startswith(copied)]
    if not left:
        return []
    names = ", ".join(str(PurePosixPath(path).relative_to(_PACKAGE)) for path in left)
    why = f"the run's own copy of verl was changed in {names}: no known version of verl has these so"
    return [Remark(_PACKAGE, "", "not carried over", f"{why}. {_ADOPTED if is_adopted else _THE_REST}")]
