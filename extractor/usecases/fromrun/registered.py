"""Algorithms that a run chooses by name and its own checkout registers: copied among the hooks, or found and named."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from extractor.pipeline.source import Source
from extractor.usecases.fromrun.files import Copying, Places
from extractor.usecases.fromrun.meaning import Remark
from extractor.values import limits, readers
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree

# The settings that choose, and what registers under a name.
_DECORATORS = {
    "algorithm.adv_estimator": "register_adv_est",
    "actor_rollout_ref.actor.policy_loss.loss_mode": "register_policy_loss",
}
_TARGET, _IMPORTED_BY = "custom/verl_algorithms", "custom/algorithms.py"
_MOST_FILES = 4000
_MANAGER = re.compile(r"reward_manager|register")


def take(
    tree: Tree, package: str, source: Source, places: Places, settings: Mapping[str, Any]
) -> tuple[Tree, list[Remark]]:
    """Copy what settings choose that a project does not register, and the checkout does.

    Args:
        tree: The project's files.
        package: Its package.
        source: verl, of the run's release.
        places: Where the run may have been started from.
        settings: By the project's keys.

    Returns:
        The tree with the copies, which `custom/algorithms.py` imports; and what a user should know.
    """
    code = [file.data.decode() for file in tree if file.path.startswith(f"{package}/") and file.path.endswith(".py")]
    wanted = [
        (key, str(settings[key]), decorator)
        for key, decorator in _DECORATORS.items()
        if settings.get(key) is not None and not any(_names(text, str(settings[key])) for text in code)
    ]
    files = {file.path: file for file in tree}
    hook = f"{package}/{_IMPORTED_BY}"
    if not wanted or hook not in files:
        return tree, []
    copying = Copying(package, tree, source, places)
    remarks: list[Remark] = []
    for number, (key, name, decorator) in enumerate(wanted):
        registered = re.compile(rf"@(?:\w+\.)*{decorator}\(\s*[\"']{re.escape(name)}[\"']")
        found = next((item for item in python_files(places) if registered.search(item[1])), None)
        if found is None:
            continue
        place, text = found
        target = f"{_TARGET}{number + 1 if number else ''}"
        try:
            copied = copying.copy(text, registered_by(text, registered))
        except (SyntaxError, UsageError):
            continue
        if copied.missing:
            why = "; ".join(copied.missing)
            remarks.append(Remark(key, name, "to do", f"{place} registers it, and cannot be imported here: {why}"))
            continue
        files[f"{package}/{target}.py"] = File(f"{package}/{target}.py", FileKind.HOOK, copied.text.encode())
        line = f"\nfrom . import {target.rpartition('/')[2]}  # noqa: E402, F401  what the run registers\n"
        files[hook] = replace(files[hook], data=files[hook].data.rstrip() + b"\n" + line.encode())
        remarks.append(Remark(key, name, "changed", f"copied from {place} to {package}/{target}.py"))
        if copied.packages:
            needs = f"{package}/{target}.py needs packages: pip install {' '.join(copied.packages)}"
            remarks.append(Remark(key, name, "to do", needs))
    if not remarks:
        return tree, []
    for path, text in copying.files.items():
        files[f"{package}/{path}"] = File(f"{package}/{path}", FileKind.HOOK, text.encode())
    return Tree.of(list(files.values())), remarks


def place_of(name: str, places: Places) -> str | None:
    """Return the file and line of a run's checkout that knows a reward manager or an algorithm by its name."""
    quoted = re.compile(rf"[\"']{re.escape(name)}[\"']")
    chosen = [
        (not _MANAGER.search(line), f"{place}:{number}")
        for place, text in python_files(places)
        if quoted.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if quoted.search(line) and (_MANAGER.search(line) or re.match(r"\s*[A-Z_]+\s*=", line))
    ]
    return min(chosen, default=(True, None))[1]


def _names(text: str, name: str) -> bool:
    return re.search(rf"[\"']{re.escape(name)}[\"']", text) is not None


def registered_by(text: str, registered: re.Pattern[str]) -> list[str]:
    """Return the names of the definitions that carry a decorator."""
    return [
        node.name
        for node in ast.parse(text).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and any(registered.match(f"@{ast.unparse(item)}") for item in node.decorator_list)
    ]


def python_files(places: Places) -> Iterator[tuple[str, str]]:
    """Yield the path, below its root, and the text of the checkout's Python files."""
    root = places.root
    if root is None:
        return
    try:
        below = readers.files_below(root, lambda folder: not folder.name.startswith("."))
        found = sorted(file for file in below if file.suffix == ".py")
    except OSError:
        return
    for file in found[:_MOST_FILES]:
        try:
            yield file.relative_to(root).as_posix(), readers.python_text(readers.read_bytes(file, limits.MAX_TEXT))
        except (OSError, SyntaxError, UsageError, UnicodeDecodeError):
            continue
