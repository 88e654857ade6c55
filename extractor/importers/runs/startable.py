"""What a project's own checks would refuse of a run's settings, and what stands in its place."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from extractor.importers.runs import supplied
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over import managers, unregistered
from extractor.importers.runs.taken_over.recipient import Recipient
from extractor.values.setting_types import PATH, types_and_words

_BATCH, _MINI_BATCH = "data.train_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"
_DRAWN = "data.gen_batch_size"
_NAMES = ("trainer.experiment_name", "trainer.project_name")
_REJECTED = "algorithm.rollout_correction.rollout_rs"
# What rejection sampling compared before it took divergences, and the divergence that compares the same.
_REJECTIONS = {"token": "token_k1", "sequence": "seq_sum_k1", "geometric": "seq_mean_k1"}
_MINI_BATCHES = (_MINI_BATCH, "critic.ppo_mini_batch_size")
_PROMPT, _LONGEST = "actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length"
_FILTERS, _METRIC = "algorithm.filter_groups.enable", "algorithm.filter_groups.metric"
_CUT_AT, _LENGTH = ".reward_kwargs.max_resp_len", "${data.max_response_length}"
_RESUME, _RESUMES = "trainer.resume_mode", ("auto", "disable", "resume_path")
_EPOCHS, _STEPS, _ONLY_VALIDATES = "trainer.total_epochs", "trainer.total_training_steps", "trainer.val_only"
_CLIP = "actor_rollout_ref.actor.clip_ratio"
_CLIPS = (f"{_CLIP}_low", f"{_CLIP}_high")
# What says whether a rollout samples, and at which temperature.
_IN_TRAINING = ("actor_rollout_ref.rollout.do_sample", "actor_rollout_ref.rollout.temperature")
_IN_VALIDATION = ("actor_rollout_ref.rollout.val_kwargs.do_sample", "actor_rollout_ref.rollout.val_kwargs.temperature")
_NO_TEXTS = {"bool", "float", "int"}
# The tokens of a pass, each with what says that passes are formed by tokens.
_BUDGETS = {
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": "actor_rollout_ref.actor.use_dynamic_bsz",
    "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz",
    "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu": "actor_rollout_ref.ref.log_prob_use_dynamic_bsz",
    "critic.ppo_max_token_len_per_gpu": "critic.use_dynamic_bsz",
    "critic.forward_max_token_len_per_gpu": "critic.use_dynamic_bsz",
}


def settle(
    of_run: Recipient, project: Mapping[str, Any], run: Mapping[str, Any], stated: Collection[str]
) -> tuple[dict[str, Any], list[Remark]]:
    """Change the settings that a project would refuse and verl takes, and name what its owner has to supply.

    Args:
        of_run: The project and the run, with what was copied.
        project: The project's config before.
        run: The run's config, flat and resolved, in its release's names.
        stated: The keys that the run itself sets.

    Returns:
        Settings in place of those that are there, and what a user should know.
    """
    settings = of_run.settings
    whole = {**project, **settings}
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    for mended, about in (
        _batches(whole, project, run),
        _token_budgets(whole),
        _values(settings, project, whole, _no_texts(of_run), stated),
        _sampling(whole),
        _prompts(settings, whole, run),
        _algorithms(of_run, run),
        supplied.models_and_data(settings, project, whole, stated, of_run.places),
        supplied.files(settings, of_run.places),
        supplied.chat_template(settings, of_run),
    ):
        changed.update(mended)
        remarks += about
    return changed, remarks


_Mended = tuple[dict[str, Any], list[Remark]]


def _batches(whole: Mapping[str, Any], project: Mapping[str, Any], run: Mapping[str, Any]) -> _Mended:
    """Make a step take at most one batch, and a batch something."""
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    batch = whole.get(_BATCH)
    if batch == 0 and isinstance(whole.get(_MINI_BATCH), int):
        # An asynchronous trainer has no batches of prompts: it updates whenever it has so many mini-batches.
        batch = whole[_MINI_BATCH] * int(run.get("async_training.require_batches") or 1)
        changed.update({_BATCH: batch, **({_DRAWN: None} if _DRAWN in project else {})})
        remarks.append(Remark(_BATCH, 0, "changed", f"{batch}: what its asynchronous trainer updates with at a time"))
    for key in _MINI_BATCHES:
        size = whole.get(key)
        if isinstance(size, int) and isinstance(batch, int) and size > batch:
            changed[key] = batch
            why = f"{batch}: an optimizer step takes at most one batch, of {_BATCH} prompts"
            remarks.append(Remark(key, size, "changed", why))
    return changed, remarks


def _token_budgets(whole: Mapping[str, Any]) -> _Mended:
    """Give a pass that is formed by tokens room for the longest sequence: verl only stops where one is so long."""
    lengths: list[Any] = [whole.get("data.max_prompt_length"), whole.get("data.max_response_length")]
    if not all(isinstance(length, int) for length in lengths):
        return {}, []
    longest = sum(map(int, lengths))
    changed = {
        key: longest
        for key, used in _BUDGETS.items()
        if whole.get(used) and isinstance(whole.get(key), int) and whole[key] < longest
    }
    why = f"{longest}: the longest sequence is to fit into a pass"
    return dict(changed), [Remark(key, whole[key], "changed", why) for key in changed]


def _prompts(settings: Mapping[str, Any], whole: Mapping[str, Any], run: Mapping[str, Any]) -> _Mended:
    """Have the rollout's length of prompts follow the data's, also where the run's number is the project's."""
    longest = whole.get(_LONGEST)
    length = settings.get(_PROMPT, run.get(_PROMPT, longest))
    if _PROMPT not in settings and length == longest:
        return {}, []
    why = f"it follows {_LONGEST}, which cuts the prompts"
    about = [Remark(_PROMPT, length, "changed", why)] if length != longest else []
    return {_PROMPT: f"${{{_LONGEST}}}"}, about


def _no_texts(of_run: Recipient) -> set[str]:
    """Return the settings that are null in a project unless they are given, and then no texts."""
    kinds, _ = types_and_words(of_run.text_of(PATH))
    return {key for key, kind in kinds.items() if kind in _NO_TEXTS}


def _value(key: str, value: Any, own: Any, no_texts: Collection[str]) -> tuple[Any, Remark | None]:
    """Return what a setting is in the project, the run's value itself where it can be, and what to say of it.

    Args:
        key: The setting.
        value: The run's.
        own: The project's.
        no_texts: Settings that are null in a project unless they are given, and then no texts.
    """
    is_number = isinstance(own, (int, float)) and not isinstance(own, bool)
    if key in _NAMES and not str(value or "").strip():
        return own, Remark(key, value, "changed", f"{own}: what the run writes goes into a directory of this name")
    if value == "" and (isinstance(own, (int, float)) or (own is None and key in no_texts)):
        why = f"empty, as an argument of the script that is not given (--set 1=...): it is {own} here"
        return own, Remark(key, value, "to do", why)
    if isinstance(own, bool) and isinstance(value, (int, float)) and not isinstance(value, bool):
        return bool(value), Remark(key, value, "changed", f"{bool(value)}: it is either true or false")
    if value is None and key.endswith(_CUT_AT):  # DAPO's program hands the length over
        return _LENGTH, None
    if value is None and is_number:  # not given, and the project's code counts with a number
        return own, Remark(key, value, "changed", f"{own}: it is a number here")
    if is_number and isinstance(value, str) and re.fullmatch(r"[A-Za-z_]\w*", value) is not None:
        return own, Remark(key, value, "to do", f"no number, which only its own trainer takes: it is {own} here")
    return value, None


def _values(
    settings: Mapping[str, Any],
    project: Mapping[str, Any],
    whole: Mapping[str, Any],
    no_texts: Collection[str],
    stated: Collection[str],
) -> _Mended:
    """Leave the project's own value where the run's is none that it could have."""
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    for key, value in settings.items():
        found, remark = _value(key, value, project.get(key), no_texts)
        if found is not value:
            changed[key] = found
            remarks += [remark] if remark is not None and (value is not None or key in stated) else []
    if settings.get(_METRIC, "") in ("reward", None):
        changed[_METRIC] = "seq_reward"
        if whole.get(_FILTERS):
            why = "seq_reward: the sum of a response's rewards"
            remarks.append(Remark(_METRIC, settings[_METRIC], "changed", why))
    if settings.get(_EPOCHS) == 0:
        changed.update({_EPOCHS: 1, _ONLY_VALIDATES: True})
        remarks.append(Remark(_EPOCHS, 0, "changed", f"it trains nothing: {_ONLY_VALIDATES}=true"))
    steps = settings.get(_STEPS)
    if isinstance(steps, int) and steps < 1:
        only_validates = bool(changed.get(_ONLY_VALIDATES, whole.get(_ONLY_VALIDATES)))
        changed[_STEPS] = None if only_validates else 1
        why = "it trains nothing" if only_validates else "1: verl, too, stops after one step"
        remarks.append(Remark(_STEPS, steps, "changed", why))
    for key in _CLIPS:
        if isinstance(settings.get(key), (int, float)) and settings[key] < 0:
            changed[key] = whole.get(_CLIP)
            remarks.append(Remark(key, settings[key], "changed", f"below 0, as not given: {_CLIP}, {whole.get(_CLIP)}"))
    mode = settings.get(_RESUME)
    if _RESUME in settings and mode not in _RESUMES:
        changed[_RESUME] = "disable" if mode in (None, False, "none") else "auto"
        remarks.append(Remark(_RESUME, mode, "changed", changed[_RESUME]))
    return changed, remarks


def _sampling(whole: Mapping[str, Any]) -> _Mended:
    """Take the likeliest tokens where the temperature is 0."""
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    for samples, temperature in (_IN_VALIDATION, _IN_TRAINING):
        if whole.get(samples) and whole.get(temperature) == 0:
            changed[samples] = False
            remarks.append(Remark(samples, whole[samples], "changed", f"False: {temperature} is 0"))
    if _IN_TRAINING[0] in changed:  # where nothing is drawn, it has to be a temperature all the same
        changed[_IN_TRAINING[1]] = 1.0
    return changed, remarks


def _algorithms(of_run: Recipient, run: Mapping[str, Any]) -> _Mended:
    """Name what nothing in the project is registered as, and say what it has under another name."""
    code, settings = of_run.code, of_run.settings
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    found = _rejection(code, run) if settings.get(_REJECTED) in _REJECTIONS else None
    if found is not None:
        changed.update(found)
        said = " ".join(f"{key.rpartition('.')[2]}={new}" for key, new in found.items())
        remarks.append(Remark(_REJECTED, settings[_REJECTED], "changed", f"the same in this release: {said}"))
    for key in managers.KEYS:
        if key in settings and settings[key] is None:
            changed[key] = managers.PLAIN
            remarks.append(Remark(key, None, "changed", f"{managers.PLAIN}, which verl takes where none is named"))
        if settings.get(key) in managers.AS_NAIVE - managers.names(code):
            changed[key] = managers.PLAIN
            why = f"{managers.PLAIN}, which gives the same scores one after the other"
            remarks.append(Remark(key, settings[key], "changed", why))
    return changed, [*remarks, *unregistered.remarks(of_run)]


def _rejection(code: Mapping[str, str], run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return rejection sampling in the names of later releases; None where the project's has the run's own.

    They compare the logarithm of rollout over policy and not the other way round, so that the bounds change places.
    """
    option = _REJECTIONS[run[_REJECTED]]
    upper, lower = (run.get(f"{_REJECTED}_threshold{name}") for name in ("", "_lower"))
    if not any(f'"{option}"' in text for text in code.values()):
        return None
    if not isinstance(upper, (int, float)) or not isinstance(lower, (int, float, type(None))) or upper <= 0:
        return None
    bounds = f"{1 / upper:.9g}_{1 / (lower or 1 / upper):.9g}"
    return {_REJECTED: option, f"{_REJECTED}_threshold": bounds}
