"""Read the files in which a run records what it did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

METRICS = "metrics.jsonl"
GENERATIONS = "generations.jsonl"
CONFIG = "config.yaml"
ENVIRONMENT = "environment.json"


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSON lines file, without a half-written last line."""
    if not path.exists():
        return []
    rows = []
    # Lines end with \n and nothing else: str.splitlines would also break at the odd characters that models write.
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def read_starts(path: Path) -> list[dict[str, Any]]:
    """Return the starts in environment.json, oldest first; none if it is missing or damaged."""
    try:
        starts = json.loads(path.read_text(encoding="utf-8"))["starts"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [start for start in starts if isinstance(start, dict)] if isinstance(starts, list) else []
