"""Run every case on one side and write down what each returned, bit for bit."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import cases_declared
from .cases import FAMILIES, Registered, Thunk
from .sides import NotVendored, Side, Upstream, Vendored, is_absent

CASES = (
    *("algorithms", "losses", "tensors", "batches", "metrics", "configs", "dataset", "rewards", "models", "engine"),
    "distillation",
)
HEAVY = (
    "transformers.models.qwen2.modeling_qwen2",
    "datasets",
    "tensordict",
    "torch.distributed.fsdp",
    "torchdata.stateful_dataloader",
    "hydra.utils",
    "pandas",
    "sympy",
)


def main(job_path: Path, result_path: Path) -> None:
    """Run the job: {side, root, modules, fixes, declared, dropped, trace, scratch}."""
    job = json.loads(job_path.read_text(encoding="utf-8"))
    import torch

    from .tracing import LineTrace

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    scratch = Path(job["scratch"])
    os.chdir(scratch)
    preload()
    side = _side(job, scratch)
    for name in CASES:
        importlib.import_module(f"{__package__}.cases_{name}")
    cases_declared.register(job["declared"])
    trace = LineTrace(job["trace"])
    trace.start()
    results: dict[str, dict[str, Any]] = {}
    seconds: dict[str, float] = {}
    for registered in FAMILIES:
        start = time.perf_counter()
        results.update(_family(registered, side))
        seconds[registered.name] = time.perf_counter() - start
    trace.stop()
    text = json.dumps(
        {
            "results": results,
            "lines": {file: sorted(lines) for file, lines in trace.lines.items()},
            "stubbed": sorted(side.stubber.names) if isinstance(side, Upstream) else [],
            "seconds": seconds,
        }
    )
    result_path.write_text(text, encoding="utf-8")
    # Worker threads and process groups of upstream's must not keep this process alive.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def preload() -> None:
    """Import what is slow before lines are traced, and give torch.cpu what GPU logging asks of every device."""
    import torch

    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name in ("memory_allocated", "memory_reserved"):
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, lambda *args: 0)
    if not hasattr(torch.cpu, "mem_get_info"):
        torch.cpu.mem_get_info = lambda *args: (0, 0)


def _side(job: Mapping[str, Any], scratch: Path) -> Side:
    fixes = frozenset(job["fixes"])
    if job["side"] == "upstream":
        return Upstream(Path(job["root"]), fixes, scratch)
    return Vendored(Path(job["root"]), job["modules"], fixes, scratch, job["dropped"])


def _family(registered: Registered, side: Side) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    common = {"module": registered.needs, "fixes": list(registered.fixes)}
    try:
        side.module(registered.needs)
        for name, thunk in registered.expand(side):
            results[f"{registered.name}[{name}]" if name else registered.name] = {**_run(thunk), **common}
    except NotVendored as error:
        results[registered.name] = {"absent": str(error), **common}
    except Exception as error:
        results[registered.name] = {**_failure(error), **common}
    return results


def _run(thunk: Thunk) -> dict[str, Any]:
    import numpy as np
    import torch

    from .encode import encode

    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    try:
        return {"value": encode(thunk())}
    except Exception as error:
        return {"absent": str(error).splitlines()[0]} if is_absent(error) else _failure(error)


def _failure(error: Exception) -> dict[str, Any]:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return {"error": f"{type(error).__name__}: {error}", "traceback": "".join(lines)[-3000:]}
