"""Time log-probabilities of a pass: `log_probs.py PACKAGE key=value ...`, in a project.

Prints seconds and bytes (peak above the logits themselves) of float32 and bfloat16 logits, by the project's function,
and by rows, one at a time, as upstream does it for bfloat16 where there is no flash-attn.
"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clock import now


def measure(package: str, settings: list[str]) -> dict[str, list[float]]:
    """Return (seconds, bytes) of each way."""
    import torch
    from torch.nn import functional

    config = importlib.import_module(package).load_config(*settings)
    function = importlib.import_module(f"{package}.vendored.utils.torch_functional").logprobs_from_logits
    model = json.loads((Path(config.actor_rollout_ref.model.path) / "config.json").read_text(encoding="utf-8"))
    rows, length = config.actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu, config.data.max_response_length
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    logits = torch.randn(rows, length, model["vocab_size"], device=device, dtype=torch.bfloat16)
    labels = torch.randint(0, model["vocab_size"], (rows, length), device=device)

    def by_rows(logits: Any, labels: Any) -> Any:
        found = []
        for one, ids in zip(logits.flatten(0, 1), labels.flatten(), strict=True):
            found.append(functional.log_softmax(one, dim=-1)[ids])
        return torch.stack(found)

    figures = {"by rows, bfloat16": _time(by_rows, logits, labels)}
    figures["project, bfloat16"] = _time(function, logits, labels)
    logits = logits.float()
    figures["project, float32"] = _time(function, logits, labels)
    return figures


def _time(function: Callable[[Any, Any], Any], logits: Any, labels: Any) -> list[float]:
    import torch

    cuda = logits.is_cuda
    with torch.no_grad():
        function(logits, labels)
        if cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        held, start = (torch.cuda.memory_allocated() if cuda else 0), now()
        function(logits, labels)
        seconds = now() - start
    return [seconds, float(torch.cuda.max_memory_allocated() - held) if cuda else 0.0]


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    print(json.dumps(measure(sys.argv[1], sys.argv[2:])))
