"""The table of algorithms is what the manifests and presets say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_table_of_today() -> None:
    done = subprocess.run(
        [sys.executable, "scripts/algorithms.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
