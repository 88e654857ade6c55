# vextract:template - edit freely
"""Notes on a model: dropout, and weights whose dtype rounds away what they learn."""

import sys
from typing import Any

import torch

from ..run.distributed import to_local

SAMPLE = 4096  # weights of each parameter that are tried


def note_dropout(model_config: Any) -> None:
    """Say so if a policy has dropout, which is on in updates and off where responses and probabilities come from."""
    settings = model_config.get_text_config().to_dict()
    rates = [name for name, value in settings.items() if "drop" in name and isinstance(value, float) and value > 0]
    off = [name for name in rates if not name.startswith(("classifier", "summary"))]
    if off:
        print(
            "note: the model has dropout, which is on in updates only: the probabilities that updates compare differ "
            "by it from those of the policy that wrote the responses "
            f"({' '.join(f'+actor_rollout_ref.model.override_config.{name}=0.0' for name in off)} turns it off)",
            file=sys.stderr,
        )


def note_rounding(trained: list[torch.Tensor], optim: Any, key: str) -> None:
    """Warn if a step of `optim.lr` is too small to change most weights in their dtype, which `key` sets."""
    if not optim.lr > 0 or (optim.get("override_optimizer_config") or {}).get("bf16_stochastic_round"):
        return
    weights = [to_local(parameter.detach()).flatten() for parameter in trained]
    samples = [weight[:: max(1, len(weight) // SAMPLE)] for weight in weights]
    kept = [((one + optim.lr == one) & (one - optim.lr == one)).sum().cpu() for one in samples]
    share = float(torch.stack(kept).sum()) / max(1, sum(map(len, samples))) if kept else 0.0
    if share > 0.5:
        print(
            f"note: a step of lr={optim.lr:g} leaves {share:.0%} of the weights as they are, because they are in "
            f"{str(trained[0].dtype).removeprefix('torch.')}, which rounds it away: {key}=fp32 keeps it, and passes "
            "compute in fsdp_config.dtype all the same",
            file=sys.stderr,
        )
