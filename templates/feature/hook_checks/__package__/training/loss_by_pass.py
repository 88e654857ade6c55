# vextract:template
"""Whether a policy loss is of the whole batch, where a step adds the losses of several passes up."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

_seen: set[str] = set()  # the losses of which it is known


def note_on_mean(name: str, where: str, loss: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Say once if a loss is the mean of a pass: then its gradient grows with the number of passes.

    From verl 0.8.0 on, what passes return is added up, and `agg_loss` divides by the tokens or the responses of the
    whole batch, which the engine notes in `config.global_batch_info`. A mean of the same rows twice is the mean of
    these rows; what is of the whole batch is twice as much. Gradients are compared, since a loss may be 0 where the
    policy has not moved, with advantages of one, since those of a group cancel.

    Args:
        name: what the loss is registered as.
        where: file and line of it.
        loss: the function.
        arguments: what it was called with for a pass.
    """
    log_prob, advantages = arguments.get("log_prob"), arguments.get("advantages")
    of_batch = getattr(arguments.get("config"), "global_batch_info", None)
    if name in _seen or not of_batch:
        return
    if not isinstance(log_prob, torch.Tensor) or not isinstance(advantages, torch.Tensor):
        return
    rows = len(log_prob)
    passes = of_batch.get("global_batch_size", 0) / (rows * of_batch.get("dp_size", 1))
    if passes <= 1:
        return
    once = {**arguments, "advantages": torch.ones_like(advantages)}
    twice = {
        key: torch.cat([item, item]) if isinstance(item, torch.Tensor) and item.shape[:1] == (rows,) else item
        for key, item in once.items()
    }
    try:
        single, doubled = _gradient(loss, once), _gradient(loss, twice)[:rows]
    except Exception:
        _seen.add(name)
        return  # it is called with what it expects only by verl
    if not single.any():
        return  # nothing is learned from in this pass
    _seen.add(name)
    # Every process has called it: what it computes may need the others.
    if (2 * doubled - single).norm() < (doubled - single).norm() and os.environ.get("RANK", "0") == "0":
        often = f"{passes:.0f}"
        print(
            f"note: the policy loss {name!r} is the mean of a pass, and an optimizer step adds {often} of them up: its "
            f"gradient is {often} times as large as that of one pass with all\n  in: {where}\n"
            "  agg_loss(..., **config.global_batch_info) is of the whole batch",
            file=sys.stderr,
            flush=True,
        )


def _gradient(loss: Callable[..., Any], arguments: Mapping[str, Any]) -> torch.Tensor:
    """Return a loss's gradient by log_prob; random numbers go on as if it had not been called."""
    log_prob = arguments["log_prob"].detach().requires_grad_()
    devices = [log_prob.device] if log_prob.device.type == "cuda" else []
    with torch.enable_grad(), torch.random.fork_rng(devices=devices):
        found = loss(**{**arguments, "log_prob": log_prob})
        value = found[0] if isinstance(found, (tuple, list)) else found
        return torch.autograd.grad(value, log_prob)[0]
