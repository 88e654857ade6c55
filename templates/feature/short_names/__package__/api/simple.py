# vextract:template - edit freely
"""Trainers for who needs a dozen settings and no more: each makes a config of them, and a `LocalPPOTrainer` of that."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from ..errors import ConfigError
from ..settings import load_config
from ..settings.flags import as_overrides
from .names.short_names import GRPO, PPO, ShortNames, TrainingConfig
from .names.trl_names import adapter_settings

if TYPE_CHECKING:
    from ..training.run_loop import TrainResult
    from ..training.trainer import LocalPPOTrainer


class SimpleTrainer:
    """Holds what PPOTrainer and GRPOTrainer have in common. Models are loaded when they are first needed.

    Args:
        preset: grpo or ppo.
        model: a directory, a name on the hub, or a causal language model that is loaded already and is trained in
            place; None: what config/ says.
        args: a TrainingConfig, a GRPOConfig, or a mapping of settings by the config's keys.
        given: further arguments of `LocalPPOTrainer`.
        settings: further settings, by the config's keys.
        prompts: for training, and for validation.

    Attributes:
        config: the whole config.
    """

    def __init__(
        self,
        preset: str,
        model: Any,
        args: Any,
        given: dict[str, Any],
        settings: Mapping[str, Any],
        prompts: tuple[Any, Any] = (None, None),
    ) -> None:
        if isinstance(args, Mapping) and not isinstance(args, DictConfig):  # that would be a whole config
            args = TrainingConfig(settings=args)
        if not isinstance(args, ShortNames):
            raise ConfigError(
                f"the settings are of type {type(args).__module__}.{type(args).__name__}",
                f"give a TrainingConfig or a GRPOConfig of {__name__.partition('.')[0]}, or a mapping of settings",
            )
        self._preset = preset
        self._args: Any = args
        self._given, self._prompts = given, prompts
        if model is None or isinstance(model, (str, Path)):
            self._settings = {**settings, **({} if model is None else {"actor_rollout_ref.model.path": str(model)})}
        else:
            self._settings = {"scale": "full", **settings}  # without a path the sizes are those of the toy model
            given.update(model=model, tokenizer=given["tokenizer"] or _tokenizer_of(model))
        self._trainer: LocalPPOTrainer | None = None
        self.config = self._load()

    def __enter__(self) -> "SimpleTrainer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def trainer(self) -> "LocalPPOTrainer":
        """Return the trainer of this project, with the models loaded."""
        if self._trainer is None:
            from ..training.trainer import LocalPPOTrainer  # torch takes seconds: a mistake in the settings comes first

            trainer = LocalPPOTrainer(self.config, **self._given)
            trainer.assemble(*self._prompts)
            self._trainer, self.config = trainer, trainer.config
        return self._trainer

    @property
    def model(self) -> Any:
        """Return the model that is trained."""
        return self.trainer.policy.module

    def train(self, loader: Any = None, val_dataset: Any = None) -> "TrainResult":
        """Train, until the last step or until asked to stop.

        Args:
            loader, val_dataset: the prompts, if they were not given before: what a dataset may be, see
                `training/given.py`; None: what config/ says. The batch size of a data loader is `batch_size`.

        Raises:
            ConfigError: the prompts were given already, or the settings contradict the loader.
            DataError: the prompts cannot be used.
        """
        if loader is not None:
            self._take(loader)
            self._prompts = (loader, val_dataset)
        return self.trainer.fit()

    def evaluate(self, dataset: Any = None) -> dict[str, float]:
        """Answer prompts and score the answers; None: those for validation. See `LocalPPOTrainer.evaluate`."""
        return self.trainer.evaluate(dataset)

    def generate(self, prompts: Iterable[Any], *, n: int = 1, do_sample: bool = True) -> list[str]:
        """Write responses with the weights of now. See `LocalPPOTrainer.generate`."""
        return self.trainer.generate(prompts, n=n, do_sample=do_sample)

    def save_model(self, output_dir: str | Path) -> None:
        """Write the model and its tokenizer in Hugging Face format; of a LoRA adapter, the adapter. In every process.

        Raises:
            ConfigError: there is a file of this name.
        """
        directory = Path(output_dir).expanduser()
        if directory.exists() and not directory.is_dir():
            raise ConfigError(f"{directory} is a file", "name a directory")
        from ..workers.trained_model import parts_of

        ranks = self.trainer.ranks
        write = next(parts_of(self.trainer.policy, ranks))  # the weights
        ranks.on_driver(lambda: directory.mkdir(parents=True, exist_ok=True))
        ranks.on_driver(lambda: write(directory))

    def close(self) -> None:
        """End the rollout engine and what else runs beside this process."""
        if self._trainer is not None:
            self._trainer.close()

    def _load(self) -> Any:
        words = self._args.overrides(self._preset, as_overrides({**self._settings, **self._args.settings}))
        config = load_config(*words)
        if config.algorithm.adv_estimator == "gae" and "critic" not in config:
            raise ConfigError(
                "PPO needs a critic, and this project was made without one",
                "vextract add critic; or GRPOTrainer, which needs none",
            )
        return config

    def _take(self, loader: Any) -> None:
        """Check prompts against the settings, whose batch size may be that of a data loader."""
        if self._trainer is not None or self._prompts[0] is not None:
            raise ConfigError("the prompts were given already", "call train() without any, or make another trainer")
        size = getattr(loader, "batch_size", None)  # of a DataLoader; `given_loaders.py` takes what else it says
        if size is not None:
            if getattr(self._args, "batch_size", 0) is None:
                self._args = dataclasses.replace(self._args, batch_size=size)
            self.config = self._load()
            if self.config.data.train_batch_size != size:
                raise ConfigError(
                    f"the loader has batches of {size} prompts, and data.train_batch_size is "
                    f"{self.config.data.train_batch_size}",
                    "leave batch_size out, or make it the loader's",
                )


class PPOTrainer(SimpleTrainer):
    """Trains by PPO, with a critic: PPOTrainer(model, tokenizer, TrainingConfig(...)).train(prompts).

    Args:
        model, args: see `SimpleTrainer`.
        tokenizer: of the model; None: what is saved with it.
        reward_fn: scores responses, see `training/given.py`; None: the project's reward manager.
        environment: gives prompts, rewards or turns, see `training/given_environments.py`.
        callbacks: see `LocalPPOTrainer`.

    Raises:
        ConfigError: the project has no critic, or a setting cannot be used.
    """

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        args: Any = None,
        *,
        reward_fn: Any = None,
        environment: Any = None,
        callbacks: Iterable[Any] = (),
    ) -> None:
        given: dict[str, Any] = dict(
            tokenizer=tokenizer,
            reward_fn=reward_fn,
            environment=environment,
            callbacks=callbacks,
        )
        super().__init__(PPO, model, TrainingConfig() if args is None else args, given, {})


class GRPOTrainer(SimpleTrainer):
    """Trains by GRPO, with the arguments of TRL's trainer of this name.

    Args:
        model, args: see `SimpleTrainer`.
        reward_funcs: scores responses, see `training/given.py`; None: the project's reward manager.
        train_dataset, eval_dataset: prompts, see `training/given.py`; None: what config/ says.
        environment: gives prompts, rewards or turns, see `training/given_environments.py`.
        processing_class, tokenizer: the tokenizer of the model, under either name; None: what is saved with it.
        callbacks: see `LocalPPOTrainer`.
        peft_config: peft's LoraConfig; its r, lora_alpha and target_modules are taken.

    Raises:
        ConfigError: a setting cannot be used.
    """

    def __init__(
        self,
        model: Any = None,
        reward_funcs: Any = None,
        args: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        processing_class: Any = None,
        *,
        tokenizer: Any = None,
        environment: Any = None,
        callbacks: Iterable[Any] | None = None,
        peft_config: Any = None,
    ) -> None:
        given: dict[str, Any] = dict(
            tokenizer=processing_class or tokenizer,
            reward_fn=reward_funcs,
            environment=environment,
            callbacks=callbacks or (),
            reward_weights=getattr(args, "reward_weights", None),
        )
        args = TrainingConfig() if args is None else args
        super().__init__(GRPO, model, args, given, adapter_settings(peft_config), (train_dataset, eval_dataset))


def _tokenizer_of(model: Any) -> Any:
    """Load the tokenizer that is saved where a model came from."""
    from transformers import AutoTokenizer

    name = getattr(model, "name_or_path", "")
    try:
        if name:
            return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError):
        pass
    raise ConfigError(
        f"a model is given, and there is no tokenizer at {name or 'its place'!r}", "give the tokenizer too"
    )
