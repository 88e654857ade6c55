# vextract:template base/__package__/workers/model_notes.py - edit freely
"""What to know of a model before it is trained: dropout, and steps that its dtype rounds away."""

import sys
from typing import Any

import torch
from torch import nn

from .sharding import local

SAMPLE = 4096  # weights of each parameter that are tried
MUCH = 0.5


def note_dropout(module: nn.Module) -> None:
    """Say so if a policy has dropout, which is on in updates and off where responses and probabilities come from."""
    parts = {name for part in module.modules() for name, value in vars(part).items() if _drops(part, name, value)}
    if not parts:
        return
    settings: Any = {} if (config := getattr(module, "config", None)) is None else config.get_text_config().to_dict()
    names = [name for name, value in settings.items() if "drop" in name and _is_rate(value)]
    names = [name for name in names if not name.startswith(("classifier", "summary"))]
    off = " ".join(f"+actor_rollout_ref.model.override_config.{name}=0.0" for name in names)
    print(
        "note: the model has dropout, which is on in updates only: the probabilities that updates compare differ by it "
        f"from those of the policy that wrote the responses ({off or 'of an adapter, or of its own code'}"
        f"{' turns it off' if off else ''})",
        file=sys.stderr,
    )


def note_rounding(parameters: list[torch.Tensor], lr: float, key: str) -> None:
    """Say so if most weights are too large for a step of the learning rate: their dtype rounds it away.

    Args:
        parameters: what is trained.
        lr: the learning rate.
        key: the setting that says their dtype.
    """
    share, dtype = lost_steps(parameters, lr)
    if share > MUCH:
        name = str(dtype).removeprefix("torch.")
        print(
            f"note: a step of lr={lr:g} leaves {share:.0%} of the weights as they are, because they are in {name}, "
            f"which rounds it away: {key}=fp32 keeps it, and passes compute in fsdp_config.dtype all the same",
            file=sys.stderr,
        )


def lost_steps(parameters: list[torch.Tensor], lr: float) -> tuple[float, torch.dtype | None]:
    """Return the share of weights that a step leaves as they are, of a sample of each parameter, and their dtype."""
    lost, count = [], 0
    for parameter in parameters:
        weights = local(parameter.detach()).flatten()
        sample = weights[:: max(1, len(weights) // SAMPLE)]
        lost.append(((sample + lr == sample) & (sample - lr == sample)).sum().cpu())
        count += len(sample)
    if not count:
        return 0.0, None
    return float(torch.stack(lost).sum()) / count, parameters[0].dtype


def _drops(part: nn.Module, name: str, value: Any) -> bool:
    return _is_rate(value) and ("drop" in name or (name == "p" and "Dropout" in type(part).__name__))


def _is_rate(value: Any) -> bool:
    return isinstance(value, float) and 0 < value <= 1
