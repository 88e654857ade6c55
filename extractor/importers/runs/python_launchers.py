"""Programs in Python that start a run by a command: `subprocess.run([...])`, `os.system(...)`, `os.execvp(...)`.

They are followed as training scripts are, and never run. What only they know becomes a variable of the command, which
`--set` gives.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from extractor.importers.runs import pasted
from extractor.importers.runs.other_libraries import trl
from extractor.importers.runs.places import Places
from extractor.importers.runs.python.follower import Follower
from extractor.importers.runs.python.states import Event, State, plain_of
from extractor.importers.runs.python.values import Computed, Listed
from extractor.values import readers
from extractor.values.errors import UsageError

# What starts a command, by the last part of its name.
_STARTS = (
    *("run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "system", "popen"),
    *("execv", "execve", "execvp", "execvpe", "create_subprocess_exec", "create_subprocess_shell"),
    "submit_job",  # of Ray
)
_NAMED = ("args", "entrypoint")
_LONGEST_NAME = 60
# What a program has that starts a run itself, or by a module beside it.
_MAY_LAUNCH = re.compile("verl|trl|ppo|dapo|grpo|accelerate", re.IGNORECASE)


def started(words: Sequence[str], places: Places) -> str:
    """Return the command by which a program starts a run that a command starts itself; "" where it starts none."""
    start = trl.started(words, places)
    if start.file is None:
        return ""
    try:
        given = dict(trl.arguments(start.arguments))
        return script_of(readers.read_text(start.file), start.file, given, start.arguments)
    except (OSError, SyntaxError):
        return ""


def script_of(text: str, path: Path, given: Mapping[str, Any], words: Sequence[str] = ()) -> str:
    """Return the command that a program starts a run by, as bash writes it; "" where it starts none.

    Args:
        text: Of the program.
        path: Of the program.
        given: What its command line says.
        words: The same, as it is written.

    Raises:
        SyntaxError: it is no Python.
        UsageError: what the command has depends on what only the program knows.
    """
    if _MAY_LAUNCH.search(text) is None:
        return ""
    places = Places.of(path, None) if path.is_file() else None
    for everywhere in (False, True):
        run = Follower(readers.python(text), path, given, places, _STARTS, (_STARTS,), words, everywhere)
        run.follow()
        for event in run.events:
            for command, depends in _commands(event):
                if not pasted.launches(command) and not _trains_by_trl(command, places):
                    continue
                if depends:
                    raise UsageError(
                        f"{path}: which arguments its command has depends on what it is started with: {depends}",
                        hint="--set NAME=VALUE says an option of it",
                    )
                return command
    return ""


def _trains_by_trl(command: str, places: Places | None) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return places is not None and any(word.endswith(".py") for word in words) and trl.is_launch(words, places)


def _commands(event: Event) -> Iterator[tuple[str, str]]:
    """Yield what may be the command that a call starts, a text or its words, and what more words depend on."""
    state = event.state
    named = event.made.named.items
    for value in [*event.made.given[:2], *(named[name] for name in _NAMED if name in named)]:
        listed = state.of(value)
        if isinstance(listed, Listed):
            depends = "" if listed.is_whole else listed.depends or "..."
            yield " ".join(_word(item, state, quoted=True) for item in listed.items), depends
        else:
            yield _word(value, state, quoted=False), ""


def _word(value: Any, state: State, *, quoted: bool) -> str:
    """Return a value as a word of bash, or as the text of a command."""
    plain = plain_of(value, state)
    if not isinstance(plain, Computed):
        return shlex.quote(str(plain)) if quoted else str(plain)
    node = readers.expression(plain)
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(_part(part, plain, quoted=quoted) for part in parts)


def _part(node: ast.expr | None, text: str, *, quoted: bool) -> str:
    if isinstance(node, ast.Constant):
        return shlex.quote(str(node.value)) if quoted else str(node.value)
    said = ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node) if node is not None else text
    name = re.sub(r"\W+", "_", said).strip("_")[:_LONGEST_NAME]
    name = name if name and not name[0].isdigit() else f"_{name}"
    return f'"${{{name}}}"' if quoted else f"${{{name}}}"
