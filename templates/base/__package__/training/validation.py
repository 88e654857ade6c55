# vextract:template - edit freely
"""Validation: prompts are answered, the answers scored, and the scores summarised in upstream's names."""

import math
import numbers
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..run.distributed import seed_everything
from ..tracking.timing import advance, expect, under_way
from ..vendored.algorithms.metric_utils import process_validation_metrics
from ..vendored.protocol import DataProto
from .batches import generation_batch, joined_components, sample_rows
from .hooks import call_reward

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
    expect(len(loader), "batches")
    for prompts in loader:
        batch = DataProto.from_single_dict(prompts)
        uids = np.array([str(len(rows) + index) for index in range(len(batch))], dtype=object)
        batch.non_tensor_batch["uid"] = uids
        batch = batch.repeat(kwargs.n, interleave=True)
        prompt_batch = generation_batch(batch)
        prompt_batch.meta_info.update(do_sample=kwargs.do_sample, validate=True, global_steps=trainer.steps_done)
        with under_way("gen"):
            responses, reward_fn = trainer.answers.write(prompt_batch, trainer.val_reward_fn)
        batch = batch.union(responses)
        batch.meta_info.update(validate=True, global_steps=trainer.steps_done)
        with under_way("reward"):
            reward, extra = ranks.on_driver(partial(call_reward, reward_fn, batch, trainer.tokenizer))
        scores = reward.sum(dim=-1).tolist()
        infos.append((len(batch), {"reward": scores} | extra | {"reward": scores}))
        rows.extend(sample_rows(batch, scores, trainer.tokenizer))
        advance()
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
    prompts: dict[Any, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, row in enumerate(rows):
        prompts[row["data_source"]][row["uid"]].append(index)
    counted = {name: values for name, values in infos.items() if all(map(_counts, values))}
    if any(value is None for values in counted.values() for value in values):
        results = {source: _measured(list(of_source.values()), counted) for source, of_source in prompts.items()}
    else:
        results = process_validation_metrics(
            [row["data_source"] for row in rows], [row["uid"] for row in rows], counted
        )
    metrics = {}
    for source, variables in results.items():
        core = "acc" if "acc" in variables else "reward"
        for variable, measured in variables.items():
            passes = _passes(prompts[source].values(), counted.get(variable, []))
            values = {**measured, **passes}
            sizes = [int(found[1]) for found in map(_SIZE.search, values) if found is not None]
            of_most = f"@{max(sizes)}" if sizes else ""
            for name, value in values.items():
                is_core = variable == core and name.startswith(("mean", "maj", "best", "pass")) and of_most in name
                metrics[f"{'val-core' if is_core else 'val-aux'}/{source}/{variable}/{name}"] = value
    return metrics


def pass_at(size: int, values: Sequence[float]) -> float:
    """Return how likely one of `size` samples is right, without bias (https://arxiv.org/abs/2107.03374).

    verl's best@k draws the same sample more than once, and is too low.

    Args:
        size: at most as many as there are values.
        values: 1 for each sample that is right, 0 for each that is not.
    """
    wrong = sum(not value for value in values)
    return 1 - math.comb(wrong, size) / math.comb(len(values), size)


def _counts(value: Any) -> bool:
    """Tell whether a value can be averaged or voted on, or is none; lists cannot."""
    return value is None or isinstance(value, (str, numbers.Number, np.generic))


def _measured(prompts: Sequence[list[int]], infos: Mapping[str, list[Any]]) -> dict[str, dict[str, float]]:
    """Return verl's measures of each component of a data source, over the samples that have it.

    Args:
        prompts: the samples of each prompt.
        infos: the components, None where a sample has none.
    """
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for samples in prompts:
        for name, values in infos.items():
            having = [sample for sample in samples if values[sample] is not None]
            given = {key: [infos[key][sample] for sample in having] for key in ("pred", name) if key in infos}
            given = {key: chosen for key, chosen in given.items() if key == name or None not in chosen}
            anyone = [""] * len(having)
            measures = process_validation_metrics(anyone, anyone, given).get("", {}).get(name, {}) if having else {}
            for key, value in measures.items():
                size = int(match[1]) if (match := _SIZE.search(key)) else None
                if size == len(having) and key.startswith(("mean", "std")):  # named after all samples of the prompt
                    found[name][key.replace(f"@{size}", f"@{len(samples)}")].append(value)
                elif size is None or size in _sizes(len(samples)):
                    found[name][key].append(value)
    return {name: {key: float(np.mean(values)) for key, values in keys.items()} for name, keys in found.items()}


def _passes(prompts: Iterable[list[int]], values: Sequence[Any]) -> dict[str, float]:
    """Return pass@k of a component of a data source; nothing if it has other values than 0 and 1."""
    found: dict[str, list[float]] = defaultdict(list)
    for samples in prompts if values else ():
        given = [values[sample] for sample in samples if values[sample] is not None]
        if not all(value in (0, 1) for value in given):
            return {}
        for size in _sizes(len(samples)):
            if size <= len(given):
                found[f"pass@{size}"].append(pass_at(size, given))
    return {name: float(np.mean(chances)) for name, chances in found.items()}


def _sizes(count: int) -> list[int]:
    """Return of how many samples, out of so many, verl takes the best: 2, 4, 8 and so on, and all."""
    return [*(2**power for power in range(1, count.bit_length()) if 2**power < count), *([count] if count > 1 else ())]
