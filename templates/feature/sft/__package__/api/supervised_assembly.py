# vextract:template - edit freely
"""The parts of a run of supervised training, put together."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from omegaconf import open_dict

from ..data.dataloading import SharedLoader, build_dataloaders, build_loaders
from ..data.demonstrations import build_demonstrations, collate, demonstrations_of
from ..errors import ConfigError
from ..run.base_models import base_models
from ..run.distributed import Ranks, seed_everything
from ..run.process import lock_run_directory
from ..run.shared_checkpoints import waiting_for_last
from ..settings.loading import settle_device
from ..settings.setting_checks import check_sizes
from ..switches import CRITIC, DISTILLATION, DYNAMIC_SAMPLING, LORA, PRIME, QLORA, SHARDED_CHECKPOINTS
from ..training.assembly import checkpoints_of, prepare_process, settle_model
from ..training.checkpoint import load_state, restoring
from ..training.given import Given
from ..training.rollouts import Rollouts
from ..workers.lora import check_adapter
from ..workers.models import load_tokenizer, usable_tokenizer
from ..workers.quantized import check_quantization
from ..workers.supervised_policy import SupervisedPolicy


class NoRollouts(Rollouts):
    """Stands where a run's rollouts would be."""

    def __init__(self) -> None:
        """Begin without an engine."""

    def sync_weights(self) -> None:
        """Do nothing: nobody generates."""


def assemble_supervised(trainer: Any, given: Given, around: ExitStack) -> tuple[Any, ...]:
    """Put the parts of a run together; see `assemble`.

    Args:
        trainer: gets them.
        given: what the caller brings: datasets, and a tokenizer.
        around: what has to be ended is entered here.

    Raises:
        ConfigError: settings contradict each other, or what they name cannot be used.
        DataError: the data cannot be used.
    """
    config, ranks = trainer.config, trainer.ranks
    settle_device(config)
    prepare_process()
    _check(config)
    trainer.lock = lock_run_directory(Path(config.trainer.default_local_dir), ranks)
    around.enter_context(trainer.lock)
    model = config.actor_rollout_ref.model
    settle_model(config, ranks)
    seed_everything(config.local.seed + ranks.rank)

    tokenizer = load_tokenizer(model, ranks) if given.tokenizer is None else usable_tokenizer(given.tokenizer, model)
    trainer.tokenizer = tokenizer
    trainer.train_loader, trainer.val_loader = _loaders(config, ranks, given, tokenizer)
    total_steps = config.trainer.total_training_steps or len(trainer.train_loader) * config.trainer.total_epochs
    trainer.total_steps = total_steps

    checkpoints = trainer.checkpoints = checkpoints_of(config, ranks)
    resume = checkpoints.to_resume(config.trainer.resume_mode, config.trainer.resume_from_path)
    trainer.resumed_from = resume
    weights = str(resume / "actor") if resume else None
    trainer.policy = SupervisedPolicy(config, tokenizer, ranks, weights or model.path, total_steps)
    trainer.models = {"actor": trainer.policy}
    trainer.reference = trainer.reward_fn = trainer.val_reward_fn = None
    trainer.rollouts = NoRollouts()
    if CRITIC:
        trainer.critic = None
    if PRIME:
        trainer.process_rewards = None
    if DISTILLATION:
        trainer.distillation = None
    if LORA:
        trainer.base_models = base_models(config, ranks, resume, reference=False)
    state: tuple[Any, ...] = ()
    if resume:
        with restoring(resume):
            state = load_state(resume, trainer.models, ranks)
    if SHARDED_CHECKPOINTS:
        around.enter_context(waiting_for_last(checkpoints))
    return state


def loader_of_demonstrations(value: Any, config: Any, tokenizer: Any, ranks: Ranks) -> SharedLoader:
    """Return batches of demonstrations, rows or files, as validation has them. Every process must call this."""
    loaders: list[Any] = []

    def build() -> int:
        dataset = demonstrations_of(value, "val", config, tokenizer)
        data = config.data.copy()
        data.train_batch_size = 1
        if DYNAMIC_SAMPLING:
            data.gen_batch_size = None
        loaders.append(build_loaders(data, dataset, dataset, collate)[1])
        return len(loaders[0])

    length = ranks.on_driver(build)
    return SharedLoader(loaders[0] if loaders else None, length, ranks)


def _check(config: Any) -> None:
    """Refuse settings by which a step would be something else than one update on a batch of demonstrations."""
    rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    for key, value, needed in (
        ("actor_rollout_ref.rollout.n", rollout.n, 1),
        ("actor_rollout_ref.rollout.temperature", rollout.temperature, 1.0),
        ("actor_rollout_ref.actor.ppo_mini_batch_size", actor.ppo_mini_batch_size, config.data.train_batch_size),
    ):
        if value != needed:
            raise ConfigError(
                f"{key} is {value}, and supervised training needs {needed}",
                "leave it out, and start from config/sft.yaml: --config-name sft",
            )
    if LORA:
        check_adapter(config.actor_rollout_ref.model)
    if QLORA:
        check_quantization(config)


def _loaders(config: Any, ranks: Ranks, given: Given, tokenizer: Any) -> tuple[SharedLoader, SharedLoader]:
    """Return the loaders; without demonstrations for validation, there is none, on any process."""
    has_validation = [True]

    def build() -> tuple[Any, Any]:
        sources = given.train_dataset, given.val_dataset
        train, val = build_demonstrations(config, tokenizer, *sources)
        check_sizes(config, len(train))
        has_validation[0] = val is not None
        return train, train if val is None else val

    loaders = build_dataloaders(config, ranks, build, collate)
    if not ranks.on_driver(lambda: has_validation[0]):
        with open_dict(config):
            config.trainer.test_freq, config.trainer.val_before_train = -1, False
    return loaders
