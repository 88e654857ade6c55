# vextract:template - edit freely
"""Several runs, one after the other: every combination of the values that a command line lists, as Hydra's --multirun.

    python main.py --multirun actor_rollout_ref.actor.optim.lr=1e-6,1e-5 preset=grpo,rloo

Each run is a process of its own.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from ..errors import ConfigError
from ..output import say

LONGEST_NAME = 120


def combinations(overrides: Sequence[str]) -> list[list[str]]:
    """Return the overrides of each run: `a=1,2 b=3` is two runs. `range(1,4)` works as well.

    Raises:
        ConfigError: an override is malformed.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    choices = []
    for text in overrides:
        try:
            parsed = OverridesParser.create().parse_override(text)
            values = parsed.sweep_string_iterator() if parsed.is_sweep_override() else None
            choices.append([text] if values is None else [f"{parsed.get_key_element()}={value}" for value in values])
        except HydraException as error:
            raise ConfigError(" ".join(str(error).split()), "python main.py --help") from error
    return [list(chosen) for chosen in product(*choices)]


def sweep(program: Path, flags: Sequence[str], runs: Sequence[Sequence[str]], base: Path) -> int:
    """Do the runs, each in a process and a directory of its own, and write one report over all of them.

    A run that was done, or begun, when a sweep was interrupted goes on from there when the same sweep is started again.

    Args:
        program: main.py.
        flags: those of every run.
        runs: the overrides of each.
        base: where the directories are made.

    Returns:
        The exit code: 0 all are done, 130 interrupted, or the highest of the runs'.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("--multirun starts its runs itself", "start it with python main.py, without torchrun")
    codes: dict[Path, int] = {}
    same = set.intersection(*map(set, runs))
    for number, overrides in enumerate(runs, start=1):
        own = [item for item in overrides if item not in same]
        directory = base / _name(number, own)
        say(f"run {number} of {len(runs)}: {shlex.join(own)}  ({directory})")
        command = [sys.executable, str(program), *flags, *overrides, f"trainer.default_local_dir={_quoted(directory)}"]
        codes[directory] = _done(command)
        if codes[directory] == 130:
            return 130
    failed = [directory for directory, code in codes.items() if code]
    for directory in failed:
        print(f"failed with exit code {codes[directory]}: {directory}", file=sys.stderr)
    if len(failed) < len(codes):
        from ..report.__main__ import main as write_report

        done = [str(directory) for directory in codes if directory not in failed]
        write_report([*done, "--output", str(base / "report.html")])
    return max(codes.values())


def _done(command: Sequence[str]) -> int:
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the run has it too, and saves what it has
            continue


def _name(number: int, own: Sequence[str]) -> str:
    """Name a run's directory: its number, and the last part of each key with the value."""
    said = "_".join(item.partition("=")[0].rpartition(".")[2] + "=" + item.partition("=")[2] for item in own)
    return re.sub(r"[^\w.=+-]", "-", f"{number}_{said}" if said else str(number))[:LONGEST_NAME]


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
