"""Run a job in a project's Python: imports, parity or methods."""

import contextlib
import importlib
import json
import os
import random
import sys
import traceback
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

from .sides import NotVendored, Side, block, is_absent

Job = dict[str, Any]
# What is slow to import, and is there before lines are traced.
HEAVY = (
    *("transformers.models.qwen2.modeling_qwen2", "datasets", "tensordict", "torch.distributed.fsdp"),
    *("torchdata.stateful_dataloader", "hydra.utils", "pandas", "sympy"),
)


def main(script: str, job_path: str, result_path: str) -> None:
    """Run a job ("imports", "parity", "methods") and write its result."""
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    if script == "methods":
        result = importlib.import_module(f"{__package__}.methods").run_methods(job)
    else:
        result = {"imports": run_imports, "parity": run_parity}[script](job)
    Path(result_path).write_text(json.dumps(result), encoding="utf-8")
    # Worker threads and process groups of upstream's must not keep this process alive.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


# Parity


def run_parity(job: Job) -> dict[str, Any]:
    """Return what every case returned on one side, bit for bit.

    The job has side, root, modules, declared, dropped, trace and scratch.
    """
    families = load_cases(job)
    side, trace = open_side(job), LineTrace(job["trace"])
    trace.start()
    results: dict[str, dict[str, Any]] = {}
    for family in families:
        for name, result in iterate_family(family, side):
            if name in results:
                raise RuntimeError(f"two cases are called {name}")
            results |= result
    trace.stop()
    lines = {file: sorted(lines) for file, lines in trace.lines.items()}
    return {"results": results, "lines": lines, "stubbed": sorted(side.stubber.names)}


def open_side(job: Job) -> Side:
    """Return the side that a job names."""
    modules = None if job["side"] == "upstream" else job["modules"]
    return Side(Path(job["root"]), Path(job["scratch"]), modules, job["dropped"])


def load_cases(job: Job) -> list[Any]:
    """Make torch deterministic, import what is slow, and return the families of cases."""
    import torch

    torch.set_num_threads(1)
    os.chdir(job["scratch"])
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for name, value in (("memory_allocated", 0), ("memory_reserved", 0), ("mem_get_info", (0, 0))):
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, lambda *args, value=value: value)
    from .declared import list_families
    from .table import read_table

    return [*read_table(), *list_families(job["declared"])]


def iterate_family(
    family: Any, side: Side, chosen: Container[str] | None = None
) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Run a family's cases, or chosen ones; yield names and results."""
    common = {"module": family.needs}
    try:
        side.module(family.needs)
        for part, case in family.expand(side):
            name = f"{family.name}[{part}]" if part else family.name
            if chosen is None or name in chosen:
                yield name, {name: {**run_case(case), **common}}
    except NotVendored as error:
        yield family.name, {family.name: {"absent": str(error), **common}}
    except Exception as error:
        yield family.name, {family.name: {**_describe_failure(error), **common}}


def run_case(case: Any) -> dict[str, Any]:
    """Return what a case returned or raised, and the state of the process that it left."""
    import numpy as np
    import torch

    from .encode import encode

    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    before = dict(os.environ)
    try:
        with mock.patch.dict(os.environ):
            value = encode(case())
            environment = {name: value for name, value in sorted(os.environ.items()) if before.get(name) != value}
        flags = torch.are_deterministic_algorithms_enabled(), torch.backends.cudnn.deterministic
        drawn = [random.random(), float(np.random.rand()), float(torch.rand(()))]
        return {"value": value, "left": encode([environment, flags, drawn])}
    except Exception as error:
        return {"absent": str(error).splitlines()[0]} if is_absent(error) else _describe_failure(error)


def _describe_failure(error: Exception) -> dict[str, Any]:
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    return {"error": f"{type(error).__name__}: {error}", "traceback": "".join(lines)[-3000:]}


class LineTrace:
    """Records executed lines of given files, at nearly full speed elsewhere."""

    def __init__(self, files: Iterable[str]) -> None:
        self.lines: dict[str, set[int]] = {file: set() for file in files}

    def start(self) -> None:
        """Record from now on, in this thread."""
        sys.settrace(self.call)

    def stop(self) -> None:
        """Stop recording."""
        sys.settrace(None)

    def call(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Take a call, as `sys.settrace` and `threading.settrace` hand it over."""
        lines = self.lines.get(frame.f_code.co_filename)
        if lines is None:
            return None

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return local

        return local


# Imports


def run_imports(job: Job) -> dict[str, Any]:
    """Import modules without Ray, verl or blocked packages: {root, modules, required, blocked}."""
    root = Path(job["root"])
    for name in job["required"]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    # What a requirement needs itself is there.
    block(name for name in (*job["blocked"], "ray", "verl") if name not in sys.modules)
    sys.path.insert(0, str(root))
    errors: dict[str, str] = {}
    missing = set()
    for name in job["modules"]:
        try:
            importlib.import_module(name)
        except Exception as error:
            said = str(error)
            if isinstance(error, ModuleNotFoundError) and error.name:
                missing.add(error.name.partition(".")[0])
                said = f"No module named {error.name!r}"
            frames = traceback.extract_tb(error.__traceback__)
            # The environment may lie in the project: what breaks in it is not the project's.
            files = [(Path(frame.filename), frame.lineno) for frame in frames]
            inside = [item for item in files if item[0].is_relative_to(root) and not item[0].is_relative_to(sys.prefix)]
            place = f" ({inside[-1][0].relative_to(root).as_posix()}:{inside[-1][1]})" if inside else ""
            errors[name] = f"{type(error).__name__}: {said}{place}"
    leaked = sorted(name for name in sys.modules if name.partition(".")[0] in ("ray", "verl") and sys.modules[name])
    return {"errors": errors, "leaked": leaked, "missing": sorted(missing)}
