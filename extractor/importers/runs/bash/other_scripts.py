"""Read what a script has another shell read: files of its checkout, and texts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from extractor.importers.runs.bash.quotes import NotBash
from extractor.importers.runs.bash.state import MAX_CALLS, ShellState, Stop, too_much, unread
from extractor.importers.runs.bash.syntax import ShellStatement, parse
from extractor.importers.runs.placeholders import readable, unknowns
from extractor.values import limits, readers

_SHELL = re.compile(r"(?:.*/)?(?:ba|z)?sh")
_SCRIPT = re.compile(r".*\.(?:sh|bash)")
_PRINTS = ("echo", "printf", "cat", "ls", "chmod", "cp", "mv", "rm", "grep", "sed")
_STARTERS = ("exec", "nohup", "time", "timeout", "env", "command", "sudo", "stdbuf", "setsid", "srun", "sbatch", "qsub")
# They run a script that they read, on another machine or later.
_READERS = ("sbatch", "qsub", "bsub", "ssh")
Run = Callable[[Sequence[ShellStatement]], bool | None]


def source(words: Sequence[str], line: int, state: ShellState, run: Run) -> bool | None:
    """Read `source FILE ARGUMENT...`: what it sets counts from here on."""
    found = _find(words[1], state) if len(words) > 1 else None
    if found is None:
        state.note(line, f"{readable(words[-1])} is not read: set what it sets with --set VAR=VALUE, or --set @FILE")
        return None
    kept = state.arguments
    state.arguments = list(words[2:]) or kept
    try:
        return read(found[1], found[0], line, state, run)
    finally:
        state.arguments = kept


def start(words: Sequence[str], line: int, environment: Mapping[str, str], state: ShellState, run: Run) -> bool:
    """Read a script that a command starts, `bash FILE`, `bash -c TEXT`; False: it starts none."""
    place = _find_text(words)
    if place is not None:
        if unknowns(words[place]) == (words[place][1:-1],):
            return False
        start_text(words[place], line, environment, words[place + 2 :], state, run)
        return True
    place = _find_script(words)
    found = None if place is None else _find(words[place], state)
    if place is None or found is None:
        if place is not None:
            state.note(line, f"{readable(words[place])} is not read: pass it instead if it launches the run")
        return False
    with state.apart(environment):
        state.arguments, state.zero = list(words[place + 1 :]), found[0]
        read(found[1], found[0], line, state, run)
    return True


def start_text(
    text: str, line: int, environment: Mapping[str, str], arguments: Sequence[str], state: ShellState, run: Run
) -> None:
    """Read a text that a shell of its own runs: `bash -c TEXT`, `bash <<EOF`."""
    with state.apart(environment):
        state.arguments = list(arguments)
        read(text, state.file, line, state, run)


def read(text: str, file: str, line: int, state: ShellState, run: Run) -> bool | None:
    """Read a text at this place, whose commands are said to stand in a line.

    Raises:
        UsageError: it is no bash, or more than is read.
    """
    if len(text) > limits.MAX_SCRIPT or state.depth >= MAX_CALLS:
        raise too_much(file, f"it is larger than {readers.size(limits.MAX_SCRIPT)}, or scripts start each other")
    state.spend(len(text))
    statements = parse_text(text, line if file == state.file else 1, state, file)
    try:
        with state.inside(file, line):
            return run(statements)
    except Stop:  # `return`, or its `exit`
        return None


def parse_text(text: str, line: int, state: ShellState, file: str = "") -> tuple[ShellStatement, ...]:
    """Return the statements of a text that begins in a line of the script, or of a file.

    Raises:
        UsageError: it is no bash, or more than is read.
    """
    try:
        return parse(text)
    except NotBash as error:
        raise unread(file or state.file, line + text.count("\n", 0, error.at), error.why) from None


def reads_script(words: Sequence[str]) -> bool:
    """Tell whether a command runs the script that it reads: one that is given a script or a program reads data."""
    place = next((index for index, word in enumerate(words) if _SHELL.fullmatch(word)), None)
    if place is not None:
        return "-s" in words[place:] or all(word.startswith("-") for word in words[place + 1 :])
    return posixpath.basename(words[0]) in _READERS and not any(word.startswith("python") for word in words)


def _find(path: str, state: ShellState) -> tuple[str, str] | None:
    """Return the path and text of a script that the checkout has; None: it is not there."""
    file = state.found(path)
    if file is None or not file.is_file() or file.stat().st_size > limits.MAX_SCRIPT:
        return None
    try:
        return str(Path(file)), readers.read_commented(file)
    except OSError:
        return None


def _find_text(words: Sequence[str]) -> int | None:
    """Return the place of a text that a command has a shell read, `bash -c TEXT`."""
    for place in range(len(words) - 2 if words[0] not in _PRINTS else 0):
        if _SHELL.fullmatch(words[place]) and re.fullmatch(r"-[a-z]*c", words[place + 1]):
            return place + 2
    return None


def _find_script(words: Sequence[str]) -> int | None:
    """Return the place of the script among the words of a command; None: it starts none."""
    if words[0] in _PRINTS:
        return None
    starts = words[0] in _STARTERS
    for place, word in enumerate(words):
        if (starts or not place) and _SCRIPT.fullmatch(word):
            return place
        if _SHELL.fullmatch(word):
            behind = [at for at in range(place + 1, len(words)) if not words[at].startswith("-")]
            return behind[0] if behind else None
    return None
