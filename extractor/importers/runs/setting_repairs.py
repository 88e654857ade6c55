"""Repair a run's settings that a project would refuse, and list what is missing or unknown."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import JUDGE_ENABLED, REWARD_MANAGER
from extractor.importers.runs.copied_code import managers
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run_folders import RunFolders, is_on_the_hub
from extractor.values import readers

_BATCH, _MINI_BATCH = "data.train_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"
_DRAWN = "data.gen_batch_size"
_MINI_BATCHES = (_MINI_BATCH, "critic.ppo_mini_batch_size")
_REJECTED = "algorithm.rollout_correction.rollout_rs"
# What rejection sampling compared before it took divergences, and the divergence that compares the same.
_REJECTIONS = {"token": "token_k1", "sequence": "seq_sum_k1", "geometric": "seq_mean_k1"}
_PROMPT, _LONGEST = "actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length"
_FILTERS, _METRIC = "algorithm.filter_groups.enable", "algorithm.filter_groups.metric"
_CUT_AT, _LENGTH = ".reward_kwargs.max_resp_len", "${data.max_response_length}"
_NAMES = ("trainer.experiment_name", "trainer.project_name")

_Mended = tuple[dict[str, Any], list[Remark]]
_DATA = ("data.train_files", "data.val_files")
_JUDGES = ("reward.reward_model.model_path", "reward_model.model.path")
_POLICY, _CRITIC = "actor_rollout_ref.model.path", "critic.model.path"
_MODELS = (_POLICY, "actor_rollout_ref.model.lora_adapter_path", _CRITIC, *_JUDGES)
# What a person has to supply where it is not here, or not known.
SUPPLIED = (*_DATA, *_MODELS)
# A path from where the run is started, of anything but code.
_OF_THE_RUN = re.compile(r"[^/~$:][^$:]*/[^$:]*(?<!\.py)")
# The settings that choose an algorithm: what it is called, what registers one, and what names one without a registry.
_REGISTRIES = {
    "algorithm.adv_estimator": (
        "estimator",
        "register_adv_est",
        r"(?ms)^class AdvantageEstimator\b(?:(?!^\S).)*?= *[\"']{}[\"']",
    ),
    "actor_rollout_ref.actor.policy_loss.loss_mode": (
        "policy loss",
        "register_policy_loss",
        r"loss_mode[^\n]*[\"']{}[\"']",
    ),
}


def repair_settings(
    of_run: TargetProject, project: Mapping[str, Any], run: Mapping[str, Any], stated: Collection[str]
) -> _Mended:
    """Change settings that a project would refuse; list missing inputs.

    Returns:
        Settings in place of those that are there, and what a user should know.
    """
    settings = of_run.settings
    whole = {**project, **settings}
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    for mended, about in (
        _repair_batches(whole, project, run),
        _repair_values(settings, project, stated),
        _repair_filters(settings, whole),
        _repair_prompts(settings, whole, run),
        _choose_manager(of_run),
        ({}, [*remark_on_unknown(of_run)]),
        list_models_and_data(settings, project, whole, stated, of_run.places),
        list_files(settings, of_run.places),
    ):
        changed.update(mended)
        remarks += about
    return changed, remarks


def _repair_batches(whole: Mapping[str, Any], project: Mapping[str, Any], run: Mapping[str, Any]) -> _Mended:
    """Limit mini-batches to the batch size, and replace batch size 0."""
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    batch = whole.get(_BATCH)
    if batch == 0 and isinstance(whole.get(_MINI_BATCH), int):
        # An asynchronous trainer has no batches of prompts: it updates whenever it has so many mini-batches.
        batch = whole[_MINI_BATCH] * int(run.get("async_training.require_batches") or 1)
        changed.update({_BATCH: batch, **({_DRAWN: None} if _DRAWN in project else {})})
        remarks.append(Remark(_BATCH, 0, "changed", f"here it is {batch}, what its asynchronous trainer updates with"))
    for key in _MINI_BATCHES:
        size = whole.get(key)
        if isinstance(size, int) and isinstance(batch, int) and size > batch:
            changed[key] = batch
            why = f"here it is {batch}: an optimizer step takes at most one batch, of {_BATCH} prompts"
            remarks.append(Remark(key, size, "changed", why))
    return changed, remarks


def _repair_values(settings: Mapping[str, Any], project: Mapping[str, Any], stated: Collection[str]) -> _Mended:
    """Replace nulls, non-boolean flags and empty names the project cannot take."""
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    for key, value in settings.items():
        own = project.get(key)
        if key in _NAMES and not str(value or "").strip():
            changed[key], why = own, f"{own}: what the run writes goes into a directory of this name"
        elif isinstance(own, bool) and isinstance(value, (int, float)) and not isinstance(value, bool):
            changed[key], why = bool(value), f"{bool(value)}: it is either true or false"
        elif value is None and key.endswith(_CUT_AT):  # DAPO's program hands the length over
            changed[key] = _LENGTH
            continue
        elif value is None and isinstance(own, (int, float)) and not isinstance(own, bool):
            changed[key], why = own, f"here it is {own}: a number"
        else:
            continue
        if value is not None or key in stated:
            remarks.append(Remark(key, value, "changed", why))
    return changed, remarks


def _repair_filters(settings: Mapping[str, Any], whole: Mapping[str, Any]) -> _Mended:
    """Rename the reward metric that groups are filtered by."""
    if settings.get(_METRIC, "") not in ("reward", None):
        return {}, []
    why = "seq_reward: the sum of a response's rewards"
    said = [Remark(_METRIC, settings[_METRIC], "changed", why)] if whole.get(_FILTERS) else []
    return {_METRIC: "seq_reward"}, said


def _repair_prompts(settings: Mapping[str, Any], whole: Mapping[str, Any], run: Mapping[str, Any]) -> _Mended:
    """Make the rollout's prompt length follow the data's."""
    longest = whole.get(_LONGEST)
    length = settings.get(_PROMPT, run.get(_PROMPT, longest))
    if _PROMPT not in settings and length == longest:
        return {}, []
    why = f"it follows {_LONGEST}, which cuts the prompts"
    said = [Remark(_PROMPT, length, "changed", why)] if length != longest else []
    return {_PROMPT: f"${{{_LONGEST}}}"}, said


def _choose_manager(of_run: TargetProject) -> _Mended:
    """Choose verl's plain reward manager for equal or unnamed ones."""
    without = managers.AS_NAIVE - managers.list_names(of_run.code)
    keys = [key for key in REWARD_MANAGER if key in of_run.settings and of_run.settings[key] in {None, *without}]
    why = {True: "which gives the same scores one after the other", False: "which verl takes where none is named"}
    values = {key: of_run.settings[key] for key in keys}
    said = [Remark(key, name, "changed", f"{managers.PLAIN}, {why[name is not None]}") for key, name in values.items()]
    return dict.fromkeys(keys, managers.PLAIN), said


def list_models_and_data(
    settings: Mapping[str, Any],
    project: Mapping[str, Any],
    whole: Mapping[str, Any],
    stated: Collection[str],
    places: RunFolders,
) -> tuple[dict[str, Any], list[Remark]]:
    """List the models and data files: found (with path) or missing.

    Args:
        settings: The run's.
        project: The project's config before.
        whole: Both together.
        stated: The keys that the run itself sets.
        places: Where the run may have been started from.

    Returns:
        Settings in place of those that are there, and what a user should know.
    """
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    if not any(whole.get(key) for key in JUDGE_ENABLED):
        changed.update({key: project[key] for key in _JUDGES if key in settings and key in project})
    for key in SUPPLIED:
        if key in changed:
            continue
        if settings.get(key) == "":
            why = f"only known to a run of the script, or empty: python main.py {key}=..."
            remarks.append(Remark(key, "", "to do", why))
            continue
        at, missing = _locate_paths(settings.get(key), places, is_folder=key in _MODELS)
        if at != settings.get(key):
            changed[key] = at
        if missing and key == _CRITIC and key not in stated and key in project:
            changed[key] = f"${{{_POLICY}}}"
            why = "the run does not say it, and verl's default is not here: the critic starts from the policy's model"
            remarks.append(Remark(key, ", ".join(missing), "changed", why))
        elif missing:
            why = f"not here: put it there, or python main.py {key}=..."
            remarks.append(Remark(key, ", ".join(missing), "to do", why))
    return changed, remarks


def list_files(settings: Mapping[str, Any], places: RunFolders) -> tuple[dict[str, Any], list[Remark]]:
    """Return absolute paths of other files that settings name, with remarks."""
    changed = {
        key: str(file)
        for key, value in settings.items()
        if isinstance(value, str) and _OF_THE_RUN.fullmatch(value) and key not in SUPPLIED
        if (file := places.find(value)) is not None
    }
    return changed, [Remark(key, settings[key], "changed", f"here it is {file}") for key, file in changed.items()]


def _locate_paths(value: Any, places: RunFolders, *, is_folder: bool) -> tuple[Any, list[str]]:
    """Return absolute paths where files, or folders, exist, and the missing paths."""
    if isinstance(value, list):
        found = [_locate_paths(item, places, is_folder=is_folder) for item in value]
        return [at for at, _ in found], [path for _, missing in found for path in missing]
    if not isinstance(value, str) or not value or "${" in value:
        return value, []
    path = Path(value)
    is_whole = path.is_absolute() or value.startswith(("~", "hdfs:", "s3:"))
    tried = [path.expanduser()] if is_whole else [folder / path for folder in places.folders]
    at = next((one for one in tried if readers.is_there(one) and (one.is_dir() or not is_folder)), None)
    if is_whole:
        return value, [] if at is not None else [value]
    if at is not None:
        return str(at), []
    return value, [] if is_on_the_hub(value) else [value]


def is_known(code: Mapping[str, str], key: str, name: str) -> bool:
    """Tell whether a package's code knows an algorithm by this name.

    Args:
        code: Its Python files' texts, by path.
        key: The setting that chooses it.
        name: Of the algorithm.
    """
    _, decorator, chosen_by = _REGISTRIES[key]
    decorated = re.compile(rf"{decorator}\(\s*[\"']{re.escape(name)}[\"']")
    named = re.compile(chosen_by.format(re.escape(name)))
    return any(decorated.search(text) or ("/custom/" not in path and named.search(text)) for path, text in code.items())


def remark_on_unknown(project: TargetProject) -> Iterator[Remark]:
    """Yield a "to do" for each choice unknown to the project."""
    known = {managers.PLAIN, *managers.AS_NAIVE, *managers.list_names(project.code)}
    for key in (*_REGISTRIES, *REWARD_MANAGER):
        name, is_manager = project.settings.get(key), key in REWARD_MANAGER
        if name is None or (name in known if is_manager else is_known(project.code, key, str(name))):
            continue
        what, hook = ("manager", managers.IMPORTED_BY) if is_manager else (_REGISTRIES[key][0], "custom/algorithms")
        why = f"no {what} of this name in the project: register it in {project.package}/{hook}.py"
        yield Remark(key, name, "to do", f"{why}")
    option = _REJECTIONS.get(str(project.settings.get(_REJECTED)), "")
    if option and any(f'"{option}"' in text for text in project.code.values()):
        why = f"this release calls it {option}, and its threshold bounds rollout / policy: LOWER_UPPER"
        yield Remark(_REJECTED, project.settings[_REJECTED], "to do", why)


def put_aside(project: TargetProject, before: Mapping[str, Any]) -> tuple[CopyResult, dict[str, Any]]:
    """Replace unknown names by the project's values; return both.

    Args:
        project: The project and the run.
        before: The project's config without the run's settings.
    """
    aside = {remark.key: remark for remark in remark_on_unknown(project)}
    own = {key: managers.PLAIN if key in REWARD_MANAGER else before.get(key) for key in aside}
    said = [Remark(key, item.value, "to do", f"{own[key]} in its place: {item.why}") for key, item in aside.items()]
    return CopyResult(project.tree, said, own), {key: item.value for key, item in aside.items()}
