"""Read what a script launches: the first launch of a trainer among all that it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from extractor.importers.runs import of_export, overrides, own_config
from extractor.importers.runs.bash import Command, ScriptReading, read_script
from extractor.importers.runs.other_libraries import easyr1, trl
from extractor.importers.runs.other_libraries.translation import Translated
from extractor.importers.runs.placeholders import readable, unknowns
from extractor.importers.runs.run import Around, Run
from extractor.values import readers
from extractor.values.errors import UsageError

_Launches = list[tuple[Command, str, list[str]]]
_MAIN = re.compile(r"(?:^|[./])main_(?:ppo|dapo|grpo)(?:_\w+)?(?:\.py)?$")
_OF_THE_TRAINER = re.compile(r"(?:\+\+?)?(?:actor_rollout_ref\.actor\.|algorithm\.adv_estimator=)")
_OF_A_POLICY, _OF_TRAINING = re.compile(r"[+~]*actor_rollout_ref\."), re.compile(r"[+~]*trainer\.")
_USES_A_POLICY = re.compile(r"generat|eval|serve|infer", re.IGNORECASE)
_PYTHON = re.compile(r"(?:.*/)?(?:python[0-9.]*|torchrun)")
_PRINTS = ("echo", "printf", "grep", "cat", "pkill", "ps")
_SCRIPT = "pass the script that runs `python -m verl.trainer.main_ppo`"


def read_launch(path: Path, text: str, around: Around) -> Run:
    """Return the run that a bash script starts.

    Args:
        path: Of the script, or of the page or job that it stands in.
        text: Of the script.
        around: What it is read with.

    Raises:
        UsageError: it starts nothing that can be converted.
    """
    reading, launches = _read_where_started(path, text, around)
    if not launches:
        return _by_another_program(path, text, reading, around)
    command, module, arguments = launches[0]
    notes = [*reading.notes, *_of_several([item.line for item, _, _ in launches])]
    places = around.places.gone_to(command.environment.get("PWD", ""))
    if easyr1.is_launch(module, arguments):
        notes += [] if module == easyr1.MODULE else _is_another(module, command.line, "EasyR1's")
        found = translated(path, easyr1.launched(path, arguments, places))
        return replace(found, notes=tuple(notes), places=places)
    run, words = own_config.read(module, arguments, path, around.config_dirs, places)
    stated = [word for word in words if overrides.is_override(word)]
    notes += [] if "main_ppo" in module or run.is_prime else _is_another(module, command.line, "main_ppo")
    for word in words:
        if word not in stated and word != "&":
            why = "what it may add is not known" if unknowns(word) == (word[1:-1],) else "no override, left out"
            notes.append(f"{readable(word)}: {why}")
    return replace(
        run,
        overrides=overrides.read(stated, f"{path}:{command.line}"),
        notes=(*notes, *run.notes),
        hints=of_export.hints(path, text),
        kept=of_export.kept(path, text),
        environment=command.environment,
        places=places,
    )


def translated(path: Path, found: Translated) -> Run:
    """Return a run of another library, in verl's names."""
    scored, written = found.scored_by, found.written
    return Run(str(path), found.overrides, remarks=found.remarks, scored_by=scored, written=written)


def find_program(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the trainer that a command runs, as its module or file, and what it passes to it; None: it runs none."""
    if words and words[0] in _PRINTS:
        return None
    for index, word in enumerate(words):
        if (_MAIN.search(word) or word == easyr1.MODULE) and "=" not in word:
            return word, list(words[index + 1 :])
    own = _python_program(words)
    return own if own is not None and (_has_trainers_settings(*own) or easyr1.is_launch(*own)) else None


def _has_trainers_settings(name: str, words: Sequence[str]) -> bool:
    """Tell whether a program takes settings that only the RL trainer has, or of a policy that it trains."""
    trains = any(map(_OF_A_POLICY.match, words)) and any(map(_OF_TRAINING.match, words))
    return (trains and _USES_A_POLICY.search(name) is None) or any(map(_OF_THE_TRAINER.match, words))


def _python_program(words: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the module or file that a command has Python run, and what it passes to it."""
    for index, word in enumerate(words):
        if _PYTHON.fullmatch(word) is not None:
            rest = list(words[index + 1 :])
            while rest and rest[0].startswith("-") and rest[0] != "-m":
                rest.pop(0)
            rest = rest[1:] if rest[:1] == ["-m"] else rest
            return (rest[0], rest[1:]) if rest and "=" not in rest[0] else None
    # uv run --extra x -m module, "$PYTHON" -m module, "$PYTHON" program.py, ./program.py
    place = next((place for place, word in enumerate(words) if word == "-m" or word.endswith(".py")), len(words))
    rest = list(words[place:])
    rest = rest[1:] if rest[:1] == ["-m"] else rest
    return (rest[0], rest[1:]) if rest else None


def _read_where_started(path: Path, text: str, around: Around) -> tuple[ScriptReading, _Launches]:
    """Read a script as it would run where it is started: there most of what it names exists, and its program."""
    places = around.places
    best: tuple[int, ScriptReading, _Launches] | None = None
    guessed = not places.is_said and re.search("PWD|pwd", text) is not None
    for folder in places.folders if guessed else places.folders[:1]:
        environment = {"PWD": str(folder), **around.environment}
        reading = read_script(text, str(path), around.given, environment, (), places.within)
        launches = [
            (command, *found)
            for command in reading.commands
            if (found := find_program(command.words)) is not None and not trl.is_launch(command.words, places)
        ]
        words = {word.partition("=")[2] or word for command, _, _ in launches[:1] for word in command.words}
        count = sum(word.startswith(f"{folder}/") and readers.is_there(Path(word)) for word in words)
        count += any(readers.is_there(folder / own_config.program_file(module)) for _, module, _ in launches[:1])
        if best is None or count > best[0]:
            best = count, reading, launches
    assert best is not None
    return best[1:]


def _by_another_program(path: Path, text: str, reading: ScriptReading, around: Around) -> Run:
    """Read a script without settings for verl's trainer: a launch of TRL's, or nothing that can be converted."""
    ran = [(command, around.places.gone_to(command.environment.get("PWD", ""))) for command in reading.commands]
    of_trl = [(command, places) for command, places in ran if trl.is_launch(command.words, places)]
    if of_trl:
        command, places = of_trl[0]
        found = replace(translated(path, trl.launched(path, command.words, places)), places=places)
        return replace(found, notes=(*reading.notes, *_of_several([command.line for command, _ in of_trl])))
    what = "it starts no main_ppo, nor another program with settings of verl's RL trainer"
    hint = f"{_SCRIPT}; of another program that Hydra configures, what `--cfg job --resolve > run.yaml` writes"
    started = [note for note in reading.notes if "pass it instead" in note]
    if started:
        hint = started[0]
    elif not ran:
        hint = f"it only sets variables: {_SCRIPT}"
    elif re.search(r"verl\.trainer\.\w*sft_trainer", text):
        what = "it starts verl's supervised training, which has other settings"
        hint = "`vextract new myproj --recipe sft` makes a project for that; its config/sft.yaml has the settings"
    elif re.search(r"verl\.trainer\.main_(eval|generation)", text):
        what = "it starts another program of verl's, not its RL trainer"
    raise UsageError(f"{path}: {what}", hint=hint)


def _of_several(lines: Sequence[int]) -> list[str]:
    """Say which launch of a script is taken, where it has several."""
    several = f"{len(lines)} launches: the first, in line {lines[0]}, is the one that is taken" if lines else ""
    return [several] if len(lines) > 1 else []


def _is_another(module: str, line: int, usual: str) -> list[str]:
    return [f"line {line}: {module} is another trainer than {usual}: what only it does is not carried over"]
