# vextract:template - edit freely
"""Validation: prompts are answered, the answers scored, and the scores summarised in upstream's names."""

import numbers
import re
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..run.distributed import seed_everything
from ..tracking.timing import advance, expect, under_way
from ..vendored.algorithms.metric_utils import process_validation_metrics
from ..vendored.protocol import DataProto
from .batches import generation_batch, sample_rows
from .early_rewards import early_rewards
from .hook_errors import call_reward

if TYPE_CHECKING:
    from .trainer import LocalPPOTrainer

# How many samples verl's measures are of: `mean@4`, `best@4/std`.
_SIZE = re.compile(r"@(\d+)")


def answer_and_score(trainer: "LocalPPOTrainer", loader: Any) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
    """Answer prompts as validation does, and score the answers. Seeds the global random generators.

    Args:
        trainer: whose weights, settings and reward are used.
        loader: batches of prompts.

    Returns:
        The samples, as `sample_rows` gives them, and the reward and its components: one value for each sample.
    """
    config, ranks = trainer.config, trainer.ranks
    seed_everything(config.local.seed + ranks.rank)
    loader.generator.manual_seed(config.local.seed)
    kwargs = config.actor_rollout_ref.rollout.val_kwargs
    rows: list[dict[str, Any]] = []
    infos: dict[str, list[Any]] = defaultdict(list)
    expect(len(loader), "batches")
    for prompts in loader:
        batch = DataProto.from_single_dict(prompts)
        uids = np.array([str(len(rows) + index) for index in range(len(batch))], dtype=object)
        batch.non_tensor_batch["uid"] = uids
        batch = batch.repeat(kwargs.n, interleave=True)
        prompt_batch = generation_batch(batch)
        prompt_batch.meta_info.update(do_sample=kwargs.do_sample, validate=True, global_steps=trainer.steps_done)
        early = early_rewards(trainer.val_reward_fn, config, ranks, prompt_batch)
        with under_way("gen"):
            batch = batch.union(trainer.rollouts.generate(prompt_batch, early))
        batch.meta_info.update(validate=True, global_steps=trainer.steps_done)
        with under_way("reward"):
            reward_fn = early or trainer.val_reward_fn
            reward, extra = ranks.on_driver(partial(call_reward, reward_fn, batch, trainer.tokenizer))
        scores = reward.sum(dim=-1).tolist()
        infos["reward"].extend(scores)
        for name, values in extra.items():
            infos[name].extend(values)
        rows.extend(sample_rows(batch, scores, trainer.tokenizer))
        advance()
    return rows, infos


def validation_metrics(rows: list[dict[str, Any]], infos: dict[str, list[Any]]) -> dict[str, Any]:
    """Summarise validation samples.

    Args:
        rows: the samples; their uid says which prompt they answer, their data_source where it comes from.
        infos: the reward and its components, one value for each sample.

    Returns:
        val-core/<data source>/<acc or reward>/mean@N and the like for the largest N, and all others as val-aux/...
    """
    sources = [row["data_source"] for row in rows]
    counted = {name: values for name, values in infos.items() if all(map(_counts, values))}
    results = process_validation_metrics(sources, [row["uid"] for row in rows], counted)
    metrics = {}
    for source, variables in results.items():
        core = "acc" if "acc" in variables else "reward"
        for variable, values in variables.items():
            sizes = [int(found[1]) for found in map(_SIZE.search, values) if found is not None]
            of_most = f"@{max(sizes)}" if sizes else ""
            for name, value in values.items():
                is_core = variable == core and name.startswith(("mean", "maj", "best")) and of_most in name
                metrics[f"{'val-core' if is_core else 'val-aux'}/{source}/{variable}/{name}"] = value
    return metrics


def _counts(value: Any) -> bool:
    """Tell whether a value can be averaged or voted on: lists and what a sample lacks cannot."""
    return isinstance(value, (str, numbers.Number, np.generic))
