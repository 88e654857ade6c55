# vextract:template base/__package__/workers/metrics.py - edit freely
"""Metrics of an update, of all processes together."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ..run.distributed import Ranks
from ..vendored.utils.metric.utils import reduce_metrics


def reduced(metrics: Mapping[str, Any], ranks: Ranks) -> dict[str, Any]:
    """Reduce the metrics of all processes and all their mini-batches to one number each. All must call this."""
    merged: dict[str, list[Any]] = defaultdict(list)
    for part in ranks.gather_objects(metrics):
        for name, value in part.items():
            merged[name].extend(value if isinstance(value, list) else [value])
    return dict(reduce_metrics(merged))
