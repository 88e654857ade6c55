# vextract:template - edit freely
"""Where a run comes from: command, commit, versions and device of each start, and how it ended, in environment.json."""

import contextlib
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ..absent import SHIPPED
from .secrets import argument_without_secret

ENVIRONMENT = "environment.json"
PROJECT: dict[str, str] = SHIPPED["project"]
PACKAGES = ("torch", "transformers", "tensordict", "numpy", "peft", "bitsandbytes", "flash-attn", "vllm", "sglang")


class Starts:
    """The starts of a run: the first one, and those that went on from a checkpoint.

    Args:
        run_dir: the run's directory.
        step: of the checkpoint that this start goes on from; 0: the run is new.
        total_steps: how many the run is to have.
    """

    def __init__(self, run_dir: Path, step: int, total_steps: int) -> None:
        self._path, self._starts = run_dir / ENVIRONMENT, list[dict[str, Any]]()
        if step:
            with contextlib.suppress(OSError, ValueError, KeyError):  # it is missing, or damaged
                self._starts = json.loads(self._path.read_text(encoding="utf-8"))["starts"]
        begin = {"time": round(time.time(), 3), "step": step, "total_steps": total_steps}
        self._starts.append({**begin, "processes": int(os.environ.get("WORLD_SIZE", "1")), **surroundings()})
        self._write()

    def end(self, step: int, outcome: str, error: BaseException | None) -> None:
        """Record how this start ended: finished, stopped (by a person, or before its last step) or failed."""
        end: dict[str, Any] = {"time": round(time.time(), 3), "step": step}
        if outcome == "failed":
            end["error"] = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"
        self._starts[-1]["end"] = {**end, "outcome": outcome}
        self._write()

    def _write(self) -> None:
        text = json.dumps({"starts": self._starts}, indent=2, ensure_ascii=False, default=str)
        scratch = self._path.with_name(f"{ENVIRONMENT}.tmp")
        scratch.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        scratch.replace(self._path)


def surroundings() -> dict[str, Any]:
    """Describe what this process runs on and with, as values for JSON. Nothing in it names the machine or its user."""
    import torch

    commit, command = None, ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # there is no git
        here = Path(__file__).resolve().parent
        done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=5, check=True)
        commit = done.stdout.strip()
    packages = dict[str, str]()
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            packages[name] = importlib.metadata.version(name)
    device = f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"
    return {
        "command": shlex.join([Path(sys.executable).name, *map(argument_without_secret, sys.orig_argv[1:])]),
        "commit": commit,
        "project": PROJECT,
        "python": platform.python_version(),
        "packages": packages,
        "platform": f"{platform.system()} {platform.machine()}",
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else device,
    }
