"""Cases of metrics that are gathered over a step."""

from typing import Any

import numpy as np
import torch

from .cases import Call, Cases, family, outcome


@family("metric.gathered", "verl.utils.metric.utils")
def gather_metrics(call: Call) -> Cases:
    """Gather values, and compute means, maxima and minima of them."""
    if not hasattr(call.side.module(call.module), "Metric"):
        return
    cls = call.get("Metric")

    def gathered(kind: str) -> Any:
        one, other = cls(kind, value=1.0), cls(kind)
        one.append(4)
        other.append(torch.tensor(2.5))
        other.extend([np.float32(7), one])
        one.append(cls(kind, value=-3))
        mean = call.get("reduce_metrics")({"max": other})
        another = cls("mean" if kind == "sum" else "sum")
        wrong = [outcome(one.append, value) for value in ("text", torch.ones(2), another)]
        alike = [cls(kind, value=value) for value in (1.0, 3.5)]
        ranks = [outcome(cls.aggregate_dp, ranks) for ranks in (alike, [one, other], [])]
        return one.values, other.values, other.aggregate(), mean, wrong, ranks, one.init_list().values

    for kind in ("mean", "sum", "min", "max", "none"):
        yield f"gathered/{kind}", call(gathered, kind)
