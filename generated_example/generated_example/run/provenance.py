# vextract:template base/__package__/run/provenance.py.jinja - edit freely
"""Where a run comes from: command, commit, versions and device. environment.json holds it."""

import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from ..tracking.secrets import argument_without_secret

PROJECT = {
    "verl": "0.9.1",
    "vextract": "0.1.0",
    "engine": "hf",
    "recipe": "toy",
}
PACKAGES = ("torch", "transformers", "tensordict", "numpy", "peft", "bitsandbytes", "flash-attn", "vllm", "sglang")


def surroundings() -> dict[str, Any]:
    """Describe what this process runs on and with, as values for JSON. Nothing in it names the machine or its user."""
    return {
        "command": shlex.join([Path(sys.executable).name, *map(argument_without_secret, sys.orig_argv[1:])]),
        "commit": commit(Path(__file__).resolve().parents[2]),
        "project": PROJECT,
        "python": platform.python_version(),
        "packages": versions(),
        "platform": f"{platform.system()} {platform.machine()}",
        "device": device(),
    }


def commit(directory: Path) -> str | None:
    """Return the commit that is checked out, with -dirty if files differ from it; None where there is no git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of the packages that decide what a run computes, of those that are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def device() -> str:
    """Return the GPU that this process computes on, or the CPU."""
    import torch

    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"
    return f"{_cpu_name()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
