"""Train with FSDP2 over a group of one process: `fsdp.py PACKAGE key=value ...`, in a project.

A project of one process does without FSDP2; here its wrapping, mixed precision, gathering and (on a GPU) NCCL are at
work, and torch's allocator has expandable segments. Prints the median of an update's seconds, the peak of memory, and
the first step's norm of the gradient.
"""

import contextlib
import importlib
import json
import os
import statistics
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

WARM_UP = 2


def measure(package: str, settings: list[str]) -> dict[str, float]:
    """Return the figures."""
    from torch.distributed.device_mesh import init_device_mesh

    project = importlib.import_module(package)
    sharding = importlib.import_module(f"{package}.workers.models")
    policy = importlib.import_module(f"{package}.workers.policy")
    trained = importlib.import_module(f"{package}.workers.trained_model")
    devices = importlib.import_module(f"{package}.shims.device")
    place, rests = sharding.place, trained.rests

    def place_shared(module: Any, fsdp_config: Any, ranks: Any) -> Any:
        return place(module, fsdp_config, SimpleNamespace(world_size=2, rank=0, any=ranks.any))

    sharding._mesh = lambda *_: init_device_mesh(devices.get_device_name(), (1,), mesh_dim_names=("fsdp",))
    policy.place = place_shared
    trained.rests = lambda fsdp_config, _: rests(fsdp_config, 2)
    with project.LocalPPOTrainer(project.load_config(*settings)) as trainer:
        rows = [dict(step.metrics) for step in trainer.steps()]
        shared = {type(weight).__name__ for weight in trainer.policy.module.parameters()}
    if shared != {"DTensor"}:
        raise RuntimeError(f"weights are not shared out: {shared}")
    return {
        "update": statistics.median(row["timing_s/update_actor"] for row in rows[WARM_UP:]),
        "memory": max(row.get("perf/max_memory_allocated_gb", 0.0) for row in rows),
        "norm": rows[0]["actor/grad_norm"],
    }


if __name__ == "__main__":
    os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    sys.path.insert(0, str(Path.cwd()))
    with contextlib.redirect_stdout(sys.stderr):
        figures = measure(sys.argv[1], sys.argv[2:])
    print(json.dumps(figures), flush=True)
