"""The most memory in each phase of a run, of the generated project in the current directory (Linux).

`python ours_phases.py OUT key=value ...` writes OUT-RANK.json: bytes by phase, and `before` anything is loaded.
"""

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def resident(name: str) -> int:
    """Return a size of this process in bytes: VmRSS is that of now, VmHWM the largest."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(f"{name}:"))


def main(out: str, arguments: list[str]) -> int:
    """Train with these arguments, and note the peaks of all steps but the first, which makes the optimizer's state."""
    sys.path.insert(0, str(Path.cwd()))
    trainer: Any = importlib.import_module("bench.training.trainer")
    importlib.import_module("bench.training.trainer")
    importlib.import_module("bench.memory.measured").program_size("lora_rank" in " ".join(arguments))
    found = {"before": resident("VmRSS")}
    timed = trainer.timed
    begun: list[str] = []

    @contextlib.contextmanager
    def noted(name: str, timing: Any) -> Iterator[None]:
        begun.append(name)
        if name != "step":
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is from now on
        with timed(name, timing):
            yield
        if name != "step" and begun.count("step") > 1:
            found[name] = max(found.get(name, 0), resident("VmHWM"))

    trainer.timed = noted
    code: int = importlib.import_module("main").main(arguments)
    rank = os.environ.get("RANK", "0")
    Path(f"{out}-{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
