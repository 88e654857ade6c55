# vextract:template base/__package__/tracking/provenance.py.jinja - edit freely
"""Where a run comes from: command, commit, versions and device; without the passwords and keys of its settings."""

import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROJECT = {
    "verl": "0.9.1",
    "vextract": "0.1.0",
    "engine": "hf",
    "recipe": "toy",
}
SECRET = re.compile(
    r"^token$|(^|[_-])(secret|password|passwd|credentials?|(api|access|private|secret)_?key"
    r"|(auth|access|api|bearer|hf|hub|refresh|session)_?token)$",
    re.IGNORECASE,
)
USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")
HIDDEN = "***"
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
    return f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads"


def without_secrets(value: Any, name: str = "") -> Any:
    """Hide the values of settings that are passwords, keys or tokens by their names, and users in URLs."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(item, name) for item in value]
    if isinstance(value, str) and value:
        return HIDDEN if SECRET.search(name) else USER_IN_URL.sub(HIDDEN, value)
    return value


def argument_without_secret(argument: str) -> str:
    """Return a command-line argument `key=value` with its value hidden if it is a secret."""
    key, sign, value = argument.partition("=")
    if not sign:
        return USER_IN_URL.sub(HIDDEN, argument)
    return f"{key}={without_secrets(value, key.rpartition('.')[2])}"
