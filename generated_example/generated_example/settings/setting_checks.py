# vextract:template base/__package__/settings/setting_checks.py - edit freely
"""Checks of a composed config that need nothing slow: settings that nothing reads, files, sizes; and notes."""

import os
import shlex
import socket
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..absent import ABSENT_SETTINGS, MODULES, SHIPPED, lacking
from ..errors import ConfigError
from ..output import install_command, same_command
from ..tracking.run_tracker import LOGGERS, TRACKER_CLASSES, is_installed, logger_names
from .setting import (
    PACKAGE,
    SCHEMA,
    SETTINGS,
    choose,
    is_still_on,
    known_of,
    nearest,
    present_name,
    switched_off,
    without_effect,
)

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
# Where the settings are that are arguments of such a function, each of only some of these.
CHOSEN = {
    "algorithm.adv_estimator": ("algorithm",),
    f"{ACTOR}.policy_loss.loss_mode": (ACTOR, f"{ACTOR}.policy_loss"),
}
CLIP = f"{ACTOR}.clip_ratio"
# Estimators of verl's that have no advantage for a prompt's only response.
GROUP_ONLY = ("grpo_passk", "rloo_vectorized")
# Modules of trackers that this project may lack, each called as its tracker is.
SERVICES = "tracking.services."


def problems(config: DictConfig, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Say what is wrong with a config, each with a hint: settings that nothing reads, or that cannot be had.

    Args:
        config: the whole config.
        names: the settings that were made on the command line. A tracker that is asked for there must be installed;
            one that only a file names is left out, and a note says so.
    """
    unread = dict(without_effect(config))
    for name, value in unread.items():
        text, hint = launch_answer(name, value) or _unread(name, value)
        others = ", ".join(other for other in unread if other != name)  # a file may have many, of another engine
        yield f"{text}; the same holds for {others}" if others else text, hint
    prompts = (f"{ROLLOUT}.prompt_length", "data.max_prompt_length")
    lengths = [OmegaConf.select(config, name) for name in prompts]
    if lengths[0] != lengths[1]:
        yield f"{prompts[0]} is {lengths[0]}, and {prompts[1]} is {lengths[1]}", f"set {prompts[1]}, which both follow"
    for name, it in SCHEMA.items():
        value = OmegaConf.select(config, name) if it.needs and it.needs not in SHIPPED["features"] else None
        if value not in (it.without, None):
            yield lacking(f"{name}={str(value).lower()}", it.needs)
    yield from unknown_loggers(config)
    if "trainer.logger" in names:
        yield from missing_loggers(config)


def launch_answer(key: str, value: Any) -> tuple[str, str] | None:
    """Answer verl's settings for the number of processes, which is torchrun's here; None for any other setting."""
    commands = {
        "n_gpus_per_node": f"torchrun --nproc-per-node {value} main.py",
        "nnodes": f"on each machine: torchrun --nnodes {value} --nproc-per-node auto --rdzv-backend c10d "
        f"--rdzv-endpoint {socket.gethostname()}:29500 main.py",
    }
    command = commands.get(key.rpartition(".")[2])
    return (f"{key} is not read here: there are as many processes as torchrun starts", command) if command else None


def _unread(name: str, value: Any) -> tuple[str, str]:
    """Say of a setting that nothing reads it, and what would, or which one was meant."""
    if name in SETTINGS:
        kinds = [part.split(" ") for part in known_of(name).readers.split(", ") if part]
        adding = [f"vextract {'add' if kind == 'feature' else 'upgrade --engine'} {part}" for kind, part in kinds]
        hint = f"leave it out, or add what reads it: {' or '.join(adding)}" if adding else "leave it out"
        return f"{name} is {value}, and nothing in this project reads it", hint
    if feature := ABSENT_SETTINGS.get(name):
        return lacking(name, feature)
    meant = present_name(name, SETTINGS) or nearest(name, SETTINGS)
    hint = (f"did you mean {meant}? " if meant else "") + f"A key of your own counts if {PACKAGE.name}/custom reads it"
    return f"unknown key {name}: nothing in this project reads it", hint


def names_of(overrides: Sequence[str]) -> list[str]:
    """Return the names of the settings that overrides make."""
    return [override.partition("=")[0].lstrip("+") for override in overrides]


def config_notes(config: DictConfig, overrides: Sequence[str]) -> Iterator[str]:
    """Say what is to be known of settings, above all of the command line, that are in order and yet do not count."""
    said = sorted({*names_of(overrides)} & SETTINGS)
    off = dict(switched_off(config, said))
    for name, switch in off.items():
        key, is_not, value = switch.partition("=!")
        yield f"{name} has no effect {f'while {key} is {value}' if is_not else f'without {switch}'}"
    yield from _unread_by_chosen(config, [name for name in said if name not in off])
    is_alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
    if is_alone:
        for name in said:
            if name.endswith(("fsdp_size", "reshard_after_forward")):
                yield f"{name} has no effect in one process; torchrun --nproc-per-node N starts several"
    actor = config.actor_rollout_ref.actor
    responses = actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
    one_pass = is_alone and actor.ppo_micro_batch_size_per_gpu >= responses and not actor.use_dynamic_bsz
    for chosen in (actor.policy_loss.loss_mode, actor.loss_agg_mode):
        text = SHIPPED["notes"].get(chosen) or ("" if one_pass else SHIPPED["notes_on_passes"].get(chosen))
        if text:
            yield text
    for text, hint in missing_loggers(config):
        yield f"{text}: nothing is logged there ({hint})"


def _unread_by_chosen(config: DictConfig, names: Iterable[str]) -> Iterator[str]:
    """Find settings that verl's estimator or loss in use does not read, and others do; an owner's may read any."""
    for switch, sections in CHOSEN.items():
        functions, chosen = SHIPPED["reads"][switch], str(OmegaConf.select(config, switch))
        for name in names if chosen in functions else ():
            section, _, last = name.rpartition(".")
            if section not in sections or is_still_on(config, name):
                continue
            readers = [function for function, read in functions.items() if last in read]
            if readers and chosen not in readers:
                yield f"{name} has no effect with {switch}={chosen}, but with {', '.join(sorted(readers))}"
            low, high = (OmegaConf.select(config, f"{CLIP}_{end}") for end in ("low", "high"))
            if name == CLIP and (not readers or chosen in readers) and None not in (low, high):
                others = f"{CLIP}_low={low:g} and {CLIP}_high={high:g}: set these, or {CLIP}_low=null {CLIP}_high=null"
                yield f"{name} has no effect beside {others}"


def check_paths(config: DictConfig) -> None:
    """Check that what a config names is there, or can be written. Only rank 0 does either, so only rank 0 looks.

    Raises:
        ConfigError: a file or directory is missing, or a model is in shares where a whole one is needed; or a directory
            cannot be made or written to.
    """
    if os.environ.get("RANK", "0") == "0":
        for message, hint in wrong_paths(config):
            raise ConfigError(message, hint)


def wrong_paths(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Say which paths of a config are not there, or cannot be written, each with a hint.

    By what a setting's value is the path of: `model`, which may be a name on the hub; `data`, which an owner's class
    may take for anything; `code`; `written`, a directory that is made where it is missing; `cache`, which is only kept
    where it can be.
    """
    kinds = {key: setting.path for key, setting in SCHEMA.items() if setting.path}
    kinds["actor_rollout_ref.ref.model.path"] = "model"  # which the config that ships has not
    for key, given in [(name, given) for name in kinds for given in _paths(config, name)]:
        kind, path, there = kinds[key], Path(given).expanduser(), f"check {key}"
        if "://" in given:
            continue
        if kind in ("written", "cache"):
            there_is = next((each for each in (path, *path.parents) if os.path.lexists(each)), path)
            if not there_is.is_dir() or (kind != "cache" and not os.access(there_is, os.W_OK | os.X_OK)):
                what = "writable" if there_is.is_dir() else "a directory"
                hint = f"set {key} to a directory that you can write to"
                yield f"cannot write to {path}: {there_is} is not {what}", hint
        elif kind == "model" and (given.startswith(("/", ".", "~")) or given.count("/") > 1) and not path.exists():
            yield f"no model at {given}: there is no such directory", there
        elif kind == "data" and not path.exists():
            yield f"no such file: {given}", there
        elif kind == "code" and not path.is_file():
            yield f"{key} is not a file: {given}", "give the path of a Python file"
    for key in ("trainer.project_name", "trainer.experiment_name"):  # they name the run's directory
        name = str(OmegaConf.select(config, key) or "")
        if not name.strip() or not name.isprintable() or ".." in Path(name).parts:
            yield f"{key} is {name!r}, which names no directory of its own", same_command(f"{key}=mine")
    resume = config.trainer.resume_from_path if config.trainer.resume_mode == "resume_path" else None
    if resume is not None and not Path(resume).expanduser().exists():
        yield f"{resume} is not a global_step_N directory", resume_hint(resume, config.trainer.default_local_dir)


def resume_hint(*places: Any) -> str:
    """Name the last checkpoint in the first of these directories that has one."""
    for place in filter(None, places):
        found = Path(place).expanduser().glob("global_step_*")
        if steps := {int(path.name[12:]): path for path in found if path.name[12:].isdigit()}:
            last = shlex.quote(str(steps[max(steps)]))
            return f"trainer.resume_mode=resume_path trainer.resume_from_path={last}"
    return "trainer.resume_mode=auto goes on from the run's own last checkpoint, if it has one"


def _paths(config: DictConfig, key: str) -> Iterable[str]:
    value = OmegaConf.select(config, key) or ()
    return [value] if isinstance(value, str) else [str(item) for item in value]


def check_sizes(config: Any, prompts: int | None = None, wrong: Iterable[tuple[str, str, str]] = ()) -> None:
    """Check that sizes fit each other, and the data.

    Args:
        config: the whole config.
        prompts: for training, so many; None: that is not known, and perhaps nothing is trained.
        wrong: what is wrong with the data, to be said along: a text, and the setting that mends it, with its value.

    Raises:
        ConfigError: they do not fit; says all that is wrong, and the settings that mend it.
    """
    longest_last = sorted(wrong, key=lambda item: item[2].rjust(9))
    found = [*longest_last, *((text, key, str(value)) for text, key, value in wrong_sizes(config, prompts))]
    if found:
        mended = [f"{key}={value}" for key, value in {key: value for _, key, value in found}.items()]
        raise ConfigError("\n".join(text for text, _, _ in found), same_command(*mended))


def wrong_sizes(config: Any, prompts: int | None) -> Iterator[tuple[str, str, int]]:
    """Find sizes that do not fit: what is wrong, and the setting that mends it, once those before it are mended."""
    actor, n, batch = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout.n, config.data.train_batch_size
    estimator = config.algorithm.adv_estimator
    if n == 1 and not config.local.get("supervised") and estimator in GROUP_ONLY:
        n = 2
        text = f"algorithm.adv_estimator={estimator} compares the responses to a prompt, and there is one"
        yield text, f"{ROLLOUT}.n", n
    if prompts is not None and batch > prompts:
        text = f"data.train_batch_size is {batch}, and there are {prompts} training prompts"
        yield text, "data.train_batch_size", prompts
        batch = prompts
    key, mini = f"{ACTOR}.ppo_mini_batch_size", actor.ppo_mini_batch_size
    if batch < mini:
        yield f"data.train_batch_size is {batch}, less than {key}, which is {mini}", key, batch
    if prompts is None:
        return
    sections = {ACTOR: (actor, min(mini, batch))}
    for name, (section, mini) in sections.items():
        rows = min(section.ppo_micro_batch_size_per_gpu, mini * n)
        if mini * n % rows:
            best = next(size for size in range(rows, 0, -1) if mini * n % size == 0)
            text = f"{mini * n} responses per optimizer step cannot be cut into passes of {rows}"
            yield text, f"{name}.ppo_micro_batch_size_per_gpu", best


def unknown_loggers(config: Any) -> Iterator[tuple[str, str]]:
    """Say which names in `trainer.logger` are not those of a logger, each with a hint."""
    absent = {module.removeprefix(SERVICES): part for module, part in MODULES.items() if module.startswith(SERVICES)}
    for name in logger_names(config):
        if name not in LOGGERS:
            hint = f"vextract add {absent[name]}" if name in absent else choose(name, (*LOGGERS, *absent))
            yield f"trainer.logger names {name!r}, which is not a logger here", hint


def missing_loggers(config: Any) -> Iterator[tuple[str, str]]:
    """Say which trackers in `trainer.logger` are not installed, each with a hint."""
    for name in logger_names(config):
        tracker = TRACKER_CLASSES.get(name)
        if tracker is not None and not is_installed(tracker.package):
            text = f"trainer.logger names {name}, and the package {tracker.package} is not installed"
            yield text, install_command(tracker.requirement)
