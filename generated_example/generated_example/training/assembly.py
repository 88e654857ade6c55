# vextract:template base/__package__/training/assembly.py - edit freely
"""A run, put together: what the config says, or what the caller brings in its place; and the checks of both."""

import gc
import os
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ..data.dataloading import build_dataloaders
from ..data.toy import ensure_toy_model
from ..errors import ConfigError
from ..hooks import import_hooks
from ..registries import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY, AdvantageEstimator
from ..run.distributed import Ranks, seed_everything
from ..run.process import lock_run_directory
from ..settings import reward_keys
from ..settings.loading import settle_device
from ..settings.setting import choose
from ..settings.setting_checks import check_sizes
from ..workers.models import load_tokenizer
from ..workers.policy import Policy, Reference
from ..workers.rollout_engine import build_rollout_engine
from ..workers.rollout_interface import warn_about_sampling
from ..workers.trained_model import TrainedModel
from .checkpoint import Checkpoints, load_state, restoring
from .given import Given, build_given_datasets, check_given
from .reward_managers import registered_managers
from .rewarding import compares_with_truth, reward_functions
from .rollouts import Rollouts

# Reward managers of verl's.
OF_VERL = ("batch", "dapo", "gdpo", "naive", "prime", "rate_limited")
# Estimators of verl's that compare the responses to a prompt, and take a lone one's score as it is.
COMPARING = (
    "gdpo gpg grpo grpo_vectorized opo optimal_token_baseline reinforce_plus_plus_baseline rloo "
    "tir_optimal_token_baseline"
).split()


def assemble(trainer: Any, given: Given, around: ExitStack) -> tuple[Any, ...]:
    """Put the parts of a run together. Every process must call this.

    Args:
        trainer: has `config`, whose open settings are filled in, and `ranks`. It gets as attributes: tokenizer;
            policy, reference (None without a KL penalty or loss) and models, those that are trained by the names of
            their directories in a checkpoint; rollouts; reward_fn and val_reward_fn; train_loader and val_loader;
            checkpoints, total_steps, resumed_from (None: the run starts anew) and lock, of the run's directory.
        given: what the caller brings.
        around: closes the parts when the trainer is closed.

    Returns:
        The state in the checkpoint that the run resumes from, as arguments of the trainer's `restore`; or ().

    Raises:
        ConfigError: settings contradict each other, or what they name cannot be used.
        DataError: the data cannot be used.
        HookError: a hook cannot be imported, or raised.
    """
    config, ranks = trainer.config, trainer.ranks
    settle_device(config)
    given = check_given(config, given)
    prepare_process()
    use_reference = check_config(config, ranks.world_size)
    trainer.lock = lock_run_directory(Path(config.trainer.default_local_dir), ranks)
    around.enter_context(trainer.lock)
    model = config.actor_rollout_ref.model
    settle_model(config, ranks)
    seed_everything(config.local.seed + ranks.rank)

    tokenizer = load_tokenizer(model, ranks)
    trainer.tokenizer = tokenizer

    def build() -> tuple[Any, Any]:
        datasets = build_given_datasets(config, tokenizer, given, compares_with_truth(config))
        wrong = [each for dataset in datasets for each in getattr(dataset, "wrong_prompts", ())]
        check_sizes(config, len(datasets[0]), wrong)
        return datasets

    trainer.train_loader, trainer.val_loader = build_dataloaders(config, ranks, build)
    total_steps = config.trainer.total_training_steps or len(trainer.train_loader) * config.trainer.total_epochs
    trainer.total_steps = total_steps

    checkpoints = trainer.checkpoints = checkpoints_of(config, ranks)
    resume = checkpoints.to_resume(config.trainer.resume_mode, config.trainer.resume_from_path)
    trainer.resumed_from = resume
    weights = str(resume / "actor") if resume else model.path
    policy = Policy(config, tokenizer, ranks, weights, total_steps)
    trainer.policy = policy
    models: dict[str, TrainedModel] = {"actor": policy}
    trainer.models = models
    trainer.reference = Reference(config, tokenizer, ranks, policy) if use_reference else None
    trainer.reward_fn, trainer.val_reward_fn = reward_functions(config, given, tokenizer, ranks, around)
    warn_about_sampling(policy.module, config, ranks)
    engine = build_rollout_engine(config, tokenizer, ranks, policy)
    around.enter_context(closing(engine))
    rollouts = Rollouts(config, ranks, engine)
    trainer.rollouts = rollouts
    state: tuple[Any, ...] = ()
    if resume:
        with restoring(resume):
            state = load_state(resume, models, ranks)
    return state


def checkpoints_of(config: Any, ranks: Ranks) -> Checkpoints:
    """Return the checkpoints of a run, which are in its directory."""
    directory, keep = Path(config.trainer.default_local_dir), config.trainer.max_actor_ckpt_to_keep
    return Checkpoints(directory, ranks, keep)


def prepare_process() -> None:
    """Import the hooks, and turn Python's garbage collector on again, which main.py has turned off."""
    import_hooks()  # what they register can now be chosen by name
    if not gc.isenabled():
        gc.freeze()  # what was imported stays: no collection has to look through it again
        gc.enable()


def check_config(config: Any, world_size: int) -> bool:
    """Check the config for this many processes; sizes of batches are checked with the data.

    Returns:
        Whether the reference model is needed.

    Raises:
        ConfigError: settings contradict each other, or name something that does not exist.
    """
    actor, rollout = config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout
    algorithm = config.algorithm
    for key, registry in (
        ("algorithm.adv_estimator", ADV_ESTIMATOR_REGISTRY),
        ("actor_rollout_ref.actor.policy_loss.loss_mode", POLICY_LOSS_REGISTRY),
        (reward_keys.MANAGER, registered_managers()),
    ):
        name = OmegaConf.select(config, key)
        if name not in registry and name != "vanilla":  # some releases have this loss in the actor itself
            hint = choose(str(name), {*registry} - {"gae"})
            hint = "vextract add reward_managers" if key == reward_keys.MANAGER and name in OF_VERL else hint
            raise ConfigError(f"{key} is {name!r}, which is not registered", hint)
    if rollout.n == 1 and algorithm.adv_estimator in COMPARING and os.environ.get("RANK", "0") == "0":
        text = f"algorithm.adv_estimator={algorithm.adv_estimator} compares the responses to a prompt, and there is one"
        print(f"note: {text}: its score is not compared (actor_rollout_ref.rollout.n is how many)", file=sys.stderr)
    if rollout.val_kwargs.do_sample and rollout.val_kwargs.temperature == 0:
        raise ConfigError(
            "actor_rollout_ref.rollout.val_kwargs asks to sample, at temperature 0",
            "set actor_rollout_ref.rollout.val_kwargs.temperature=1.0, or leave do_sample out",
        )
    for key in ("actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config", "critic.model.fsdp_config"):
        size = OmegaConf.select(config, f"{key}.fsdp_size") or -1
        if 0 < size < world_size and world_size % size:
            text = f"{key}.fsdp_size is {size}, and {world_size} processes are no multiple of it"
            raise ConfigError(text, "set it to a number that divides them, or to -1: all share one copy")
    if algorithm.adv_estimator == AdvantageEstimator.GAE:
        raise ConfigError("algorithm.adv_estimator=gae needs a critic", "vextract add critic, or take one such as grpo")
    return bool(actor.use_kl_loss or algorithm.use_kl_in_reward)


def settle_model(config: Any, ranks: Ranks) -> None:
    """Fill in which model it is, if the config names none: the toy model."""
    model, task = config.actor_rollout_ref.model, config.data.env.task
    if model.path is None:
        place = Path(config.trainer.default_local_dir) / f"toy_model_{task}"
        model.path = str(ranks.on_driver(lambda: ensure_toy_model(place, task=task)))
