"""How what is measured is started, and its environment."""

import os
import subprocess
import sys
from pathlib import Path


def on_one_thread(**further: str) -> dict[str, str]:
    """Return this process's environment with what makes runs comparable: one thread, no GPU, no network."""
    settings = {
        "CUDA_VISIBLE_DEVICES": "",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    return {**os.environ, **settings, **further}


def python_in(project: Path, *arguments: str) -> str:
    """Run Python in a project, on one thread; returns what it printed.

    Raises:
        RuntimeError: it failed; with the end of what it said.
    """
    done = subprocess.run(
        [sys.executable, *arguments], cwd=project, env=on_one_thread(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{arguments[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout
