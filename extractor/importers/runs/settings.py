"""From a run to a project's settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from extractor.importers.config.keys import READ_BY_THE_ENGINE, about_the_machine, candidates, name_in
from extractor.importers.config.release import Defaults, Target
from extractor.importers.runs import prime, reward_model
from extractor.importers.runs.convert import SERVICES, Experiment, logger_names
from extractor.importers.runs.fitting import TAKES_ANYTHING
from extractor.importers.runs.meaning import KEPT, Remark, is_about_where, rule_for
from extractor.importers.runs.run import Run
from extractor.importers.runs.supplied import SUPPLIED
from extractor.importers.runs.unknowns import shown, unknowns
from extractor.values.configtree import flatten


def settings_for(
    experiment: Experiment,
    run: Run,
    project: Mapping[str, Any],
    target: Target,
    renamed_back: Callable[[str], str | None],
    function: str | None = None,
) -> tuple[dict[str, Any], list[Remark], dict[str, Any]]:
    """Return the project's settings that differ from what it would have anyway.

    Args:
        experiment: The run.
        run: As it was read.
        project: The project's config before, flat and resolved.
        target: The run's release.
        renamed_back: From the project's keys to the run's release's.
        function: The text of its reward function; None where it has none.

    Returns:
        Settings by the project's keys, remarks on the run's settings that have none, and the value that each of the
        project's keys is to have in the end.
    """
    flat = dict(experiment.wanted)
    # What the command says counts over what a config of the run's says under another name.
    commanded = set(stated_by(replace(run, overlay=(), resolved=None)))
    # A config may have every key: of it only what is not the release's default is said by anyone.
    usual = Defaults.of(target).flat
    stated = {
        key: value
        for key, value in stated_by(run).items()
        if key in commanded or key not in usual or usual[key] != flat.get(key, value)
    }
    run_defaults = Defaults(experiment.config, flat)
    last = dict(sorted(flat.items(), key=lambda item: item[0] in commanded))
    devices = _devices(flat)
    found: dict[str, Any] = {}
    wanted: dict[str, Any] = {}
    used: set[str] = set()
    remarks: list[Remark] = []
    for key, current in project.items():
        if key.startswith("local.") or _FOLLOWS.get(key) in project:
            continue
        # A release may know an old name beside the new one: the one that the run uses counts.
        followers = (name for name, followed in _FOLLOWS.items() if followed == key)
        names = (READ_BY_THE_ENGINE.get(key), *candidates(key, renamed_back), *followers)
        said = sorted(
            (name for name in names if name in stated and name in flat), key=lambda name: name not in commanded
        )
        name = said[0] if said else name_in(key, run_defaults, renamed_back)
        if name is None or (run.is_bare and not said):
            continue
        used.update((name, *said))
        value, remark = _local(key, name, flat.get(name, _ABSENT), current, stated, experiment, bool(run.hints))
        remarks += [] if remark is None else [remark]
        if said and value is not _ABSENT and not run.hints:
            remarks += _renamed(key, name, flat[name])
        if value is not _ABSENT and value != current:
            found[key] = value
        if value is not _ABSENT:
            wanted[key] = value
    found.update(_open_sections(last, project))
    used.update(found)
    found.update(_micro_batches(flat, project, devices, stated, remarks))
    found.update(_reward_arguments(last, project))
    if not run.hints:
        if run.is_prime:
            judge, read, about = prime.settings(flat, stated, project)
            remarks = [item for item in remarks if item.key not in read]
            wanted.update(judge)  # they follow the policy's in the project
        else:
            judge, read, about = reward_model.settings(flat, stated, project, function)
        found.update(judge)
        found.update(_episodes(flat, project, remarks))
        used |= read
        remarks += about
    for key in _kept(run, project):
        found[key] = run.kept[key]
        if project.get(key, _ABSENT) == found[key]:
            del found[key]
    remarks += _rest(stated, flat, used, run, has_critic=any(key.startswith("critic.") for key in project))
    wanted = {key: value for key, value in wanted.items() if key not in found or found[key] == value}
    return found, remarks, {**wanted, **{key: value for key, value in found.items() if key in wanted}}


def _kept(run: Run, project: Mapping[str, Any]) -> list[str]:
    return [key for key in run.kept if key in project or _is_below_open(key, project)]


def _renamed(key: str, name: str, value: Any) -> list[Remark]:
    if name in (key, READ_BY_THE_ENGINE.get(key)):
        return []
    return [Remark(name, value, "renamed", f"here it is {key}")]


# What 0.7.0 calls by two names, of which one follows the other: as in verl's own config.
_FOLLOWS = {"reward_manager.name": "reward_model.reward_manager"}


class _Absent:
    pass


_ABSENT: Any = _Absent()


def stated_by(run: Run) -> dict[str, Any]:
    """Return the keys that the run itself sets, with what it sets them to."""
    if run.resolved is not None:
        return dict(flatten(run.resolved))
    found: dict[str, Any] = {}
    for body in run.overlay:
        found.update(flatten(body))
    for item in run.overrides:
        if isinstance(item.value, dict) and item.value:
            found.update(flatten(item.value, f"{item.key}."))
        elif item.mark != "~":
            found[item.key] = item.value
    return found


def _devices(flat: Mapping[str, Any]) -> int:
    numbers = [flat.get("trainer.nnodes"), flat.get("trainer.n_gpus_per_node")]
    total = 1
    for number in numbers:
        total *= int(str(number)) if str(number).isdigit() else 1
    return max(total, 1)


def _not_known(key: str, name: str, value: Any, stated: Mapping[str, Any]) -> tuple[Any, Remark | None]:
    if value is not _ABSENT and key in SUPPLIED:
        return "", None
    why = "not known without running the script; the project's own stays"
    is_said = value is not _ABSENT and name in stated
    return _ABSENT, Remark(name, shown(value), "dropped", why) if is_said else None


def _local(
    key: str, name: str, value: Any, current: Any, stated: Mapping[str, Any], experiment: Experiment, exported: bool
) -> tuple[Any, Remark | None]:
    """Return a setting as the project has it."""
    if value is _ABSENT or unknowns(value):
        return _not_known(key, name, value, stated)
    if exported:
        return value, None
    if isinstance(value, str) and _LEADS_NOWHERE.search(value):
        return _ABSENT, Remark(name, value, "not carried over", "it follows what the project has not; its own stays")
    if value is False and current is None:  # configs of long ago have False where there is no path
        return _ABSENT, None
    if key == "actor_rollout_ref.rollout.name":
        return (experiment.engine if current != experiment.engine else _ABSENT), None
    if about_the_machine(key) and name not in stated and key not in _OF_THE_RUN:
        if value == current:
            return value, None
        return _ABSENT, Remark(name, value, KEPT, f"{current}: where and how it is computed")
    if key == "actor_rollout_ref.rollout.mode":
        why = "the project's engine has one mode"
        return _ABSENT, Remark(name, value, "changed", why) if name in stated and value != current else None
    rule = _ONE_DEVICE.get(key)
    if rule is not None and value != rule[0]:
        return rule[0], Remark(name, value, "lowered", rule[1]) if name in stated else None
    if key == "trainer.logger":
        kept = [item for item in logger_names(value) if item in _LOGGERS]
        gone = [item for item in logger_names(value) if item not in _LOGGERS]
        remark = (
            Remark(name, value, "changed", f"the project has no logger {', '.join(map(str, gone))}") if gone else None
        )
        return kept or ["console"], remark
    return value, None


# A reference that was not resolved, to a key or a function of a fork's; what the environment has, a project resolves.
_LEADS_NOWHERE = re.compile(r"\$\{(?!oc\.(?:env|select|decode))")
# Of what is about the machine otherwise, this says what a run reads, by what it is scored, how long it is and when it
# looks: as it would be with verl.
_OF_THE_RUN = (
    "data.seed",
    "data.train_files",
    "data.trust_remote_code",
    "data.val_files",
    "reward_model.reward_manager",
    "trainer.max_actor_ckpt_to_keep",
    "trainer.resume_mode",
    "trainer.save_freq",
    "trainer.test_freq",
    "trainer.total_epochs",
    "trainer.val_before_train",
)
_LOGGERS = ("console", "file", "tensorboard", *SERVICES)
_ONE_DEVICE: dict[str, tuple[Any, str]] = {
    "actor_rollout_ref.rollout.tensor_model_parallel_size": (1, "one device holds the model"),
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size": (1, "one device has whole sequences"),
    "actor_rollout_ref.ref.ulysses_sequence_parallel_size": (1, "one device has whole sequences"),
    "critic.ulysses_sequence_parallel_size": (1, "one device has whole sequences"),
    "actor_rollout_ref.actor.strategy": ("fsdp2", "a project has FSDP2, or one process that holds the model whole"),
    "critic.strategy": ("fsdp2", "a project has FSDP2, or one process that holds the model whole"),
}


def _open_sections(flat: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run's settings in sections of the project's config that take anything."""
    found = {}
    for key, value in flat.items():
        if key in project or unknowns(value):
            continue
        if _OF_TEACHER.fullmatch(key) and f"{_TEACHERS}teacher_model.key" in project:
            found[key] = value
            continue
        names = candidates(key, lambda name: None) if key.startswith(_OPEN) else []
        name = next((name for name in names if _is_below_open(name, project)), None)
        if name is not None:
            found[name] = value
    return found


_OPEN = (*TAKES_ANYTHING, "data.env.")


# What a project reads of a teacher, which a run may call as it likes.
_TEACHERS = "distillation.teacher_models."
_OF_TEACHER = re.compile(re.escape(_TEACHERS) + r"\w+\.(key|model_path)")


def _is_below_open(key: str, project: Mapping[str, Any]) -> bool:
    for prefix in _OPEN:
        if key.startswith(prefix) and "overlong_buffer_cfg" not in key:
            return any(f"{name}.".startswith(prefix) for name in project)
    return False


_ROLLOUT = "actor_rollout_ref.rollout"
_GLOBAL = {
    "actor_rollout_ref.actor.ppo_micro_batch_size": "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "actor_rollout_ref.ref.log_prob_micro_batch_size": "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
    f"{_ROLLOUT}.log_prob_micro_batch_size": f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    "critic.ppo_micro_batch_size": "critic.ppo_micro_batch_size_per_gpu",
    "critic.forward_micro_batch_size": "critic.forward_micro_batch_size_per_gpu",
}


def _episodes(flat: Mapping[str, Any], project: Mapping[str, Any], remarks: list[Remark]) -> dict[str, Any]:
    """Return what a run in turns is to a project: verl's tools give no reward, and are no environment of its own."""
    key = f"{_ROLLOUT}.multi_turn.enable"
    if not flat.get(key) or "local.env.is_reward" not in project:
        return {}
    why = "the tools are the run's own: custom/env_wrapper.py has a toy environment in their place, put them there"
    remarks.append(Remark(key, True, "to do", why))
    return {"local.env.is_reward": False}


def _micro_batches(
    flat: Mapping[str, Any], project: Mapping[str, Any], devices: int, stated: Mapping[str, Any], remarks: list[Remark]
) -> dict[str, Any]:
    """Sizes for all devices together become sizes of one; a size that is not given stays the project's."""
    found: dict[str, Any] = {}
    for whole, each in _GLOBAL.items():
        value = flat.get(whole)
        if each in project and isinstance(value, int) and whole in stated:
            found[each] = max(value // devices, 1)
            remarks.append(Remark(whole, value, "lowered", f"for {devices} devices together: {each}={found[each]}"))
        elif each in project and flat.get(each, _ABSENT) is None:
            found[each] = project[each]
    return {key: value for key, value in found.items() if value != project[key] or key in flat}


_OVERLONG = ("reward.reward_kwargs.overlong_buffer_cfg.", "reward_model.reward_kwargs.overlong_buffer_cfg.")


def _reward_arguments(flat: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the penalty on long responses, which the project has a section for."""
    found = {}
    for key, value in flat.items():
        short = next((key.removeprefix(prefix) for prefix in _OVERLONG if key.startswith(prefix)), None)
        for section in ("reward_model.overlong_buffer.", _OVERLONG[0]):
            if short is not None and f"{section}{short}" in project:
                found[f"{section}{short}"] = value
    return found


def _rest(
    stated: Mapping[str, Any], flat: Mapping[str, Any], used: set[str], run: Run, *, has_critic: bool
) -> list[Remark]:
    """Return the run's settings that the project has no key for."""
    remarks = []
    done = set(_GLOBAL)
    for key in sorted(stated):
        if key in used or (key in done and key in flat) or key.startswith(_OPEN) or "@" in key:
            continue
        if key.startswith(_OVERLONG) or (run.hints and is_about_where(key)):
            continue
        value = flat.get(key, stated[key])
        value = shown(value)
        rule = rule_for(key)
        if key.startswith("critic.") and not has_critic:
            remarks.append(Remark(key, value, "dropped", "its estimator has no critic"))
        elif rule is not None:
            remarks.append(Remark(key, value, rule.what, rule.why))
        else:
            remarks.append(Remark(key, value, "unhandled", "neither verl nor the project has such a setting"))
    return remarks
