# vextract:template - edit freely
"""A run, put together: what the config says, or what the caller brings in its place; and the checks of both."""

import gc
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ..agents.agent_loop import check_agents
from ..data.dataloading import build_dataloaders
from ..data.images import check_run
from ..data.toy import ensure_toy_model
from ..episodes.checks import check_episodes
from ..episodes.playing import play_episodes
from ..episodes.tool_turns import joined_by
from ..episodes.tools import check_tools, has_tools
from ..errors import ConfigError
from ..hooks import import_hooks
from ..registries import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY, AdvantageEstimator
from ..run.base_models import base_models
from ..run.distributed import Ranks, seed_everything
from ..run.process import lock_run_directory
from ..run.shared_checkpoints import SharedCheckpoints, waiting_for_last
from ..settings import reward_keys
from ..settings.ahead import check_ahead, check_dataset_ahead
from ..settings.critic_checks import check_critic, wants_critic
from ..settings.loading import settle_device
from ..settings.placement import missing_devices, placement_problems
from ..settings.setting import choose
from ..settings.setting_checks import check_sizes
from ..switches import (
    AGENTS,
    CRITIC,
    DISTILLATION,
    EPISODES,
    EXPORT_MODEL,
    GIVEN_OBJECTS,
    LORA,
    MULTIMODAL,
    OVERLAP,
    PARTS,
    PLACEMENT,
    PRIME,
    QLORA,
    REWARD_FORMS,
    REWARD_MANAGERS,
    ROLLOUT_CORRECTION,
    SHARDED_CHECKPOINTS,
    SPECIAL_TOKENS,
    TOOLS,
    VERL_CHECKPOINTS,
    WATCH,
)
from ..workers.implicit_reward import ImplicitReward
from ..workers.lora import check_adapter
from ..workers.models import load_tokenizer, usable_tokenizer
from ..workers.policy import Policy, Reference
from ..workers.quantized import check_quantization
from ..workers.rollout_engine import build_rollout_engine
from ..workers.rollout_interface import warn_about_sampling
from ..workers.trained_model import TrainedModel
from ..workers.value_model import Critic
from .checkpoint import Checkpoints, load_state, restoring
from .distillation import Distillation
from .distillation_checks import check_settings, check_vocabularies, settle_toy_teacher
from .given import Given, build_given_datasets, check_given
from .given_models import check_model, policy_of, write_model
from .model_words import ModelWords
from .overlap import OverlappedRollouts
from .process_checks import check_process_rewards, wants_process_rewards
from .process_rewards import ProcessRewards
from .reward_forms import check_forms
from .reward_managers import registered_managers
from .reward_of_words import RewardOfWords
from .rewarding import compares_with_truth, reward_functions
from .rollout_correction import check_correction
from .rollout_watch import watched
from .rollouts import Rollouts

if not REWARD_MANAGERS:
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
    if REWARD_FORMS:
        check_forms(given)
    if GIVEN_OBJECTS:
        check_model(config, given, ranks.world_size)
    prepare_process()
    use_reference = check_config(config, ranks.world_size)
    trainer.lock = lock_run_directory(Path(config.trainer.default_local_dir), ranks)
    around.enter_context(trainer.lock)
    model = config.actor_rollout_ref.model
    if GIVEN_OBJECTS and given.model is not None:
        model.path = str(ranks.on_driver(partial(write_model, given, Path(config.trainer.default_local_dir))))
    settle_model(config, ranks)
    seed_everything(config.local.seed + ranks.rank)

    if GIVEN_OBJECTS and given.tokenizer is not None:
        tokenizer = usable_tokenizer(given.tokenizer, model)
    else:
        tokenizer = load_tokenizer(model, ranks)
    trainer.tokenizer = tokenizer
    if TOOLS and has_tools(config):
        joined_by(config, tokenizer)
    if DISTILLATION:
        if config.distillation.enabled:
            settle_toy_teacher(config, ranks)
            check_vocabularies(config, tokenizer, ranks)

    def build() -> tuple[Any, Any]:
        datasets = build_given_datasets(config, tokenizer, given, compares_with_truth(config))
        if MULTIMODAL:
            check_run(config, ranks.world_size, datasets)
        wrong = [each for dataset in datasets for each in getattr(dataset, "wrong_prompts", ())]
        check_sizes(config, len(datasets[0]), wrong)
        return datasets

    trainer.train_loader, trainer.val_loader = build_dataloaders(config, ranks, build)
    if OVERLAP and config.local.rollout.ahead:
        ranks.on_driver(lambda: check_dataset_ahead(trainer.train_loader.dataset))
    total_steps = config.trainer.total_training_steps or len(trainer.train_loader) * config.trainer.total_epochs
    trainer.total_steps = total_steps

    checkpoints = trainer.checkpoints = checkpoints_of(config, ranks)
    if VERL_CHECKPOINTS:
        checkpoints.begin_from = config.local.checkpoint.begin_from
    resume = checkpoints.to_resume(config.trainer.resume_mode, config.trainer.resume_from_path)
    if VERL_CHECKPOINTS and (found := resume) is not None:
        from ..run import from_verl

        resume = ranks.on_driver(lambda: from_verl.own(found, config, checkpoints.directory))
    trainer.resumed_from = resume
    weights = str(resume / "actor") if resume else model.path
    if GIVEN_OBJECTS:
        policy = policy_of(given, config, tokenizer, ranks, weights, total_steps)
    else:
        policy = Policy(config, tokenizer, ranks, weights, total_steps)
    trainer.policy = policy
    models: dict[str, TrainedModel] = {"actor": policy}
    trainer.models = models
    trainer.reference = Reference(config, tokenizer, ranks, policy) if use_reference else None
    if LORA:
        trainer.base_models = base_models(config, ranks, resume, reference=use_reference)
    if CRITIC:
        trainer.critic = None
        if wants_critic(config):
            trainer.critic = Critic(config, tokenizer, ranks, checkpoints.weights(resume, "critic"), total_steps)
            models["critic"] = trainer.critic
    if PRIME:
        trainer.process_rewards = None
        if wants_process_rewards(config):
            place = checkpoints.weights(resume, "reward_model")
            trainer.process_rewards = ProcessRewards(
                config, ImplicitReward(config, tokenizer, ranks, place, total_steps), ranks
            )
            models["reward_model"] = trainer.process_rewards.model
    if DISTILLATION:
        is_taught = config.distillation.enabled
        trainer.distillation = Distillation(config, tokenizer, ranks, policy) if is_taught else None
    if SPECIAL_TOKENS:
        words = ModelWords.of(config, tokenizer)
        managers = reward_functions(config, given, words.decoder, ranks, around)
    else:
        trainer.reward_fn, trainer.val_reward_fn = reward_functions(config, given, tokenizer, ranks, around)
    warn_about_sampling(policy.module, config, ranks)
    engine = build_rollout_engine(watched(config) if WATCH else config, tokenizer, ranks, policy)
    around.enter_context(closing(engine))
    if SPECIAL_TOKENS:
        words.ends.update(getattr(engine, "ends", ()))
    if OVERLAP:
        rollouts: Rollouts = OverlappedRollouts(config, ranks, engine)
    else:
        rollouts = Rollouts(config, ranks, engine)
    trainer.rollouts = rollouts
    if EPISODES and GIVEN_OBJECTS:
        play_episodes(rollouts, config, tokenizer, given.environment)
    elif EPISODES:
        play_episodes(rollouts, config, tokenizer)
    if EPISODES or OVERLAP:
        around.enter_context(closing(rollouts))
    if SHARDED_CHECKPOINTS:
        around.enter_context(waiting_for_last(checkpoints))
    state: tuple[Any, ...] = ()
    if resume:
        with restoring(resume):
            state = load_state(resume, models, ranks)
    if SPECIAL_TOKENS:
        trainer.reward_fn, trainer.val_reward_fn = (RewardOfWords(manager, words) for manager in managers)
    return state


def checkpoints_of(config: Any, ranks: Ranks) -> Checkpoints:
    """Return the checkpoints of a run, which are in its directory."""
    directory, keep = Path(config.trainer.default_local_dir), config.trainer.max_actor_ckpt_to_keep
    if not (EXPORT_MODEL or SHARDED_CHECKPOINTS):
        return Checkpoints(directory, ranks, keep)
    else:
        if SHARDED_CHECKPOINTS:
            checkpoints: Checkpoints = SharedCheckpoints(config.local.checkpoint, directory, ranks, keep)
        else:
            checkpoints = Checkpoints(directory, ranks, keep)
        if EXPORT_MODEL:
            checkpoints.digests = config.local.check_digests
        return checkpoints


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
            hint = choose(str(name), registry if CRITIC else {*registry} - {"gae"})
            if not REWARD_MANAGERS:
                hint = "vextract add reward_managers" if key == reward_keys.MANAGER and name in OF_VERL else hint
            raise ConfigError(f"{key} is {name!r}, which is not registered", hint)
    if rollout.n == 1 and algorithm.adv_estimator in COMPARING and os.environ.get("RANK", "0") == "0":
        text = f"algorithm.adv_estimator={algorithm.adv_estimator} compares the responses to a prompt, and there is one"
        print(f"note: {text}: its score is not compared (actor_rollout_ref.rollout.n is how many)", file=sys.stderr)
    if PLACEMENT:
        for problem in (*placement_problems(config, world_size), *missing_devices(config)):
            raise ConfigError(*problem)
    if LORA:
        check_adapter(config.actor_rollout_ref.model)
    if QLORA:
        check_quantization(config)
    if PRIME:
        check_process_rewards(config)
    if DISTILLATION:
        if config.distillation.enabled:
            check_settings(config)
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
    if OVERLAP and config.local.rollout.ahead:
        check_ahead(config)
    if ROLLOUT_CORRECTION:
        check_correction(algorithm.rollout_correction)
    if AGENTS:
        check_agents(config)
    if TOOLS:
        check_tools(config)
    if EPISODES and rollout.multi_turn.enable:
        check_episodes(config)
    if CRITIC:
        check_critic(config)
    elif algorithm.adv_estimator == AdvantageEstimator.GAE:
        raise ConfigError("algorithm.adv_estimator=gae needs a critic", "vextract add critic, or take one such as grpo")
    if PRIME and wants_process_rewards(config):
        return True
    return bool(actor.use_kl_loss or algorithm.use_kl_in_reward)


def settle_model(config: Any, ranks: Ranks) -> None:
    """Fill in which model it is, if the config names none: the toy model."""
    model, task = config.actor_rollout_ref.model, config.data.env.task
    if model.path is None:
        place = Path(config.trainer.default_local_dir) / f"toy_model_{task}"
        model.path = str(ranks.on_driver(lambda: ensure_toy_model(place, task=task)))


if PARTS:

    def load_parts(
        checkpoints: Checkpoints, start: Path, models: Mapping[str, TrainedModel], ranks: Ranks
    ) -> tuple[Any, ...]:
        """Put the models that are trained back to where a checkpoint has them; returns what `load_state` does."""
        places = {name: checkpoints.weights(start, name) for name in models}
        for name, place in places.items():
            models[name].load_weights(str(place), ranks)
        return load_state(start, models, ranks)
