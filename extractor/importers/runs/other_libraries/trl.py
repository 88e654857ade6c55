"""Runs of TRL's GRPOTrainer and RLOOTrainer, by command line, YAML or a Python script: settings under verl's names."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from extractor.importers.runs.files import Places
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.other_libraries import trl_command, trl_script
from extractor.importers.runs.other_libraries.translation import Translated, config_file
from extractor.importers.runs.other_libraries.trl_losses import GRPO, algorithm_of
from extractor.importers.runs.other_libraries.trl_registry import registered
from extractor.importers.runs.other_libraries.trl_script import Program, named
from extractor.importers.runs.other_libraries.trl_settings import KNOWN, translated
from extractor.importers.runs.python.values import Computed
from extractor.values import readers
from extractor.values.configtree.compose import read_mapping
from extractor.values.errors import UsageError

_OWN = ("num_generations", "max_completion_length", "reward_funcs", "rloo_k")


def is_config(body: Any) -> bool:
    """Tell whether a config is one of TRL's trainers."""
    return isinstance(body, Mapping) and any(name in body for name in _OWN)


def is_launch(words: Sequence[str], places: Places) -> bool:
    """Tell whether a command starts one: `trl grpo ...`, a script that trains with it, or one with its arguments."""
    starts = any(one == "trl" and two in trl_command.ALGORITHMS for one, two in itertools.pairwise(words))
    flags = {f"--{name}" for name in _OWN} | {f"--{name.replace('_', '-')}" for name in _OWN}
    if starts or any(word.partition("=")[0] in flags for word in words):
        return True
    start = trl_command.started(words, places)
    return trl_script.of_file(start.file, dict(trl_command.arguments(start.arguments)), start.arguments) is not None


def launched(path: Path, words: Sequence[str], places: Places) -> Translated:
    """Translate a command's arguments, and the config that they name.

    Raises:
        UsageError: the config is not here, or cannot be read.
    """
    script, its_file, given, algorithm = trl_command.started(words, places)
    stated = dict(trl_command.arguments(given))
    processes = trl_command.processes_of(words, places)
    # A script may have an option of this name that TRL knows nothing of.
    named_file = None if "config" in trl_script.options_of(its_file) else stated.pop("config", None)
    file = config_file(path, named_file, places)
    try:
        body = {} if file is None else read_mapping(readers.read_text(file), last_counts=True)
        program = trl_script.of_file(its_file, {**body, **stated}, given)
        if program is None:
            unknown = {"reward_funcs": Computed(f"those of {script}")} if script else {}
            found = {**unknown, **body, **stated}
            return _of_program(found, None, processes, algorithm or algorithm_of(found, script))
        own = (program.options - KNOWN) | program.assigned  # the script makes of these what it hands over
        said = {key: value for key, value in {**body, **stated}.items() if key not in own}
        return _of_program({**program.settings, **said}, program, processes)
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{file}: cannot be read: {error}", hint="correct it") from None


def of_config(config: Mapping[str, Any], path: Path) -> Translated:
    """Translate a config that is here without its command."""
    return _of_program(config, None, None, algorithm_of(config, path.stem))


def of_python(text: str, path: Path) -> Translated | None:
    """Translate the config and the trainer of TRL's in a Python script; None where it has none.

    Raises:
        UsageError: its command line says what the config is.
    """
    found = trl_script.read(text, path, {})
    if found is not None and found.made_by:
        raise UsageError(
            f"{path}: its config is made by {found.made_by}, which is known to whoever runs it",
            hint="write the settings as YAML, under TRL's names, and pass that",
        )
    if found is not None and found.made_by == "":
        there = trl_command.where_started(path)
        raise UsageError(
            f"{path}: its command line says what its config is",
            hint=f"pass a bash script with the command that starts it: accelerate launch {path.name} --..."
            + (f" (here: {', '.join(there)})" if there else ""),
        )
    return None if found is None else _of_program(found.settings, found)


def _of_program(
    stated: Mapping[str, Any], program: Program | None, processes: int | None = None, algorithm: str = GRPO
) -> Translated:
    """Return settings as overrides, with what scores: functions of the script, or those that the settings name."""
    weights, names = stated.get("reward_weights"), stated.get("reward_funcs")
    if program is not None and (names is None or isinstance(names, Computed)):
        names = [*program.names]
    whole = program is not None and bool(program.rewards)
    own = None if program is None or (whole and not program.is_open) else registered(program, names, weights)
    scored_by = own or (program.scored_by(weights) if program is not None and whole else named(names, weights))
    found = translated(stated, scored_by, processes, algorithm if program is None else program.algorithm)
    if program is not None and program.files:
        why = "read for the script: its settings have verl's names here"
        files = (Remark("config", file, "renamed", why) for file in program.files)
        found = found._replace(remarks=(*found.remarks, *files))
    if program is None or program.trainer is None:
        return found
    why = "a trainer of its own: what it does otherwise than TRL's"
    return found._replace(
        remarks=(
            *found.remarks,
            Remark(
                "GRPOTrainer" if program.algorithm == GRPO else "RLOOTrainer", program.trainer, "not carried over", why
            ),
        )
    )
