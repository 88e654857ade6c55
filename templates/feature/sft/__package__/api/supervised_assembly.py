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
from ..run.checkpoint import Checkpoints, restoring
from ..run.distributed import Ranks, seed_everything
from ..run.process import lock_run_directory
from ..run.shared_checkpoints import SharedCheckpoints, waiting_for_last
from ..settings.batch_sizes import fitting
from ..settings.devices import device_problems
from ..switches import DYNAMIC_SAMPLING, LORA, QLORA, SHARDED_CHECKPOINTS
from ..training.rollouts import Rollouts
from ..workers.lora import check_adapter
from ..workers.models import load_tokenizer, usable_tokenizer
from ..workers.quantized import check_quantization
from ..workers.supervised_policy import SupervisedPolicy
from ..workers.trained_model import TrainedModel
from .assembly import Parts, fill_in_device, load_optimizers, prepare_process, settle_model
from .inputs import Given


class NoRollouts(Rollouts):
    """Stands where a run's rollouts would be."""

    def __init__(self) -> None:
        """Begin without an engine."""

    def sync_weights(self) -> None:
        """Do nothing: nobody generates."""


def assemble_supervised(config: Any, ranks: Ranks, given: Given, around: ExitStack) -> Parts:
    """Put the parts of a run together; see `assemble`.

    Args:
        config: the whole config; what it leaves open is filled in.
        ranks: this process among its peers.
        given: what the caller brings: datasets, and a tokenizer.
        around: what has to be ended is entered here.

    Raises:
        ConfigError: settings contradict each other, or what they name cannot be used.
        DataError: the data cannot be used.
    """
    fill_in_device(config)
    prepare_process()
    _check(config)
    run_directory = Path(config.trainer.default_local_dir)
    lock = lock_run_directory(run_directory, ranks)
    around.enter_context(lock)
    model = config.actor_rollout_ref.model
    settle_model(config, ranks)
    seed_everything(config.local.seed + ranks.rank)

    tokenizer = load_tokenizer(model, ranks) if given.tokenizer is None else usable_tokenizer(given.tokenizer, model)
    train_loader, val_loader = _loaders(config, ranks, given, tokenizer)
    total_steps = config.trainer.total_training_steps or len(train_loader) * config.trainer.total_epochs

    keep, local = config.trainer.max_actor_ckpt_to_keep, config.local
    if SHARDED_CHECKPOINTS:
        checkpoints: Checkpoints = SharedCheckpoints(
            local.checkpoint, run_directory, ranks, keep, digests=local.check_digests
        )
    else:
        checkpoints = Checkpoints(run_directory, ranks, keep, digests=local.check_digests)
    resume = checkpoints.to_resume(config.trainer.resume_mode, config.trainer.resume_from_path)
    weights = checkpoints.weights(resume, "actor")
    policy = SupervisedPolicy(config, tokenizer, ranks, weights or model.path, total_steps)
    models: dict[str, TrainedModel] = {"actor": policy}
    if LORA:
        bases = base_models(config, ranks, resume, reference=False)
    state: tuple[Any, ...] = ()
    if resume:
        with restoring(resume):
            state = load_optimizers(resume, models, ranks)
    if SHARDED_CHECKPOINTS:
        around.enter_context(waiting_for_last(checkpoints))
    parts = Parts(
        tokenizer=tokenizer,
        policy=policy,
        reference=None,
        models=models,
        rollouts=NoRollouts(),
        reward_fn=None,
        val_reward_fn=None,
        train_loader=train_loader,
        val_loader=val_loader,
        checkpoints=checkpoints,
        total_steps=total_steps,
        resumed_from=resume,
        state=state,
        lock=lock,
    )
    if LORA:
        parts.base_models = bases
    return parts


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
    for problem in device_problems(config):
        raise ConfigError(*problem)
    if LORA:
        check_adapter(config.actor_rollout_ref.model)
    if QLORA:
        check_quantization(config)


def _loaders(config: Any, ranks: Ranks, given: Given, tokenizer: Any) -> tuple[SharedLoader, SharedLoader]:
    """Return the loaders; without demonstrations for validation, there is none, on any process."""
    has_validation = [True]

    def build() -> tuple[Any, Any]:
        sources = given.train_dataset, given.val_dataset
        train, val = fitting(config, lambda: build_demonstrations(config, tokenizer, *sources))
        has_validation[0] = val is not None
        return train, train if val is None else val

    loaders = build_dataloaders(config, ranks, build, collate)
    if not ranks.on_driver(lambda: has_validation[0]):
        with open_dict(config):
            config.trainer.test_freq, config.trainer.val_before_train = -1, False
    return loaders
