"""Say what an update spends its time on: `profile_update.py PACKAGE key=value ...`, in a project.

Prints the seconds of the second update, those in which the GPU computes something in it, the number of kernels, and for
the kernels that take most their seconds. The table of torch's profiler goes to standard error.
"""

import contextlib
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

MOST = 8


def measure(package: str, settings: list[str]) -> dict[str, Any]:
    """Return the figures."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    project = importlib.import_module(package)
    cuda = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if cuda else [])]
    with project.LocalPPOTrainer(project.load_config(*settings)) as trainer:
        update, updates = trainer.policy.update, iter((False, True))
        seen: dict[str, Any] = {}

        def profiled(batch: Any) -> Any:
            if not next(updates, False):
                return update(batch)
            with profile(activities=activities) as profiler:
                start = time.perf_counter()
                metrics = update(batch)
                if cuda:
                    torch.cuda.synchronize()
                seen["seconds"] = time.perf_counter() - start
            seen["events"] = profiler.key_averages()
            return metrics

        trainer.policy.update = profiled
        for _ in zip(range(2), trainer.steps(), strict=False):
            pass
    events = seen["events"]
    print(events.table(sort_by="self_cpu_time_total", row_limit=40, max_name_column_width=60), file=sys.stderr)
    kernels = [event for event in events if event.self_device_time_total > 0 and event.device_type.name != "CPU"]
    kernels.sort(key=lambda event: -event.self_device_time_total)
    return {
        "seconds": seen["seconds"],
        "busy": sum(kernel.self_device_time_total for kernel in kernels) / 1e6,
        "kernels": float(sum(kernel.count for kernel in kernels)),
        "most": [[kernel.key[:80], kernel.self_device_time_total / 1e6] for kernel in kernels[:MOST]],
    }


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    with contextlib.redirect_stdout(sys.stderr):
        figures = measure(sys.argv[1], sys.argv[2:])
    print(json.dumps(figures), flush=True)
