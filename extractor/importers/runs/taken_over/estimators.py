"""An advantage estimator that a fork chooses in its trainer, from before there was a registry: copied and registered.

elif adv_estimator == AdvantageEstimator.RAFT:
    advantages, returns = core_algos.compute_raft_outcome_advantage(token_level_rewards=..., response_mask=...)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from extractor.importers.runs import templates
from extractor.importers.runs.taken_over import registered
from extractor.importers.runs.taken_over.recipient import Recipient, Taken, copied_remarks
from extractor.values.errors import UsageError

KEY = registered.ESTIMATOR
_TRAINER, _FORMULAS = "verl/trainer/ppo/ray_trainer.py", "verl/trainer/ppo/core_algos.py"
# What a registered estimator is called with, by the names that forks have for it.
_GIVEN = {
    "token_level_rewards": "token_level_rewards",
    "response_mask": "response_mask",
    "eos_mask": "response_mask",
    "index": "index",
}
# The same of what trainers of then take out of the config.
_SETTINGS = {
    "norm_adv_by_std_in_grpo": 'config.get("norm_adv_by_std_in_grpo", True)',
    "gamma": "config.gamma",
    "lam": "config.lam",
}
_COPY, _TARGET = "custom/verl_core_algos", "custom/verl_estimator"


def take(project: Recipient) -> Taken:
    """Copy the function of an estimator that a project does not have, and register it; nothing where it does more.

    `custom/algorithms.py` imports the hook that registers it.
    """
    name = str(project.settings.get(KEY))
    if project.settings.get(KEY) is None or registered.is_known(project.code, KEY, name):
        return Taken(project.tree)
    trainer, formulas = project.text(_TRAINER), project.text(_FORMULAS)
    call = next(_calls(registered.tree_of(trainer), name), None)
    if call is None or not project.has(registered.IMPORTED_BY) or f"def {call[0]}(" not in formulas:
        return Taken(project.tree)
    function, arguments = call
    copying = project.copying()
    try:
        copied = copying.copy(formulas, [function], version_of=_FORMULAS)
    except (SyntaxError, UsageError):
        return Taken(project.tree)
    if copied.missing:
        return Taken(project.tree)
    text = templates.render("verl_estimator.py", name=name, place=_TRAINER, function=function, arguments=arguments)
    files = {f"{_COPY}.py": copied.text, f"{_TARGET}.py": text, **copying.files}
    tree = project.with_hooks(files, {_TARGET: registered.IMPORTED_BY})
    return Taken(tree, copied_remarks(KEY, name, _FORMULAS, f"{project.package}/{_TARGET}.py", copied))


def _calls(tree: ast.Module, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the function that is called where the estimator is of a name, and the arguments that it gets here.

    Such a branch does no more than name columns, call, and store: what does more is not an estimator alone.
    """
    constants = registered.constants_of(tree)
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
                given = {item.arg: _value(item) for item in call.keywords}
                if not call.args and given and None not in given.values():
                    yield call.func.attr, [f"{key}={here}" for key, here in given.items()]  # type: ignore[attr-defined]


def _value(given: ast.keyword) -> str | None:
    """Return what an argument of a call is in a registered estimator; None: nothing."""
    if isinstance(given.value, ast.Constant):
        return repr(given.value.value)
    return _GIVEN.get(str(given.arg)) or _SETTINGS.get(ast.unparse(given.value).rpartition(".")[2])
