# vextract:template base/__package__/training/loss_by_pass.py
"""Whether an owner's policy loss is of the whole batch, where a step adds the losses of several passes up."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

_seen: set[str] = set()  # the losses of which it is known


def note_on_mean(name: str, where: str, loss: Callable[..., Any], value: float, arguments: Mapping[str, Any]) -> None:
    """Say once if a loss is the mean of a pass: then its gradient grows with the number of passes.

    From verl 0.8.0 on, what passes return is added up, and `agg_loss` divides by the tokens or the responses of the
    whole batch, which the engine notes in `config.global_batch_info`. A mean of the same rows twice is the mean of
    these rows; what is of the whole batch is twice as much.

    Args:
        name: what the loss is registered as.
        where: file and line of it.
        loss: returns the loss of the same arguments.
        value: of the pass.
        arguments: what it was called with.
    """
    log_prob, config = arguments.get("log_prob"), arguments.get("config")
    of_batch = getattr(config, "global_batch_info", None)
    if name in _seen or not of_batch or not isinstance(log_prob, torch.Tensor) or not value:
        return
    rows = len(log_prob)
    passes = of_batch.get("global_batch_size", 0) / (rows * of_batch.get("dp_size", 1))
    if passes <= 1:
        return
    _seen.add(name)
    twice = {
        key: torch.cat([item, item]) if isinstance(item, torch.Tensor) and item.shape[:1] == (rows,) else item
        for key, item in arguments.items()
    }
    try:
        with torch.no_grad():
            found = loss(**twice)
        doubled = float(found[0] if isinstance(found, (tuple, list)) else found)
    except Exception:
        return  # it is called with what it expects only by verl
    # Every process has called it: what it computes may need the others.
    if abs(doubled - value) < abs(doubled - 2 * value) and os.environ.get("RANK", "0") == "0":
        often = f"{passes:.0f}"
        print(
            f"note: the policy loss {name!r} is the mean of a pass, and an optimizer step adds {often} of them up: its "
            f"gradient is {often} times as large as that of one pass with all\n  hook: {where}\n"
            "  agg_loss(..., **config.global_batch_info) is of the whole batch, as in custom/algorithms.py's spo",
            file=sys.stderr,
            flush=True,
        )
