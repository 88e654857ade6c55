# vextract:template - edit freely
"""Several runs, one after the other: every combination of the values that a command line lists, as Hydra's --multirun.

    python main.py --multirun actor_rollout_ref.actor.optim.lr=1e-6,1e-5 preset=grpo,rloo

Each run is a process of its own.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..output import say
from ..settings.flags import ConfigFiles
from ..settings.loading import unreadable

LONGEST_NAME = 120
INTERRUPTED = 130


def run_many(program: Path, asked: argparse.Namespace, load: Callable[[ConfigFiles, Sequence[str]], Any]) -> int:
    """Do the runs that a command line with --multirun asks for; a mistake in any is found before the first.

    Args:
        program: main.py.
        asked: the command line, see `parse`.
        load: returns the checked config of some overrides.

    Returns:
        The exit code.
    """
    runs = combinations(asked.overrides)
    config = [load(asked.files, overrides) for overrides in runs][0]
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("--multirun starts its runs itself", "start it with python main.py, without torchrun")
    flags = [f"--config-name={asked.config_name}", *([f"--config={asked.config}"] if asked.config else ())]
    return sweep(program, flags, runs, Path(config.trainer.default_local_dir) / "sweep")


def combinations(overrides: Sequence[str]) -> list[list[str]]:
    """Return the overrides of each run: `a=1,2 b=3` is two runs. `range(1,4)` works as well.

    Raises:
        ConfigError: an override is malformed, or has no end of values.
    """
    choices = []
    for text in overrides:
        override = parsed(text)
        if override.is_interval_sweep():
            raise ConfigError(f"{text} has no end of values", f"list some: {override.get_key_element()}=1e-6,1e-5")
        values = override.sweep_string_iterator() if override.is_sweep_override() else None
        choices.append([text] if values is None else [f"{override.get_key_element()}={value}" for value in values])
    return [list(chosen) for chosen in product(*choices)]


def parsed(override: str) -> Any:
    """Return an override as Hydra reads it.

    Raises:
        ConfigError: it is malformed.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import OverrideParseException

    try:
        return OverridesParser.create().parse_overrides([override])[0]
    except OverrideParseException as error:
        raise unreadable(error) from error


def sweep(program: Path, flags: Sequence[str], runs: Sequence[Sequence[str]], base: Path) -> int:
    """Do the runs, each in a process and a directory of its own.

    A run that was done, or begun, when a sweep was interrupted goes on from there when the same sweep is started again.

    Args:
        program: main.py.
        flags: those of every run.
        runs: the overrides of each.
        base: where the directories are made.

    Returns:
        The exit code: 0 all are done, 130 interrupted, or the highest of the runs'.
    """
    codes: dict[Path, int] = {}
    same = set.intersection(*map(set, runs))
    for number, overrides in enumerate(runs, start=1):
        own = [item for item in overrides if item not in same]
        directory = _directory_of(base, number, own)
        say(f"run {number} of {len(runs)}: {shlex.join(own)}  ({directory})")
        to_directory = f"trainer.default_local_dir={_quoted(directory)}"
        codes[directory] = _done([sys.executable, str(program), *flags, *overrides, to_directory])
        if codes[directory] == INTERRUPTED:
            return INTERRUPTED
    for directory, code in codes.items():
        if code:
            print(f"failed with exit code {code}: {directory}", file=sys.stderr)
    if done := [str(directory) for directory, code in codes.items() if not code]:
        say(f"compare them: vextract report {shlex.join(done)}")
    return max(codes.values())


def _done(command: Sequence[str]) -> int:
    process = subprocess.Popen(command)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:  # the run has it too, and saves what it has
            continue


def _directory_of(base: Path, number: int, own: Sequence[str]) -> Path:
    """Return a run's directory, which is named by its number, and the last part of each key with the value."""
    said = "_".join(item.partition("=")[0].rpartition(".")[2] + "=" + item.partition("=")[2] for item in own)
    return base / re.sub(r"[^\w.=+-]", "-", f"{number}_{said}" if said else str(number))[:LONGEST_NAME]


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
