# vextract:template base/__package__/training/validation.py - edit freely
"""Validation: prompts are answered, the answers scored, and the scores summarised in upstream's names."""

import math
import numbers
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..hooks import call_reward
from ..run.distributed import seed_everything
from ..vendored.algorithms.metric_utils import process_validation_metrics
from ..vendored.protocol import DataProto
from .batches import generation_batch, joined_components, sample_rows

# How many samples verl's measures are of: `mean@4`, `best@4/std`.
_SIZE = re.compile(r"@(\d+)")


def answer_and_score(trainer: Any, loader: Any) -> tuple[list[dict[str, Any]], dict[str, list[Any]]]:
    """Answer prompts as validation does, and score the answers. Seeds the global random generators.

    Args:
        trainer: whose weights, settings and reward are used.
        loader: batches of prompts.

    Returns:
        The samples, as `sample_rows` gives them, and the reward and its components: one value for each sample, None
        where it has no such component.
    """
    config, ranks = trainer.config, trainer.ranks
    seed_everything(config.local.seed + ranks.rank)
    loader.generator.manual_seed(config.local.seed)
    kwargs = config.actor_rollout_ref.rollout.val_kwargs
    rows: list[dict[str, Any]] = []
    infos: list[tuple[int, dict[str, list[Any]]]] = []
    for prompts in loader:
        batch = DataProto.from_single_dict(prompts)
        batch.non_tensor_batch["uid"] = np.array([str(len(rows) + i) for i in range(len(batch))], dtype=object)
        batch = batch.repeat(kwargs.n, interleave=True)
        asked = generation_batch(batch)
        asked.meta_info.update(do_sample=kwargs.do_sample, validate=True, global_steps=trainer.steps_done)
        responses, reward_fn = trainer.rollouts.generate(asked), trainer.val_reward_fn
        batch = batch.union(responses)
        batch.meta_info.update(validate=True, global_steps=trainer.steps_done)
        reward, extra = ranks.on_driver(partial(call_reward, reward_fn, batch, trainer.tokenizer))
        scores = reward.sum(dim=-1).tolist()
        infos.append((len(batch), {"reward": scores} | extra | {"reward": scores}))
        rows.extend(sample_rows(batch, scores, trainer.tokenizer, {k: v for k, v in extra.items() if k != "reward"}))
    return rows, joined_components(infos)


def validation_metrics(rows: list[dict[str, Any]], infos: dict[str, list[Any]]) -> dict[str, Any]:
    """Summarise validation samples.

    Args:
        rows: the samples; their uid says which prompt they answer, their data_source where it comes from.
        infos: the reward and its components, one value for each sample, None where it has no such component.

    Returns:
        val-core/<data source>/<acc or reward>/mean@N and the like for the largest N, and all others as val-aux/... A
        component counts by the samples that have it. Of one whose values are 0 or 1 there is pass@k too, see `pass_at`.
    """
    kinds = (str, numbers.Number, np.generic, type(None))  # of what can be averaged or voted on, or is none
    counted = {name: values for name, values in infos.items() if all(isinstance(value, kinds) for value in values)}
    members: dict[Any, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        members[row["data_source"]].append(index)
    metrics = {}
    for source, indices in members.items():
        uids = [rows[index]["uid"] for index in indices]
        of_source = {name: [values[index] for index in indices] for name, values in counted.items()}
        found = {name: _measured(name, uids, of_source) for name in of_source}
        core = "acc" if found.get("acc") else "reward"
        for name, measures in found.items():
            sizes = [int(match[1]) for match in map(_SIZE.search, measures) if match is not None]
            of_most = f"@{max(sizes)}" if sizes else ""
            for key, value in measures.items():
                is_core = name == core and key.startswith(("mean", "maj", "best", "pass")) and of_most in key
                metrics[f"{'val-core' if is_core else 'val-aux'}/{source}/{name}/{key}"] = value
    return metrics


def pass_at(size: int, values: Sequence[float]) -> float:
    """Return how likely one of `size` samples is right, without bias (https://arxiv.org/abs/2107.03374).

    verl's best@k draws the same sample more than once, and is too low.

    Args:
        size: at most as many as there are values.
        values: 1 for each sample that is right, 0 for each that is not.
    """
    return 1 - math.comb(sum(not value for value in values), size) / math.comb(len(values), size)


def _measured(name: str, uids: Sequence[Any], infos: Mapping[str, list[Any]]) -> dict[str, float]:
    """Return verl's measures of a component of one data source, and pass@k, over the samples that have it.

    Args:
        name: of the component.
        uids: which prompt each sample answers.
        infos: all components, None where a sample has none.
    """
    having = [index for index, value in enumerate(infos[name]) if value is not None]
    given = {key: [infos[key][index] for index in having] for key in {"pred", name} & infos.keys()}
    given = {key: values for key, values in given.items() if None not in values}
    asked = Counter(uids)
    prompts: dict[Any, list[Any]] = defaultdict(list)
    found: dict[str, list[float]] = defaultdict(list)
    for index in having:
        prompts[uids[index]].append(infos[name][index])
    is_right = all(value in (0, 1) for value in given[name])
    by_prompt = [uids[index] for index in having]
    for uid, measures in process_validation_metrics(by_prompt, by_prompt, given).items():
        for key, value in measures.get(name, {}).items():
            size = int(match[1]) if (match := _SIZE.search(key)) else 0
            if size == len(prompts[uid]) and key.startswith(("mean", "std")):  # named after all samples of the prompt
                found[key.replace(f"@{size}", f"@{asked[uid]}")].append(value)
            elif size == asked[uid] or not size & (size - 1):  # as verl has: 2, 4, 8 and so on, and all
                found[key].append(value)
                if is_right and key == f"best@{size}/mean" and size <= len(prompts[uid]):
                    found[f"pass@{size}"].append(pass_at(size, prompts[uid]))
    return {key: float(np.mean(values)) for key, values in found.items()}
