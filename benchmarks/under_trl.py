"""What training scripts hand to TRL's trainer when Python runs them: settings, model, adapter and scorers.

A script runs in the jail of `under_bash` in the peers' environment (`make .venv-peers/.complete`), which has TRL: see
`peers/recorded.py` for what is a stand-in there. A command is run by bash first, to see what it starts.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import under_bash

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".venv-peers"
# Names of what a script's owner has set, and what a run by accelerate finds.
_SET = ("HF_TOKEN", "HUGGINGFACE_TOKEN", "WANDB_API_KEY", "WANDB_PROJECT", "OPENAI_API_KEY")
_IN_ONE_PROCESS = {"LOCAL_RANK": "0", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}


@dataclass(frozen=True)
class Handed:
    """Holds what a trainer is given.

    Attributes:
        trainer: TRL's class; "": none is reached.
        settings: Of its config: what the script states, or has otherwise than TRL.
        whole: Of its config, with TRL's defaults.
        model: Its name; None: it has none.
        scorers: Names of the functions.
        adapter: Of the model; None: it has none.
        why: The script came no further.
    """

    trainer: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    whole: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    scorers: Sequence[str] = ()
    adapter: Mapping[str, Any] | None = None
    why: str = ""


def handed(script: Path, arguments: Sequence[str], root: Path, started_in: Path, seconds: int = 120) -> Handed:
    """Run a script up to its trainer.

    Args:
        script: Below root.
        arguments: Of its command line.
        root: Its checkout, which is copied.
        started_in: The directory that it is started in, below root.
        seconds: How long it may take.
    """
    python = Path(os.path.realpath(PEERS / "bin" / "python"))
    with tempfile.TemporaryDirectory() as folder:
        new, record, stubs = (Path(folder, name) for name in ("root", "record", "stubs"))
        for place in (new, record, stubs):
            place.mkdir()
        (stubs / "recorded.py").write_text((ROOT / "benchmarks" / "peers" / "recorded.py").read_text("utf-8"), "utf-8")
        goes = 'cd "$1" && shift && exec "$@"'
        runs = [str(PEERS / "bin" / "python"), "/stubs/recorded.py", "/record/handed.json", str(script), *arguments]
        done = under_bash.inside(
            new,
            root,
            ["/bin/bash", "-c", goes, "_", str(started_in), *runs],
            {**dict.fromkeys(_SET, "none"), **_IN_ONE_PROCESS},
            seconds,
            record,
            stubs,
            seen=(PEERS, python.parents[1], Path("/proc")),
        )
        found = record / "handed.json"
        if found.is_file():
            return Handed(**json.loads(found.read_text("utf-8")))
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return Handed(why=" | ".join(said[-3:])[-800:] or f"it ended with {done.returncode} before any trainer")
