# vextract:template base/__package__/settings/setting_checks.py - edit freely
"""Checks of a composed config that need nothing slow: does something read each setting, does each name exist."""

import os
import socket
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..absent import SHIPPED
from ..tracking.trackers import missing_loggers, unknown_loggers
from .devices import device_problems
from .setting import (
    PACKAGE,
    SCHEMA,
    SETTINGS,
    is_still_on,
    known_of,
    stands_in_code,
    switched_off,
    without_effect,
)
from .suggestions import choose, nearest

# Processes that share one sequence (Ulysses): upstream has them for models that its own workers build.
SHARED_SEQUENCES = "ulysses_sequence_parallel_size"
# Where the settings are that are arguments of such a function, each of only some of these.
CHOSEN = {
    "algorithm.adv_estimator": ("algorithm",),
    "actor_rollout_ref.actor.policy_loss.loss_mode": ("actor_rollout_ref.actor", "actor_rollout_ref.actor.policy_loss"),
}
CLIP = "actor_rollout_ref.actor.clip_ratio"
# Settings of a model that several processes share.
SHARED = ("fsdp_size", "reshard_after_forward")
# Losses that choose tokens among those of a pass, so that what is learned depends on how a batch is cut into passes.
BY_PASS = ("clip_cov", "kl_cov")


def problems(config: DictConfig, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Say what is wrong with a config, each with a hint: settings that nothing reads, names that do not exist.

    Args:
        config: the whole config.
        names: the settings that were made on the command line. A tracker that is asked for there must be installed;
            one that only a file names is left out, and a note says so.
    """
    for name, value in without_effect(config):
        yield launch_answer(name, value) or _unread(name, value)
    prompts = ("actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length")
    lengths = [OmegaConf.select(config, name) for name in prompts]
    if lengths[0] != lengths[1]:
        yield f"{prompts[0]} is {lengths[0]}, and {prompts[1]} is {lengths[1]}", f"set {prompts[1]}, which both follow"
    yield from _features(config)
    yield from _names(config)
    yield from device_problems(config)
    yield from unknown_loggers(config)
    if "trainer.logger" in names:
        yield from missing_loggers(config)


def launch_answer(key: str, value: Any) -> tuple[str, str] | None:
    """Answer verl's settings for the number of processes, which is torchrun's here; None for any other setting."""
    name = key.rpartition(".")[2]
    if name not in ("n_gpus_per_node", "nnodes"):
        return None
    command = f"torchrun --nproc-per-node {value} main.py"
    if name == "nnodes":
        command = (
            f"on each machine: torchrun --nnodes {value} --nproc-per-node auto --rdzv-backend c10d "
            f"--rdzv-endpoint {socket.gethostname()}:29500 main.py"
        )
    return f"{key} is not read here: there are as many processes as torchrun starts", command


def _command(part: str) -> str:
    """Return the command that brings "feature NAME" or "engine NAME"."""
    kind, name = part.split(" ")
    return f"vextract add {name}" if kind == "feature" else f"vextract upgrade --engine {name}"


def _unread(name: str, value: Any) -> tuple[str, str]:
    if name in SETTINGS:
        hint = "leave it out"
        if parts := known_of(name).readers:
            hint = f"leave it out, or add what reads it: {' or '.join(map(_command, parts.split(', ')))}"
        return f"{name} is {value}, and nothing in this project reads it", hint
    meant = nearest(name, SETTINGS)
    hint = f"did you mean {meant}? " if meant else ""
    custom = f"{PACKAGE.name}/custom"
    return (
        f"unknown key {name}: nothing in this project reads it",
        f"{hint}A key of your own counts once code in {custom} reads it",
    )


def _features(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Find settings that ask for an optional part of verl, which the project was made without."""
    for name, setting in SCHEMA.items():
        value = OmegaConf.select(config, name) if setting.needs and setting.needs not in SHIPPED["features"] else None
        if value not in (setting.without, None):
            yield (
                f"{name}={str(value).lower()} asks for {setting.needs}, which this project was made without",
                f"leave it out, or: vextract add {setting.needs}",
            )
    for section in ("actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic"):
        size = OmegaConf.select(config, f"{section}.{SHARED_SEQUENCES}")
        if size not in (1, None):
            yield (
                f"{section}.{SHARED_SEQUENCES} is {size}, and processes do not share a sequence here",
                "leave it 1; for long sequences: actor_rollout_ref.model.enable_gradient_checkpointing=true, "
                "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1, and fsdp_config.offload_policy=true",
            )


def _names(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Find names that nothing in the project can be registered as."""
    if OmegaConf.select(config, "actor_rollout_ref.model.external_lib") is not None:
        return  # it may register names
    if "torch" in sys.modules:
        return  # nothing slow is left to import: checks.py looks names up where they are registered
    for key, known in SHIPPED["registered"].items():
        name = OmegaConf.select(config, key)
        source = OmegaConf.select(config, f"{key.rpartition('.')[0]}.source") or "register"
        if isinstance(name, str) and source == "register" and name not in known and not stands_in_code(name):
            yield f"{key} is {name!r}, which is not registered", choose(name, known)


def _unread_by_chosen(config: DictConfig, names: Iterable[str]) -> Iterator[str]:
    """Find settings that verl's estimator or loss in use does not read, and others do; an owner's may read any."""
    for switch, sections in CHOSEN.items():
        said = [name for name in names if name.rpartition(".")[0] in sections and not is_still_on(config, name)]
        functions, chosen = SHIPPED["reads"][switch], str(OmegaConf.select(config, switch))
        for name in said if chosen in functions else ():
            readers = [function for function, names in functions.items() if name.rpartition(".")[2] in names]
            if readers and chosen not in readers:
                yield f"{name} has no effect with {switch}={chosen}, but with {', '.join(sorted(readers))}"
            low, high = (OmegaConf.select(config, f"{CLIP}_{end}") for end in ("low", "high"))
            if name == CLIP and chosen in readers and None not in (low, high):
                yield (
                    f"{name} has no effect beside {CLIP}_low={low:g} and {CLIP}_high={high:g}: set these, or "
                    f"{CLIP}_low=null {CLIP}_high=null"
                )


def notes(config: DictConfig, names: Iterable[str]) -> Iterator[str]:
    """Say what is to be known of settings that are in order and yet do not count.

    Args:
        config: the whole config.
        names: the settings that were made on the command line.
    """
    said = sorted({*names} & SETTINGS)
    off = dict(switched_off(config, said))
    for name, switch in off.items():
        key, is_not, value = switch.partition("=!")
        yield f"{name} has no effect {f'while {key} is {value}' if is_not else f'without {switch}'}"
    yield from _unread_by_chosen(config, [name for name in said if name not in off])
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        for name in said:
            if name.endswith(SHARED):
                yield f"{name} has no effect in one process; torchrun --nproc-per-node N starts several"
    actor = config.actor_rollout_ref.actor
    responses = actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
    one_pass = actor.ppo_micro_batch_size_per_gpu >= responses and not actor.use_dynamic_bsz
    if actor.policy_loss.loss_mode in BY_PASS and not one_pass:
        yield (
            f"the loss {actor.policy_loss.loss_mode} chooses tokens among those of a pass, as verl's does: what is "
            f"learned depends on how the {responses} responses of an update are cut into passes"
        )
    if SHIPPED["sums_responses"] and actor.loss_agg_mode == "seq-mean-token-sum-norm":
        yield (
            "loss_agg_mode=seq-mean-token-sum-norm adds the responses of a pass up in this release of verl, where "
            "later ones take their mean: the gradient grows with ppo_micro_batch_size_per_gpu, and grad_clip cuts it "
            "off"
        )
    if SHIPPED["means_of_passes"] and actor.loss_agg_mode == "token-mean" and not one_pass:
        yield (
            "loss_agg_mode=token-mean is a mean over the passes in this release of verl: one of few tokens weighs as "
            "much as one of many, and the gradient depends on ppo_micro_batch_size_per_gpu"
        )
    for text, hint in missing_loggers(config):
        yield f"{text}: nothing is logged there ({hint})"
