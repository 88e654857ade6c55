"""Time what a project avoids: `machine.py PACKAGE`, in a project.

Prints seconds a GiB for a copy from the GPU into CPU memory that is new, that was used before, and that is kept and
known to the driver; and seconds for attention over a length that is new, by cuDNN and by torch's own kernels.
"""

import importlib
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

from clock import now

GIB = 2**30
LENGTHS = range(100, 116)


def measure(package: str) -> dict[str, float]:
    """Return the medians; none where there is no GPU."""
    import torch

    if not torch.cuda.is_available():
        return {}
    host_memory = importlib.import_module(f"{package}.workers.host_memory")
    values = torch.ones(GIB // 4, device="cuda")
    new = _seconds(lambda: values.cpu())
    used = torch.empty_like(values, device="cpu").fill_(0)
    known = host_memory.to_host(values)

    def again() -> None:
        host_memory.overwrite(known, values)
        host_memory.wait()

    found = {"new": new, "used": _seconds(lambda: used.copy_(values)), "known": _seconds(again)}
    for name, enabled in (("cudnn", True), ("plain", False)):
        torch.backends.cuda.enable_cudnn_sdp(enabled)
        found[name] = statistics.median([_seconds(lambda length=length: _attend(length), 1) for length in LENGTHS][1:])
    return found


def _attend(length: int) -> None:
    """Let the last of so many tokens look at all, as in a rollout."""
    import torch

    query = torch.ones((8, 14, 1, 64), device="cuda", dtype=torch.bfloat16)
    keys = torch.ones((8, 14, length, 64), device="cuda", dtype=torch.bfloat16)
    mask = torch.ones((8, 1, 1, length), device="cuda", dtype=torch.bool)
    torch.nn.functional.scaled_dot_product_attention(query, keys, keys, attn_mask=mask)


def _seconds(work: Callable[[], object], rounds: int = 3) -> float:
    found = []
    for _ in range(rounds):
        start = now()
        work()
        found.append(now() - start)
    return statistics.median(found)


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    print(json.dumps(measure(sys.argv[1])), flush=True)
