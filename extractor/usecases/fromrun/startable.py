"""What a project's own checks would refuse of a run's settings, and what its owner has to supply before it starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from extractor.usecases.fromrun.files import Places
from extractor.usecases.fromrun.meaning import Remark
from extractor.usecases.fromrun.unknowns import unknowns
from extractor.values.tree import Tree

_BATCH, _MINI_BATCH = "data.train_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"
_MINI_BATCHES = (_MINI_BATCH, "critic.ppo_mini_batch_size")
_ESTIMATOR = "algorithm.adv_estimator"
_MANAGERS = ("reward.reward_manager.name", "reward_model.reward_manager")
# Gives every response the score that `naive` gives it, in processes side by side.
_AS_NAIVE = "prime"
_REGISTERED = re.compile(r"@register\(\s*[\"']([\w-]+)[\"']")
_DATA = ("data.train_files", "data.val_files")
_JUDGES = ("reward.reward_model.model_path", "reward_model.model.path")
_JUDGE_ENABLED = ("reward.reward_model.enable", "reward_model.enable")
_MODELS = (
    "actor_rollout_ref.model.path",
    "actor_rollout_ref.model.lora_adapter_path",
    "critic.model.path",
    *_JUDGES,
)
# A name on the hub; what ends like a file of rows is none.
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_FILE = re.compile(r"\.(parquet|jsonl?|csv|arrow)$")


def settle(
    tree: Tree, package: str, settings: Mapping[str, Any], project: Mapping[str, Any], places: Places
) -> tuple[dict[str, Any], list[Remark]]:
    """Change the settings that a project would refuse and verl takes, and name what its owner has to supply.

    Args:
        tree: The project's files, as generated.
        package: Its package.
        settings: The run's, by the project's keys.
        project: The project's config before.
        places: Where the run's paths may lead.

    Returns:
        Settings in place of those that are there, and what a user should know.
    """

    def value(key: str) -> Any:
        return settings.get(key, project.get(key))

    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    batch = value(_BATCH)
    for key in _MINI_BATCHES:
        size = value(key)
        if isinstance(size, int) and isinstance(batch, int) and size > batch:
            changed[key] = batch
            why = f"{batch}: an optimizer step takes at most one batch, of {_BATCH} prompts"
            remarks.append(Remark(key, size, "changed", why))
    manager = next((key for key in _MANAGERS if key in settings), None)
    if manager is not None and settings[manager] not in _registered(tree, package):
        name = settings[manager]
        if name == _AS_NAIVE:
            changed[manager] = "naive"
            remarks.append(Remark(manager, name, "changed", "naive, which gives the same scores one after the other"))
        else:
            why = f"no manager of this name in the project: register it in {package}/custom/reward_manager.py"
            remarks.append(Remark(manager, name, "to do", why))
    estimator = value(_ESTIMATOR)
    if _ESTIMATOR in settings and not _computes(tree, package, str(estimator)):
        why = f"no estimator of this name in the project: register it in {package}/custom/algorithms.py"
        remarks.append(Remark(_ESTIMATOR, estimator, "to do", why))
    if not any(value(key) for key in _JUDGE_ENABLED):
        changed.update({key: project[key] for key in _JUDGES if key in settings and key in project})
    for key in (*_DATA, *_MODELS):
        if key in changed:
            continue
        at, missing = _located(settings.get(key), places, _is_model if key in _MODELS else _is_data)
        if at != settings.get(key):
            changed[key] = at
        if missing:
            why = f"not here: put it there, or python main.py {key}=..."
            remarks.append(Remark(key, ", ".join(missing), "to do", why))
    return changed, remarks


def _registered(tree: Tree, package: str) -> set[str]:
    """Return the names of the reward managers that a project has."""
    return {
        name
        for file in tree
        if file.path.startswith(f"{package}/") and file.path.endswith(".py") and "reward" in file.path
        for name in _REGISTERED.findall(file.data.decode())
    }


def _computes(tree: Tree, package: str, estimator: str) -> bool:
    """Tell whether a project has an advantage estimator of a name."""
    texts = (file.data.decode() for file in tree if file.path.startswith(f"{package}/") and file.path.endswith(".py"))
    named = re.compile(rf"[\"']{re.escape(estimator)}[\"']")
    return any("AdvantageEstimator" in text and named.search(text) is not None for text in texts)


def _is_model(path: Path) -> bool:
    return path.is_dir()


def _is_data(path: Path) -> bool:
    return path.exists()


def _located(value: Any, places: Places, is_there: Callable[[Path], bool]) -> tuple[Any, list[str]]:
    """Return a path, or a list of them, from the root where it leads somewhere, and those that lead nowhere."""
    if isinstance(value, list):
        found = [_located(item, places, is_there) for item in value]
        return [at for at, _ in found], [path for _, missing in found for path in missing]
    if not isinstance(value, str) or not value or "${" in value or unknowns(value):
        return value, []
    path = Path(value)
    if path.is_absolute() or value.startswith(("~", "hdfs:", "s3:")):
        return value, [] if is_there(path.expanduser()) else [value]
    at = next((folder / path for folder in places.folders if is_there(folder / path)), None)
    if at is not None:
        return str(at), []
    on_the_hub = _ON_THE_HUB.fullmatch(value) is not None and _FILE.search(value) is None
    return value, [] if on_the_hub else [value]
