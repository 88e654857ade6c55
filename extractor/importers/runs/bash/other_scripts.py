"""Say what commands do: read sourced scripts, note others, and say what is printed."""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence

from extractor.importers.runs.bash.quotes import NotBash
from extractor.importers.runs.bash.state import MAX_CALLS, ShellState, Stop, refuse_length, refuse_line
from extractor.importers.runs.bash.syntax import ShellStatement, parse
from extractor.importers.runs.placeholders import find_unknowns, make_readable
from extractor.values import limits, readers

_SHELL = re.compile(r"(?:.*/)?(?:ba|z)?sh|sbatch|qsub|bsub|ssh")
_SCRIPT = re.compile(r"[^=]*\.(?:sh|bash)")
Run = Callable[[Sequence[ShellStatement]], bool | None]
_PRINTS = ("echo", "printf", "cat", "ls", "chmod", "cp", "mv", "rm", "grep", "sed")


def source(words: Sequence[str], line: int, state: ShellState, run: Run) -> bool | None:
    """Read a sourced script; its assignments stay.

    Raises:
        UsageError: it is no bash, or more than is read.
    """
    file = state.found(words[1]) if len(words) > 1 else None
    try:
        text = readers.read_commented(file) if file is not None and file.is_file() else None
    except OSError:
        text = None
    if file is None or text is None:
        state.note(line, f"{make_readable(words[-1])} is not read: set what it sets with --set VAR=VALUE")
        return None
    kept = state.arguments
    state.arguments = list(words[2:]) or kept
    try:
        return _read(text, str(file), line, state, run)
    finally:
        state.arguments = kept


def note_script(words: Sequence[str], line: int, state: ShellState) -> None:
    """Note a shell script that a command starts."""
    shell = next(filter(_SHELL.fullmatch, words), None)
    script = next(filter(_SCRIPT.fullmatch, words), None)
    if words[0] not in _PRINTS and (script or shell):
        what = make_readable(script) if script else f"what `{shell}` runs"
        state.note(line, f"{what} is not read: pass it instead if it launches the run")


def _read(text: str, file: str, line: int, state: ShellState, run: Run) -> bool | None:
    """Run a text's statements as if they stood on `line`."""
    if len(text) > limits.MAX_SCRIPT or state.depth >= MAX_CALLS:
        raise refuse_length(
            file, f"it is larger than {readers.write_size(limits.MAX_SCRIPT)}, or scripts start each other"
        )
    state.spend(len(text))
    try:
        statements = parse(text)
        with state.inside(file, line):
            return run(statements)
    except NotBash as error:
        first = line if file == state.file else 1
        raise refuse_line(file, first + text.count("\n", 0, error.at), error.why) from None
    except Stop:  # `return`, or its `exit`
        return None


def find_output(words: Sequence[str], folder: str) -> str | None:
    """Return a command's output with its final newline; None if unknown.

    Args:
        words: Its name and arguments.
        folder: Where it runs.
    """
    if not words or any(map(find_unknowns, words)):
        return None
    name, arguments = words[0], list(words[1:])
    if name in ("true", "false", ":"):
        return ""
    known = _PRINT.get(name)
    is_plain = known is not None and "".join(arguments[:1])[:1] != "-" and (arguments or name == "echo")
    found = folder if name == "pwd" else known(arguments) if known is not None and is_plain else None
    return None if found is None else f"{found}\n"


_PRINT: Mapping[str, Callable[[list[str]], str | None]] = {
    "echo": lambda words: " ".join(words),
    "basename": lambda words: posixpath.basename(words[0].rstrip("/")).removesuffix("".join(words[1:2])),
    "dirname": lambda words: (posixpath.dirname(words[0]) or ".") if len(words) == 1 else None,
}
