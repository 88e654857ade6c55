"""Convert a run's settings to a project's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from extractor.importers.config.keys import (
    CLASSES,
    FUNCTIONS,
    JUDGE_ENABLED,
    READ_BY_THE_ENGINE,
    is_about_machine,
    list_candidates,
    name_in,
)
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.config.templates import read_table
from extractor.importers.runs.experiment import GENERATIVE, SERVICES, Experiment, list_loggers
from extractor.importers.runs.placeholders import find_unknowns, shown
from extractor.importers.runs.release_match import TAKES_ANYTHING
from extractor.importers.runs.report import Remark, find_rule
from extractor.importers.runs.run import Run
from extractor.importers.runs.setting_repairs import SUPPLIED
from extractor.values.configtree import flatten

# What 0.7.0 calls by two names, of which one follows the other: as in verl's own config.
_FOLLOWS = {"reward_manager.name": "reward_model.reward_manager"}
# A reference that was not resolved, to a key or a function of a fork's; what the environment has, a project resolves.
_LEADS_NOWHERE = re.compile(r"\$\{(?!oc\.(?:env|select|decode))")
_LOGGERS = ("console", "file", "tensorboard", *SERVICES)
_ROLLOUT, _ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"
# Sizes for all devices together, and the same for one.
_GLOBAL = {
    f"{section}.{name}": f"{section}.{name}_per_gpu"
    for section, name in (
        (_ACTOR, "ppo_micro_batch_size"),
        ("actor_rollout_ref.ref", "log_prob_micro_batch_size"),
        (_ROLLOUT, "log_prob_micro_batch_size"),
        ("critic", "ppo_micro_batch_size"),
        ("critic", "forward_micro_batch_size"),
    )
}
_OPEN = (*TAKES_ANYTHING, "data.env.")
_OVERLONG = ("reward.reward_kwargs.overlong_buffer_cfg.", "reward_model.reward_kwargs.overlong_buffer_cfg.")
# What a project reads of a teacher, which a run may call as it likes.
_TEACHERS = "distillation.teacher_models."
_OF_TEACHER = re.compile(re.escape(_TEACHERS) + r"\w+\.(key|model_path)")
_ABSENT: Any = object()
_TOKENIZER = "reward_model.model.input_tokenizer"
_POLICY = "actor_rollout_ref.model.path"
# The project's settings, where its release has none, and what verl calls them where it has.
_LOCAL = {
    "local.reward_model.max_length": "reward_model.max_length",
    "local.reward_model.micro_batch_size_per_gpu": "reward_model.micro_batch_size_per_gpu",
    "local.reward_model.param_offload": "reward_model.model.fsdp_config.param_offload",
    "local.reward_model.trust_remote_code": "reward_model.model.trust_remote_code",
}


def choose_settings(
    experiment: Experiment,
    run: Run,
    project: Mapping[str, Any],
    target: ReleaseConfig,
    renamed_back: Callable[[str], str | None],
) -> tuple[dict[str, Any], list[Remark], dict[str, Any]]:
    """Return the project's settings that the run changes, with remarks.

    Args:
        experiment: The run.
        run: As it was read.
        project: The project's config before, flat and resolved.
        target: The run's release.
        renamed_back: From the project's keys to the run's release's.

    Returns:
        Settings by the project's keys, remarks on the run's settings that have none, and the value that each of the
        project's keys is to have in the end.
    """
    carrying = _Carrying.of(experiment, run, project, target)
    found, wanted, used = carrying.map_by_key(renamed_back)
    found |= carrying.open_sections()
    used |= found.keys()
    found |= {**carrying.scale_micro_batches(), **carrying.convert_overlong_penalty()}
    judge, read, about = convert_reward_model(carrying.flat, carrying.stated, project, experiment.function)
    found |= {**judge, **carrying.episodes()}
    used |= read
    carrying.remarks.extend(about)
    remarks = [*carrying.remarks, *carrying.rest(used)]
    wanted = {key: value for key, value in wanted.items() if key not in found or found[key] == value}
    return found, remarks, {**wanted, **{key: value for key, value in found.items() if key in wanted}}


def list_stated(run: Run) -> dict[str, Any]:
    """Return the keys that the run itself sets, with their values."""
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


@dataclass(frozen=True)
class _Carrying:
    """A run and the project that its settings go to."""

    run: Run
    experiment: Experiment
    project: Mapping[str, Any]
    flat: Mapping[str, Any]
    commanded: frozenset[str]
    stated: Mapping[str, Any]
    remarks: list[Remark] = field(default_factory=list)

    @classmethod
    def of(cls, experiment: Experiment, run: Run, project: Mapping[str, Any], target: ReleaseConfig) -> _Carrying:
        """Collect what a run sets, and by its command line."""
        flat = experiment.wanted
        commanded = frozenset(list_stated(replace(run, overlay=(), resolved=None)))
        usual = VerlDefaults.of(target).flat
        stated = {
            key: value
            for key, value in list_stated(run).items()
            if key in commanded or key not in usual or usual[key] != flat.get(key, value)
        }
        return cls(run, experiment, project, flat, commanded, stated)

    @property
    def commanded_last(self) -> dict[str, Any]:
        """Return the run's config with its command-line settings last."""
        return dict(sorted(self.flat.items(), key=lambda item: item[0] in self.commanded))

    def map_by_key(self, renamed_back: Callable[[str], str | None]) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
        """Return changed settings, wanted values, and the run's keys used."""
        found: dict[str, Any] = {}
        wanted: dict[str, Any] = {}
        used: set[str] = set()
        defaults = VerlDefaults(self.experiment.config, self.flat)
        for key, current in self.project.items():
            if key.startswith("local.") or _FOLLOWS.get(key) in self.project:
                continue
            # A release may know an old name beside the new one: the one that the run uses counts.
            followers = (name for name, followed in _FOLLOWS.items() if followed == key)
            names = (READ_BY_THE_ENGINE.get(key), *list_candidates(key, renamed_back), *followers)
            said = [name for name in names if name is not None and name in self.stated and name in self.flat]
            said.sort(key=lambda name: name not in self.commanded)
            name = said[0] if said else name_in(key, defaults, renamed_back)
            if name is None:
                continue
            used.update((name, *said))
            value, remark = self._local(key, name, current)
            self.remarks.extend([] if remark is None else [remark])
            if value is _ABSENT:
                continue
            if said and name not in (key, READ_BY_THE_ENGINE.get(key)):
                self.remarks.append(Remark(name, self.flat[name], "renamed", f"here it is {key}"))
            wanted[key] = value
            if value != current:
                found[key] = value
        return found, wanted, used

    def _local(self, key: str, name: str, current: Any) -> tuple[Any, Remark | None]:
        """Return a setting's value in the project, and a remark."""
        value, is_said = self.flat.get(name, _ABSENT), name in self.stated
        if value is _ABSENT or find_unknowns(value):
            if value is not _ABSENT and key in SUPPLIED:
                return "", None
            why = "not known without running the script; the project's own stays"
            is_told = value is not _ABSENT and is_said
            return _ABSENT, Remark(name, shown(value), "dropped", why) if is_told else None
        if isinstance(value, str) and _LEADS_NOWHERE.search(value):
            return _ABSENT, Remark(
                name, value, "not carried over", "it follows what the project has not; its own stays"
            )
        if value is False and current is None:  # configs of long ago have False where there is no path
            return _ABSENT, None
        if key == f"{_ROLLOUT}.name":
            return (self.experiment.engine if current != self.experiment.engine else _ABSENT), None
        if is_about_machine(key) and not is_said and key not in read_table("keys")["of_the_run"]:
            return (value if value == current else _ABSENT), None
        if key == f"{_ROLLOUT}.mode":
            is_other = is_said and value != current
            return _ABSENT, Remark(name, value, "changed", f"here it is {current}") if is_other else None
        here, why = read_table("keys")["one_device"].get(key, (value, ""))
        if value != here:
            return here, Remark(name, value, "lowered", why) if is_said else None
        if key == "trainer.logger":
            gone = [str(item) for item in list_loggers(value) if item not in _LOGGERS]
            kept = [item for item in list_loggers(value) if item in _LOGGERS] or ["console"]
            why = f"the project has no logger {', '.join(gone)}"
            return kept, Remark(name, value, "changed", why) if gone else None
        return value, None

    def open_sections(self) -> dict[str, Any]:
        """Return the run's settings in the project's open sections."""
        found = {}
        for key, value in self.commanded_last.items():
            if key in self.project or find_unknowns(value):
                continue
            if _OF_TEACHER.fullmatch(key) and f"{_TEACHERS}teacher_model.key" in self.project:
                found[key] = value
                continue
            names = list_candidates(key, lambda name: None) if key.startswith(_OPEN) else []
            for name in names:
                sections = [prefix for prefix in _OPEN if name.startswith(prefix) and "overlong_buffer_cfg" not in name]
                if sections and any(f"{known}.".startswith(sections[0]) for known in self.project):
                    found[name] = value
                    break
        return found

    def scale_micro_batches(self) -> dict[str, Any]:
        """Return micro-batch sizes per device instead of for all devices."""
        numbers = (str(self.flat.get(f"trainer.{name}")) for name in ("nnodes", "n_gpus_per_node"))
        devices = 1
        for number in numbers:
            devices *= max(int(number), 1) if number.isdigit() else 1
        found: dict[str, Any] = {}
        for whole, each in _GLOBAL.items():
            value = self.flat.get(whole)
            if each in self.project and isinstance(value, int) and whole in self.stated:
                found[each] = max(value // devices, 1)
                why = f"for {devices} devices together: {each}={found[each]}"
                self.remarks.append(Remark(whole, value, "lowered", why))
            elif each in self.project and self.flat.get(each, _ABSENT) is None:
                found[each] = self.project[each]
        return {key: value for key, value in found.items() if value != self.project[key] or key in self.flat}

    def convert_overlong_penalty(self) -> dict[str, Any]:
        """Return the overlong penalty's settings under the project's section."""
        found = {}
        for key, value in self.commanded_last.items():
            short = next((key.removeprefix(prefix) for prefix in _OVERLONG if key.startswith(prefix)), None)
            for section in ("reward_model.overlong_buffer.", _OVERLONG[0]):
                if short is not None and f"{section}{short}" in self.project:
                    found[f"{section}{short}"] = value
        return found

    def episodes(self) -> dict[str, Any]:
        """Return settings for multi-turn runs, with a remark on their tools."""
        key = f"{_ROLLOUT}.multi_turn.enable"
        if not self.flat.get(key) or "local.env.is_reward" not in self.project:
            return {}
        if any(self.flat.get(name) and name in self.project for name in (CLASSES, FUNCTIONS)):
            return {}  # upstream's loop plays, and the reward manager scores
        why = "the tools are the run's own: custom/env_wrapper.py has a toy environment in their place, put them there"
        self.remarks.append(Remark(key, True, "to do", why))
        return {"local.env.is_reward": False}

    def rest(self, used: set[str]) -> list[Remark]:
        """Return remarks on settings that the project has no key for."""
        has_critic = any(key.startswith("critic.") for key in self.project)
        remarks = []
        for key in sorted(self.stated):
            if key in used or (key in _GLOBAL and key in self.flat) or key.startswith((*_OPEN, *_OVERLONG)):
                continue
            if "@" in key:
                continue
            rule = find_rule(key)
            what, why = "unhandled", "neither verl nor the project has such a setting"
            if key.startswith("critic.") and not has_critic:
                what, why = "dropped", "its estimator has no critic"
            elif rule is not None:
                what, why = rule.what, rule.why
            remarks.append(Remark(key, shown(self.flat.get(key, self.stated[key])), what, why))
        return remarks


def convert_reward_model(
    flat: Mapping[str, Any], stated: Mapping[str, Any], project: Mapping[str, Any], function: str | None
) -> tuple[dict[str, Any], set[str], list[Remark]]:
    """Convert the run's reward model settings to the project's.

    verl puts each conversation into the reward model's own chat template: by default where `input_tokenizer` can be
    set, always where it cannot. With `input_tokenizer=null` the model reads the policy's tokens.

    Args:
        flat: The run's config.
        stated: What the run itself sets.
        project: The project's config.
        function: The text of the run's reward function; None where it has none.

    Returns:
        Settings by the project's keys, the run's keys that they are made from, and what a user should know.
    """
    enabled = next((key for key in JUDGE_ENABLED if flat.get(key)), None)
    if enabled is None:
        return {}, set(), []
    if function is not None and any(name in function for name in GENERATIVE):
        on = next((key for key in JUDGE_ENABLED if key in project), None)
        why = "a generative reward model is a server of verl's: serve it, and have the reward function ask it there"
        return ({} if on is None else {on: False}), {enabled}, [Remark(enabled, True, "to do", why)]
    found: dict[str, Any] = {}
    used = {enabled}
    name = next((key for key in (_TOKENIZER, "local.reward_model.input_tokenizer") if key in project), None)
    tokenizer = flat.get(_TOKENIZER, flat.get(_POLICY))
    if name is not None:
        own = tokenizer is None or tokenizer != flat.get(_POLICY)
        found[name] = tokenizer if own else f"${{{_POLICY}}}"
        used.add(_TOKENIZER)
    if tokenizer is not None:
        found["data.return_raw_chat"] = True
    for key, said in _LOCAL.items():
        if said in stated and key in project and not find_unknowns(flat.get(said)):
            found[key] = flat.get(said)
            used.add(said)
    return found, used, []
