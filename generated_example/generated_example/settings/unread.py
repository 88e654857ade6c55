# vextract:template base/__package__/settings/unread.py - edit freely
"""Find settings that would change nothing: those that nothing in this project reads, and those that are switched off.

A setting counts as read if its name stands in the project's code, hooks included. Which of the shipped ones do not is
noted in shipped_settings.py; the code is only searched for what is not as shipped.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from . import reward_keys
from .project_code import words_of_code
from .shipped_settings import SETTINGS, UNREAD

# Sections that are handed on whole to what they configure: a model, an engine, a function.
OPEN = re.compile(r"(^|\.)(\w*kwargs|override_\w*config)(\.|$)")
_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_MODEL = "actor_rollout_ref.model"
_DISTILLATION = "distillation.distillation_loss"
_TRAINED = (_ACTOR, "critic", "local.prime")
# Settings, or sections, that count only while another setting has a certain value ("!x": any but x).
SWITCHES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    *(((f"{model}.optim.lr_warmup_steps_ratio",), f"{model}.optim.lr_warmup_steps", "-1") for model in _TRAINED),
    *(
        (
            tuple(f"{model}.optim.{name}" for name in ("min_lr_ratio", "num_cycles")),
            f"{model}.optim.{scheduler}",
            "cosine",
        )
        for model in _TRAINED
        for scheduler in ("lr_scheduler_type", "warmup_style")
    ),
    *(
        (tuple(f"{model}.{name}{size}" for name in names), f"{model}.{switch}", by_tokens)
        for model, names, switch in (
            (_ACTOR, ("ppo_",), "use_dynamic_bsz"),
            ("critic", ("ppo_", "forward_"), "use_dynamic_bsz"),
            ("local.prime", ("ppo_",), "use_dynamic_bsz"),
            (_ROLLOUT, ("log_prob_",), "log_prob_use_dynamic_bsz"),
            ("actor_rollout_ref.ref", ("log_prob_",), "log_prob_use_dynamic_bsz"),
        )
        for size, by_tokens in (("micro_batch_size_per_gpu", "false"), ("max_token_len_per_gpu", "true"))
    ),
    ((f"{_ACTOR}.loss_scale_factor",), f"{_ACTOR}.loss_agg_mode", "seq-mean-token-sum-norm"),
    (("data.custom_cls.name",), "data.custom_cls.path", "!null"),
    (("data.filter_overlong_prompts_workers",), "data.filter_overlong_prompts", "true"),
    (("data.seed",), "data.shuffle", "true"),
    (
        tuple(f"{reward_keys.FUNCTION}.{name}" for name in ("name", "reward_kwargs")),
        f"{reward_keys.FUNCTION}.path",
        "!null",
    ),
    (("reward.reward_manager.module",), "reward.reward_manager.source", "importlib"),
    ((reward_keys.JUDGE_PATH, *reward_keys.JUDGE_SETTINGS.values()), reward_keys.JUDGE, "true"),
    (("local.reward.alarm.length_ratio", "local.reward.alarm.checks"), "local.reward.alarm.window", "!0"),
    (("local.reward.log_every", "local.reward.log_samples"), "local.reward.log_dir", "!null"),
    (("local.reward.debug_samples",), "local.reward.debug_log", "!null"),
    (("local.reward.timeout_score",), "local.reward.timeout", "!null"),
    ((f"{_ACTOR}.kl_loss_coef", f"{_ACTOR}.kl_loss_type"), f"{_ACTOR}.use_kl_loss", "true"),
    (("algorithm.kl_ctrl.horizon", "algorithm.kl_ctrl.target_kl"), "algorithm.kl_ctrl.type", "adaptive"),
    (("algorithm.kl_penalty", "algorithm.kl_ctrl"), "algorithm.use_kl_in_reward", "true"),
    (("algorithm.lam",), "algorithm.adv_estimator", "gae"),
    (("algorithm.pf_ppo",), "algorithm.use_pf_ppo", "true"),
    (
        tuple(f"{_MODEL}.{name}" for name in ("lora_alpha", "target_modules", "exclude_modules", "lora.merge")),
        f"{_MODEL}.lora_rank",
        "!0",
    ),
    (("critic",), "algorithm.adv_estimator", "gae"),
    (
        ("distillation.distillation_loss", "distillation.teacher_models", "local.teacher_server"),
        "distillation.enabled",
        "true",
    ),
    ((f"{_DISTILLATION}.topk", f"{_DISTILLATION}.log_prob_min_clamp"), f"{_DISTILLATION}.loss_mode", "forward_kl_topk"),
    ((f"{_DISTILLATION}.distillation_loss_coef",), f"{_DISTILLATION}.use_task_rewards", "true"),
    (
        tuple(
            f"{_DISTILLATION}.{name}"
            for name in ("policy_loss_mode", "clip_ratio", "clip_ratio_low", "clip_ratio_high")
        ),
        f"{_DISTILLATION}.use_policy_gradient",
        "true",
    ),
    (("local.early_stopping.min_delta",), "local.early_stopping.patience", "!null"),
    (("local.early_stopping.lower_is_better",), "local.early_stopping.metric", "!null"),
    (("local.env",), f"{_ROLLOUT}.multi_turn.enable", "true"),
    (
        tuple(f"local.quantization.bnb_4bit_{name}" for name in ("quant_type", "use_double_quant")),
        "local.quantization.load_in_4bit",
        "true",
    ),
    (("local.server",), f"{_ROLLOUT}.mode", "async"),
    (("trainer.resume_from_path",), "trainer.resume_mode", "resume_path"),
    (("trainer.total_epochs",), "trainer.total_training_steps", "null"),
    (
        tuple(f"{_ROLLOUT}.val_kwargs.{name}" for name in ("temperature", "top_k", "top_p", "min_p")),
        f"{_ROLLOUT}.val_kwargs.do_sample",
        "true",
    ),
    (
        tuple(f"{_ROLLOUT}.{name}" for name in ("temperature", "top_k", "top_p", "min_p")),
        f"{_ROLLOUT}.do_sample",
        "true",
    ),
)

# Settings that count all the same while another one has a certain value.
STILL_ON = {
    "algorithm.gamma": ("local.prime.enable", "true"),
    "local.reward.timeout_score": ("local.reward.num_workers", "!0"),  # a process that dies
    "trainer.total_epochs": ("algorithm.filter_groups.enable", "true"),  # it ends a step that finds no signal
}


_ABSENT = object()


def handed_on_with(name: str) -> str | None:
    """Name the section that a setting stands in, if that takes anything and is handed on as a whole."""
    section = name.rpartition(".")[0]
    opened = OPEN.search(section)
    if opened is not None:
        return opened[2]
    return section.rpartition(".")[2] if section in SETTINGS else None


def without_effect(config: DictConfig) -> Iterator[tuple[str, Any]]:
    """Find the settings that are not as shipped, and that nothing reads, with their values."""
    files: tuple[str, ...] = tuple(
        path
        for key in ("data.custom_cls.path", f"{reward_keys.FUNCTION}.path")
        if isinstance(path := OmegaConf.select(config, key), str)
    )
    for name, value in leaves(OmegaConf.to_container(config, resolve=False)):
        if name in SETTINGS and value in UNREAD.get(name, (value,)):
            continue
        if (handed_on_with(name) or name.rpartition(".")[2]) not in words_of_code(files):
            yield name, value


def switched_off(config: DictConfig, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Find those of the settings that another one switches off, and say what that one would have to be."""
    for name in names:
        if is_still_on(config, name):
            continue
        if OmegaConf.select(config, name, default=_ABSENT) is None:
            continue  # null says nothing that another setting could take away
        for switch, wanted in _switches_of(name):
            value = OmegaConf.select(config, switch, default=_ABSENT)
            if value is not _ABSENT and not _is(value, wanted):
                yield name, f"{switch}={wanted}"
                break


def is_still_on(config: DictConfig, name: str) -> bool:
    """Tell whether a setting counts whatever else would switch it off."""
    other, needed = STILL_ON.get(name, (name, ""))
    return bool(needed) and _is(OmegaConf.select(config, other), needed)


def _switches_of(name: str) -> Iterator[tuple[str, str]]:
    """List the settings that switch this one on, and the value that each must have."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        switch = ".".join([*parts[:end], "enable"])
        if switch not in (name, "critic.enable", reward_keys.JUDGE):
            yield switch, "true"
    for settings, switch, wanted in SWITCHES:
        if any(name == setting or name.startswith(f"{setting}.") for setting in settings):
            yield switch, wanted


def _is(value: Any, wanted: str) -> bool:
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text != wanted[1:] if wanted.startswith("!") else text == wanted


def leaves(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield dotted name and value of all settings; an empty section is a value."""
    for key, value in config.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
