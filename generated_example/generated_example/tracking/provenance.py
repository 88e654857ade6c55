# vextract:template base/__package__/tracking/provenance.py - edit freely
"""Where a run comes from: command, commit, versions and device; without the passwords and keys of its settings."""

import contextlib
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

from ..absent import SHIPPED

PROJECT: dict[str, str] = SHIPPED["project"]
SECRET = re.compile(
    r"^token$|(^|[_-])(secret|password|passwd|credentials?|(api|access|private|secret)_?key"
    r"|(auth|access|api|bearer|hf|hub|refresh|session)_?token)$",
    re.IGNORECASE,
)
USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")
PACKAGES = ("torch", "transformers", "tensordict", "numpy", "peft", "bitsandbytes", "flash-attn", "vllm", "sglang")


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


def without_secrets(value: Any, name: str = "") -> Any:
    """Hide the values of settings that are passwords, keys or tokens by their names, and users in URLs."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_secrets(item, name) for item in value]
    if isinstance(value, str) and value:
        return "***" if SECRET.search(name) else USER_IN_URL.sub("***", value)
    return value


def argument_without_secret(argument: str) -> str:
    """Return a command-line argument `key=value` with its value hidden if it is a secret."""
    key, sign, value = argument.partition("=")
    return f"{key}={without_secrets(value, key.rpartition('.')[2])}" if sign else without_secrets(argument)
