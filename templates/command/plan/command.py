"""`vextract plan`."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ProjectError
from ..output import say
from ..settings.flags import parse
from ..settings.loading import load_config

if TYPE_CHECKING:
    from .plan import MemoryPlan


def main(project: Path, arguments: Sequence[str]) -> int:
    """Print the plan of a run.

    Args:
        project: the project's directory.
        arguments: `--processes N --memory GIB --json`, then what main.py would be given.

    Returns:
        The exit code: 0 it fits, 1 it does not, 2 the config is at fault.
    """
    from .plan import plan_memory

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--memory", type=float)
    parser.add_argument("--json", action="store_true")
    asked, others = parser.parse_known_args(arguments)
    try:
        line = parse(others, project / "config")
        config = load_config(line.files, line.overrides)
        found = plan_memory(config, processes=asked.processes, memory_gb=asked.memory)
    except ProjectError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    say(json.dumps(_as_json(found), indent=2) if asked.json else str(found))
    return 0 if found.fits else 1


def _as_json(plan: "MemoryPlan") -> dict[str, Any]:
    """Return a plan's numbers, in bytes."""
    return {
        "fits": plan.fits,
        "device": plan.device,
        "processes": plan.processes,
        "capacity": plan.capacity,
        "peak": plan.peak,
        "phases": list(plan.phases),
        "total": {phase: plan.total(phase) for phase in plan.phases},
        "lines": plan.lines,
        "resting": plan.resting,
        "notes": plan.notes,
        "changes": plan.changes,
    }
