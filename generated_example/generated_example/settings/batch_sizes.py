# vextract:template base/__package__/settings/batch_sizes.py - edit freely
"""Sizes that do not fit each other, or the data: all at once, each with the settings that mend it."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from omegaconf import OmegaConf, open_dict

from ..absent import SHIPPED
from ..errors import ConfigError, DataError, DataProblems, HintedError, Problem
from ..output import command_with

TRAIN, MINI = "data.train_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"
N = "actor_rollout_ref.rollout.n"
STEPS = "local.gradient_accumulation_steps"
# Estimators of verl's that have no advantage for a prompt's only response.
GROUP_ONLY = ("grpo_passk", "rloo_vectorized")


def check_sizes(config: Any) -> None:
    """Check the sizes of a config by themselves.

    Raises:
        ConfigError: some do not fit each other; says all of them.
    """
    if found := size_problems(config):
        raise together(found)


def fitting(config: Any, build_datasets: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return the datasets for training and validation that a function builds, if the sizes of the config fit them.

    Raises:
        ConfigError, DataError: they do not fit; says all that is wrong, and the command that would start.
    """
    problems: list[Problem] = []
    datasets: tuple[Any, Any] = (None, None)
    try:
        datasets = build_datasets()
        prompts = len(datasets[0])
    except DataProblems as error:
        problems, prompts = error.problems, error.prompts
    problems = [*problems, *size_problems(config, prompts, problems)]
    if problems:
        raise together(problems)
    return datasets


def size_problems(config: Any, prompts: int | None = None, others: Sequence[Problem] = ()) -> list[Problem]:
    """Return which sizes do not fit each other, or the data.

    Args:
        config: the whole config.
        prompts: for training, so many; None: that is not known.
        others: problems whose settings count as mended.
    """
    mended = config.copy()
    with open_dict(mended):
        for problem in others:
            _mend(mended, problem)
        found = []
        for find in (_group, _prompts, _mini_batches, _passes, _token_budgets):
            for problem in find(mended, prompts):
                _mend(mended, problem)
                found.append(problem)
    return found


def together(problems: Sequence[Problem]) -> HintedError:
    """Return one error that says all problems, and the command, or the settings, that mend them."""
    settings: dict[str, Any] = {}
    for problem in problems:
        for name, value in problem.settings.items():
            known = settings.get(name)
            settings[name] = max(known, value) if isinstance(known, int) and isinstance(value, int) else value
    kind = DataError if any(problem.is_of_data for problem in problems) else ConfigError
    command = command_with(settings)
    if len(problems) == 1:
        (one,) = problems
        return kind(one.message, one.hint if command is None else command)
    listed = ", ".join(f"{name}={value}" for name, value in settings.items())
    text = "\n".join([f"{len(problems)} settings do not fit:", *(f"  {problem.message}" for problem in problems)])
    return kind(text, command or f"set {listed}")


def _mend(config: Any, problem: Problem) -> None:
    for name, value in problem.settings.items():
        OmegaConf.update(config, name, value)


def _group(config: Any, prompts: int | None) -> Iterator[Problem]:
    """Find an estimator that has no advantage for a prompt's only response."""
    estimator = config.algorithm.adv_estimator
    if config.actor_rollout_ref.rollout.n == 1 and not config.local.get("supervised") and estimator in GROUP_ONLY:
        text = f"algorithm.adv_estimator={estimator} compares the responses to a prompt, and there is one"
        yield Problem(text, f"set {N} to 2 or more", {N: 2})


def _prompts(config: Any, prompts: int | None) -> Iterator[Problem]:
    key, size = TRAIN, config.data.train_batch_size
    if prompts is not None and size > prompts:
        text = f"{key} is {size}, and there are {prompts} training prompts"
        yield Problem(text, f"set {key} to {prompts} or less", {key: prompts}, is_of_data=True)


def _mini_batches(config: Any, prompts: int | None) -> Iterator[Problem]:
    train, mini = config.data.train_batch_size, config.actor_rollout_ref.actor.ppo_mini_batch_size
    if train < mini:
        yield Problem(
            f"{TRAIN} is {train}, less than {MINI}, which is {mini}",
            f"an optimizer step uses at most one batch: lower {MINI}",
            {MINI: train},
        )


def _passes(config: Any, prompts: int | None) -> Iterator[Problem]:
    """Find updates that cannot be cut into passes of the size that is asked for."""
    if prompts is None:  # perhaps nothing is trained; a model that is says so itself
        return
    sections = {"actor_rollout_ref.actor": config.actor_rollout_ref.actor}
    for name, section in sections.items():
        responses = section.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
        rows = min(section.ppo_micro_batch_size_per_gpu, responses)
        if responses % rows:
            key = f"{name}.ppo_micro_batch_size_per_gpu"
            best = next(size for size in range(rows, 0, -1) if responses % size == 0)
            text = f"{responses} responses per optimizer step cannot be cut into passes of {rows}"
            yield Problem(text, f"set {key} to a divisor of {responses}", {key: best})


def _token_budgets(config: Any, prompts: int | None) -> Iterator[Problem]:
    """Find passes that are formed by tokens and have no room for the longest sequence."""
    section = config.actor_rollout_ref
    budgets = {
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu": section.actor.use_dynamic_bsz,
        "actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": section.rollout.log_prob_use_dynamic_bsz,
        "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu": section.ref.log_prob_use_dynamic_bsz,
    }
    longest = config.data.max_prompt_length + config.data.max_response_length
    for key, used in budgets.items():
        if used and (given := OmegaConf.select(config, key)) < longest:
            hint = f"set {key} to {longest} or more; several times as much makes good use of a GPU"
            yield Problem(f"{key} is {given}, and a sequence may have {longest} tokens", hint, {key: longest})


def settle_passes(config: Any, names: Sequence[str]) -> None:
    """Fill in `ppo_micro_batch_size_per_gpu` where `local.gradient_accumulation_steps` is given.

    Each process then computes so many passes for an optimizer step, whose responses they share equally.

    Args:
        config: the whole config.
        names: the settings that were made on the command line.

    Raises:
        ConfigError: the responses cannot be shared like this, or the size of a pass is given as well, and is another.
    """
    steps, processes = OmegaConf.select(config, STEPS), int(os.environ.get("WORLD_SIZE", "1"))
    for section in ("actor_rollout_ref.actor", "critic") if steps is not None else ():
        node, key = OmegaConf.select(config, section), f"{section}.ppo_micro_batch_size_per_gpu"
        if node is None:
            continue
        if node.use_dynamic_bsz:
            raise ConfigError(
                f"{STEPS} is {steps}, and with {section}.use_dynamic_bsz a pass has a number of tokens instead",
                f"leave {STEPS} out, or {section}.use_dynamic_bsz",
            )
        responses = node.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
        rows, rest = divmod(responses, steps * processes)
        if rest or not rows:
            of_each = f" on each of {processes} processes" if processes > 1 else ""
            raise ConfigError(
                f"{STEPS} is {steps}, and an optimizer step has {responses} responses "
                f"({section}.ppo_mini_batch_size times actor_rollout_ref.rollout.n): no equal passes{of_each}",
                _other_numbers(responses, processes),
            )
        given = OmegaConf.select(config, key)
        as_shipped = OmegaConf.is_interpolation(node, "ppo_micro_batch_size_per_gpu") or given in SHIPPED["pass_sizes"]
        if given != rows and (key in names or not as_shipped):
            raise ConfigError(
                f"{key} is {given}, and with {STEPS}={steps} a pass has {rows} responses",
                f"leave one of the two out; {STEPS}=null counts by the size of a pass",
            )
        OmegaConf.update(config, key, rows)


def _other_numbers(responses: int, processes: int) -> str:
    if responses % processes:
        return f"{responses} responses cannot be shared by {processes} processes: choose another mini-batch"
    each = responses // processes
    return f"choose a divisor of {each}: " + ", ".join(str(n) for n in range(1, min(each, 64) + 1) if each % n == 0)
