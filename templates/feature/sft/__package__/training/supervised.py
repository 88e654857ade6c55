# vextract:template - edit freely
"""Supervised training: the policy learns demonstrations, by upstream's loss for it, to be trained by rewards later.

A run is as any other: checkpoints, resuming, records, callbacks, several processes. A step is one optimizer step on
`data.train_batch_size` demonstrations. Nothing is generated, so that no rollout engine is started.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch

from ..api.supervised_assembly import assemble_supervised, loader_of_demonstrations
from ..errors import ConfigError
from ..run.distributed import Ranks, random_state, same_random_numbers, set_random_state
from ..run.process import without_running_loop
from ..switches import WATCH
from ..tracking import timed
from ..tracking.run_tracker import as_numbers
from ..vendored.algorithms.metric_utils import compute_throughout_metrics
from ..vendored.protocol import DataProto
from ..workers.trained_model import reduce_over_ranks
from .given import Given
from .trainer import LocalPPOTrainer, Metrics


class SupervisedTrainer(LocalPPOTrainer):
    """Trains a policy on demonstrations; `fit`, `steps`, `save` and `load` are `LocalPPOTrainer`'s.

    `fit` takes demonstrations: rows or files, with the columns that `data` names.

    Args:
        config: the whole config, from `load_config(config_name="sft")`. It is copied.
        tokenizer: of the model.
        callbacks, ranks: see `LocalPPOTrainer`.
    """

    def __init__(
        self, config: Any, *, tokenizer: Any = None, callbacks: Iterable[Any] = (), ranks: Ranks | None = None
    ) -> None:
        super().__init__(config, tokenizer=tokenizer, callbacks=callbacks, ranks=ranks)

    def _parts(self, given: Given, around: ExitStack) -> tuple[Any, ...]:
        """Put the parts of the run together: no rollouts, rewards, reference or critic."""
        return assemble_supervised(self, given, around)

    def train_step(self, prompts: Any, timing: dict[str, float] | None = None) -> tuple[DataProto, Metrics]:
        """Do one optimizer step.

        Args:
            prompts: a batch of the data loader, as `data/demonstrations.py:collate` makes it.
            timing: receives the seconds that it took.

        Returns:
            The global batch, and metrics by upstream's names: train/loss, the mean over all tokens that are learned;
            train/grad_norm, train/lr, train/global_tokens.
        """
        timing = {} if timing is None else timing
        metrics: Metrics = {}
        batch = DataProto.from_single_dict(prompts)
        batch.meta_info["global_steps"] = self.steps_done + 1
        self.arrange(batch, metrics)
        with timed("step", timing), timed("update_actor", timing), without_running_loop():
            with same_random_numbers(f"{self.config.local.seed} {self.steps_done} actor"):
                found = self.policy.update(batch)
            metrics.update(reduce_over_ranks(found, self.ranks))
            metrics["actor/pg_loss"] = metrics.pop("actor/loss")  # the check's name for the loss that is minimised
            if WATCH:
                self.suspects.batch = batch
                self.divergence.after_update("actor", metrics, self.steps_done + 1)
            else:
                self.policy.require_usable(self.ranks)
        for name, ours in (("loss", "pg_loss"), ("grad_norm", "grad_norm"), ("lr", "lr")):
            metrics[f"train/{name}"] = metrics.pop(f"actor/{ours}")
        metrics["train/global_tokens"] = sum(_lengths(batch))
        metrics["train/learned_tokens"] = int(batch.batch["response_mask"].sum())
        metrics.update(compute_throughout_metrics(batch, timing, n_gpus=self.ranks.world_size))
        self.steps_done, self.score = self.steps_done + 1, None
        return batch, metrics

    @without_running_loop()
    def validate(self, loader: Any = None) -> Metrics:
        """Compute val/loss: the loss over all tokens to be learned of the validation set. Draws no random numbers."""
        loader, before = self.val_loader if loader is None else loader, random_state()
        total, tokens = 0.0, 0
        for columns in loader:
            batch = DataProto.from_single_dict(columns)
            log_probs = self.ranks.spread(partial(self.policy.compute_log_prob, entropy=False), batch)
            mask = batch.batch["response_mask"].bool()
            total -= log_probs.batch["old_log_probs"].to(torch.float64)[mask].sum().item()
            tokens += int(mask.sum())
        set_random_state(before)
        self.score = -total / tokens if tokens else None
        return {"val/loss": total / tokens} if tokens else {}

    def evaluate(self, dataset: Any = None) -> dict[str, float]:
        """Compute val/loss over other demonstrations than those of validation, if given: rows or files."""
        loader = None
        if dataset is not None:
            loader = loader_of_demonstrations(dataset, self.config, self.tokenizer, self.ranks)
        return as_numbers(self.validate(loader))

    def generate(self, prompts: Iterable[Any], *, n: int = 1, do_sample: bool = True) -> list[str]:
        """Refuse: there is no engine that would write responses."""
        raise ConfigError(
            "supervised training has no engine that writes responses",
            "LocalRolloutManager writes some, with a checkpoint's actor/ as actor_rollout_ref.model.path",
        )


def _lengths(batch: DataProto) -> list[int]:
    lengths: list[int] = batch.batch["attention_mask"].sum(dim=-1).tolist()
    return lengths
