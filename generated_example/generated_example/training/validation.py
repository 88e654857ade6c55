# vextract:template base/__package__/training/validation.py - edit freely
"""From validation samples to metrics, in upstream's names."""

import numbers
from typing import Any

import numpy as np

from ..vendored.algorithms.metric_utils import process_validation_metrics


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
            largest = max(int(name.split("@")[-1].split("/")[0]) for name in values)
            for name, value in values.items():
                is_core = variable == core and name.startswith(("mean", "maj", "best")) and f"@{largest}" in name
                metrics[f"{'val-core' if is_core else 'val-aux'}/{source}/{variable}/{name}"] = value
    return metrics


def _counts(value: Any) -> bool:
    """Tell whether a value can be averaged or voted on: lists and what a sample lacks cannot."""
    return isinstance(value, (str, numbers.Number, np.generic))
