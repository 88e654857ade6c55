"""An advantage estimator that a fork chooses in its trainer, from before there was a registry: copied and registered.

elif adv_estimator == AdvantageEstimator.RAFT:
    advantages, returns = core_algos.compute_raft_outcome_advantage(token_level_rewards=..., response_mask=...)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from extractor.pipeline.source import Source
from extractor.usecases.fromrun.files import Copying, Places
from extractor.usecases.fromrun.meaning import Remark
from extractor.values import readers
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree

KEY = "algorithm.adv_estimator"
_TRAINER, _FORMULAS = "verl/trainer/ppo/ray_trainer.py", "verl/trainer/ppo/core_algos.py"
# What a registered estimator is called with, by the names that forks have for it.
_GIVEN = {
    "token_level_rewards": "token_level_rewards",
    "response_mask": "response_mask",
    "eos_mask": "response_mask",
    "index": "index",
}
_COPY, _TARGET, _IMPORTED_BY = "custom/verl_core_algos", "custom/verl_estimator", "custom/algorithms.py"
_HOOK = '''# vextract:hook  yours: written once, never touched by an upgrade
"""The advantage estimator {name}, as {place} of the run's checkout calls it."""

from typing import Any

from .verl_core_algos import {function}

try:
    from ..vendored.algorithms.core_algos import register_adv_est
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.trainer.ppo.core_algos import register_adv_est


@register_adv_est("{name}")
def advantage(token_level_rewards: Any, response_mask: Any, index: Any = None, **given: Any) -> Any:
    """Return advantages and returns, both (bs, response_length)."""
    return {function}({arguments})
'''


def take(
    tree: Tree, package: str, source: Source, places: Places, settings: Mapping[str, Any]
) -> tuple[Tree, list[Remark]]:
    """Copy the function of an estimator that a project does not have, and register it.

    Args:
        tree: The project's files.
        package: Its package.
        source: verl, of the run's release.
        places: Where the run may have been started from.
        settings: By the project's keys.

    Returns:
        The tree with the copy, which `custom/algorithms.py` imports, and what a user should know; nothing where the
        checkout's trainer does more than call a function of rewards.
    """
    files = {file.path: file for file in tree}
    code = {path: file.data.decode() for path, file in files.items() if path.endswith(".py")}
    hook, name = f"{package}/{_IMPORTED_BY}", str(settings.get(KEY))
    if settings.get(KEY) is None or is_computed(code, package, name):
        return tree, []
    trainer, formulas = (_text(places, path) for path in (_TRAINER, _FORMULAS))
    call = next(_calls(ast.parse(trainer), name), None)
    if call is None or hook not in files or f"def {call[0]}(" not in formulas:
        return tree, []
    function, arguments = call
    copying = Copying(package, tree, source, places)
    try:
        copied = copying.copy(formulas, [function])
    except (SyntaxError, UsageError):
        return tree, []
    if copied.missing:
        return tree, []
    texts = {
        f"{package}/{_COPY}.py": copied.text,
        f"{package}/{_TARGET}.py": _HOOK.format(
            name=name, place=_TRAINER, function=function, arguments=", ".join(arguments)
        ),
        **{f"{package}/{path}": text for path, text in copying.files.items()},
    }
    files.update({path: File(path, FileKind.HOOK, text.encode()) for path, text in texts.items()})
    line = f"\nfrom . import {_TARGET.rpartition('/')[2]}  # noqa: E402, F401  what the run names\n"
    files[hook] = replace(files[hook], data=files[hook].data.rstrip() + b"\n" + line.encode())
    why = f"copied from {_FORMULAS} of the run's checkout to {package}/{_TARGET}.py"
    remarks = [Remark(KEY, name, "changed", why)]
    if copied.packages:
        why = f"{package}/{_TARGET}.py needs packages: pip install {' '.join(copied.packages)}"
        remarks.append(Remark(KEY, name, "to do", why))
    return Tree.of(list(files.values())), remarks


def _calls(tree: ast.Module, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the function that is called where the estimator is of a name, and the arguments that it gets here.

    Such a branch does no more than name columns, call, and store: what does more is not an estimator alone.
    """
    constants = {
        f"{node.name}.{target.id}": item.value.value
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
        for target in item.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
            continue
        if not isinstance(node.test.ops[0], ast.Eq) or "adv_estimator" not in ast.unparse(node.test.left):
            continue
        side = node.test.comparators[0]
        value = side.value if isinstance(side, ast.Constant) else constants.get(ast.unparse(side))
        if value != name or not all(isinstance(item, ast.Assign) for item in node.body):
            continue
        found = [item for part in node.body for item in ast.walk(part) if isinstance(item, ast.Call)]
        for call in found:
            if ast.unparse(call.func).startswith("core_algos."):
                given = {item.arg: _GIVEN.get(str(item.arg)) for item in call.keywords}
                if not call.args and given and None not in given.values():
                    yield call.func.attr, [f"{key}={here}" for key, here in given.items()]  # type: ignore[attr-defined]


def _text(places: Places, path: str) -> str:
    file = places.find(path)
    try:
        text = "" if file is None else readers.read_text(file)
        readers.python(text)
    except (OSError, SyntaxError, UsageError):
        return ""
    return text


def is_computed(code: Mapping[str, str], package: str, name: str) -> bool:
    """Tell whether a project has an advantage estimator of a name.

    Args:
        code: The project's Python files, by path.
        package: Its package.
        name: Of the estimator.
    """
    decorated = re.compile(rf"register_adv_est\(\s*[\"']{re.escape(name)}[\"']")
    named = re.compile(rf"[\"']{re.escape(name)}[\"']")
    return any(
        decorated.search(text) or ("AdvantageEstimator" in text and named.search(text))
        for path, text in code.items()
        if path.startswith(f"{package}/")
    )
