"""The Python that runs a project, and running the driver with it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from extractor.errors import CheckFailed

DRIVER = Path(__file__).parent / "driver"
HINT = (
    "make an environment for the project (cd PROJECT && python -m venv .venv && .venv/bin/pip install -e '.[dev]'),"
    " or pass --python"
)
_NOT_PASSED_ON = ("VERL_", "PYTHON", "RAY_", "SLURM_", "RANK", "WORLD_SIZE", "LOCAL_RANK")


@dataclass
class Running:
    """A started driver script."""

    process: subprocess.Popen[bytes]
    result: Path
    log: Path


def choose(project: Path, python: str | None) -> str:
    """Return the interpreter: the one that is named, the project's own, or this one.

    Raises:
        CheckFailed: none of them has torch.
    """
    own = project / (".venv/Scripts/python.exe" if os.name == "nt" else ".venv/bin/python")
    if python is not None:
        chosen = python
    elif own.exists():
        chosen = str(own)
    elif importlib.util.find_spec("torch") is not None:
        return sys.executable
    else:
        raise CheckFailed("no Python that has the project's requirements: PROJECT/.venv is missing", hint=HINT)
    question = "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('torch') else 3)"
    try:
        answer = subprocess.run([chosen, "-c", question], capture_output=True, check=False)
    except OSError as error:
        raise CheckFailed(f"{chosen}: cannot be started: {error.strerror or error}", hint=HINT) from None
    if answer.returncode:
        raise CheckFailed(f"{chosen}: does not have torch", hint=HINT)
    return chosen


def start(python: str, script: str, job: Mapping[str, Any], folder: Path) -> Running:
    """Start a script of the driver.

    Args:
        python: The interpreter.
        script: "imports", "parity" or "tests".
        job: What it is to do.
        folder: An existing directory for its files.
    """
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python, str(DRIVER), script, str(folder / "job.json"), str(folder / "result.json")],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return Running(process, folder / "result.json", log)


def finish(running: Running, timeout: float) -> dict[str, Any]:
    """Wait for a script, and read its result.

    Raises:
        CheckFailed: it died, or took too long.
    """
    try:
        code = running.process.wait(timeout)
    except subprocess.TimeoutExpired:
        stop(running)
        raise CheckFailed(f"took longer than {timeout:.0f} s", hint=tail(running.log)) from None
    try:
        result = json.loads(running.result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise CheckFailed(f"ended with exit code {code} and without a result", hint=tail(running.log)) from None
    assert isinstance(result, dict)
    return result


def stop(running: Running) -> None:
    """End a script that is still running."""
    if running.process.poll() is None:
        running.process.kill()
        running.process.wait()


def tail(log: Path, lines: int = 12) -> str:
    """Return the end of what a script printed."""
    text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(text[-lines:])


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}
    caches = {name: str(folder / "cache") for name in ("HF_HOME", "HF_DATASETS_CACHE", "XDG_CACHE_HOME")}
    return {
        **kept,
        **caches,
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_COMPILE_DISABLE": "1",
    }
