# vextract:template base/__package__/api/assembly.py - edit freely
"""The parts of a run, put together: what the config says, or what the caller brings in its place."""

import gc
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..data.dataloading import SharedLoader, build_dataloaders
from ..data.toy import ensure_toy_model
from ..rewards.manager import TextRewardManager
from ..run.checkpoint import Checkpoints, load_state, restoring, step_of
from ..run.distributed import Ranks, seed_everything
from ..run.process import lock_run_directory
from ..settings.batch_sizes import fitting
from ..settings.checks import check_config
from ..settings.loading import settle_device
from ..training.hook_calls import import_hooks
from ..training.rewarding import Rewards
from ..training.rollouts import Rollouts
from ..workers.models import load_tokenizer
from ..workers.policy import Policy, Reference
from ..workers.rollout_choice import build_rollout_engine
from ..workers.sampling import say_sampling
from ..workers.trained_model import TrainedModel
from .inputs import Given
from .inputs.datasets import build_given_datasets
from .settled import reward_functions, settled


@dataclass
class Parts:
    """The parts of a run.

    Attributes:
        tokenizer: of the policy.
        policy: the model that is trained.
        reference: the model that it is held close to, if a KL penalty or loss is configured.
        models: those that are trained, by the names of their directories in a checkpoint.
        rollouts: writes the responses.
        reward_fn: scores the responses of a batch; `val_reward_fn` does so in validation.
        train_loader: batches of prompts; `val_loader` those for validation.
        checkpoints: where checkpoints go.
        total_steps: how many steps to train for.
        resumed_from: the checkpoint that the run goes on from; None: it starts anew.
        state: what that has, besides the models: the arguments of the trainer's `restore`.
        lock: keeps other runs out of the run's directory.
    """

    tokenizer: Any
    policy: Policy
    reference: Reference | None
    models: dict[str, TrainedModel]
    rollouts: Rollouts
    reward_fn: Any
    val_reward_fn: Any
    train_loader: SharedLoader
    val_loader: SharedLoader
    checkpoints: Checkpoints
    total_steps: int
    resumed_from: Path | None
    state: tuple[Any, ...]
    lock: Any


def assemble(config: Any, ranks: Ranks, given: Given, around: ExitStack) -> Parts:
    """Put the parts of a run together. Every process must call this.

    Args:
        config: the whole config; what it leaves open is filled in.
        ranks: this process among its peers.
        given: what the caller brings.
        around: what has to be ended is entered here.

    Raises:
        ConfigError: settings contradict each other, or what they name cannot be used.
        DataError: the data cannot be used.
        HookError: a hook cannot be imported, or raised.
    """
    fill_in_device(config)
    given = settled(config, given, ranks.world_size)
    use_reference = settle(config, ranks, sizes=False)  # they are checked with the data
    run_directory = Path(config.trainer.default_local_dir)
    lock = lock_run_directory(run_directory, ranks)
    around.enter_context(lock)
    model = config.actor_rollout_ref.model
    settle_model(config, ranks)
    seed_everything(config.local.seed + ranks.rank)

    tokenizer = load_tokenizer(model, ranks)
    datasets = partial(fitting, config, partial(build_given_datasets, config, tokenizer, given))
    train_loader, val_loader = build_dataloaders(config, ranks, datasets)
    total_steps = config.trainer.total_training_steps or len(train_loader) * config.trainer.total_epochs

    keep, local = config.trainer.max_actor_ckpt_to_keep, config.local
    checkpoints = Checkpoints(run_directory, ranks, keep, digests=local.check_digests)
    mode, path = config.trainer.resume_mode, config.trainer.resume_from_path
    resume = checkpoints.to_resume(mode, path, local.checkpoint.begin_from)
    weights = checkpoints.weights(resume, "actor") or model.path
    policy = Policy(config, tokenizer, ranks, weights, total_steps)
    models: dict[str, TrainedModel] = {"actor": policy}
    reference = Reference(config, tokenizer, ranks, policy) if use_reference else None
    rewards = Rewards(config, tokenizer, ranks)
    say_sampling(policy.module, config, ranks)
    engine = build_rollout_engine(config, tokenizer, ranks, policy)
    around.enter_context(closing(engine))
    rollouts = Rollouts(config, ranks, engine)
    for part in (closing(rollouts), closing(rewards)):
        around.enter_context(part)
    state: tuple[Any, ...] = ()
    if resume:
        with restoring(resume):
            state = load_optimizers(resume, models, ranks)
    reward_fn, val_reward_fn = reward_functions(given, rewards, config, rewards.tokenizer)
    for manager in (reward_fn, val_reward_fn):
        if isinstance(manager, TextRewardManager):  # it may have processes
            around.enter_context(closing(manager))
    parts = Parts(
        tokenizer=tokenizer,
        policy=policy,
        reference=reference,
        models=models,
        rollouts=rollouts,
        reward_fn=reward_fn,
        val_reward_fn=val_reward_fn,
        train_loader=train_loader,
        val_loader=val_loader,
        checkpoints=checkpoints,
        total_steps=total_steps,
        resumed_from=resume,
        state=state,
        lock=lock,
    )
    return parts


def fill_in_device(config: Any) -> None:
    """Fill in the device and what depends on it, unless that was done: main.py does it before anything is loaded."""
    if config.local.device is None or config.local.dtype is None:
        settle_device(config)


def settle(config: Any, ranks: Ranks, *, sizes: bool = True) -> bool:
    """Import the hooks, and check the config, whose device is filled in; `sizes`: those of batches too.

    Returns:
        Whether the reference model is needed.
    """
    prepare_process()
    return check_config(config, ranks.world_size, sizes=sizes)


def prepare_process() -> None:
    """Import the hooks, and look for garbage from now on: what was imported is none."""
    import_hooks()  # what they register can now be chosen by name
    if not gc.isenabled():
        gc.freeze()  # what was imported stays: no collection has to look through it again
        gc.enable()


def settle_model(config: Any, ranks: Ranks) -> None:
    """Fill in which model it is, if the config names none: the toy model."""
    model, task = config.actor_rollout_ref.model, config.data.env.task
    if model.path is None:
        place = Path(config.trainer.default_local_dir) / f"toy_model_{task}"
        model.path = str(ranks.on_driver(lambda: ensure_toy_model(place, task=task)))


def load_parts(
    checkpoints: Checkpoints, start: Path, models: Mapping[str, TrainedModel], ranks: Ranks
) -> tuple[Any, ...]:
    """Put the models that are trained back to where a checkpoint has them. Every process must call this.

    Args:
        checkpoints: those of the run.
        start: the checkpoint.
        models: by the names of their directories in it.
        ranks: this process among its peers.

    Returns:
        What else the checkpoint has: the arguments of the trainer's `restore`.
    """
    places = {name: checkpoints.weights(start, name) for name in models}
    for name, place in places.items():
        models[name].load_weights(str(place), ranks)
    return load_optimizers(start, models, ranks)


def load_optimizers(start: Path, models: Mapping[str, TrainedModel], ranks: Ranks) -> tuple[Any, ...]:
    """Put the optimizers back to where a checkpoint has them; returns what else it has, as `load_parts` does."""
    for name, model in models.items():
        model.load_optimizer_state(start / name, ranks)
    return step_of(start), *load_state(start, ranks)
