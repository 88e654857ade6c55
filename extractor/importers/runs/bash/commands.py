"""Harmless commands whose output is known without running them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from extractor.importers.runs.bash.arithmetic import NotKnown, evaluate
from extractor.importers.runs.bash.state import State
from extractor.importers.runs.unknowns import number_of, unknowns
from extractor.values import limits

# Scripts for several kinds of machines look for the module of each; a project knows none of these.
_PROBE = re.compile(r"\S*python3? -c import torch_(npu|mlu|musa)\b")
_FORMAT = re.compile(r"%(?:%|(?P<width>0?[0-9]{0,3})(?:\.(?P<digits>[0-9]{1,2}))?(?P<kind>[sdifq]))")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
_RANGES = re.compile(r"\[:(?P<class>upper|lower|digit|alpha):\]|(?P<low>[\w])-(?P<high>[\w])", re.ASCII)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CLASSES = {"upper": _LETTERS.upper(), "lower": _LETTERS, "digit": "0123456789", "alpha": _LETTERS.upper() + _LETTERS}
_SUBSTITUTE = re.compile(
    r"s(?P<mark>[/|#,])(?P<old>[\w\s.:@=+-]|\\[/.]|[\w\s:@=+-]+)(?P=mark)(?P<new>[\w\s.:@=+-]*)(?P=mark)(?P<all>g?)"
)


def printed(words: list[str], state: State, environment: Mapping[str, str] | None = None) -> str | None:
    """Return what a harmless command prints, with its last end of line, where that can be said without running it.

    Args:
        words: Its name and arguments.
        state: Of the script.
        environment: What the command sees; None: what one would see now.
    """
    if not words or any(unknowns(word) for word in words):
        return None
    if words[0] in ("true", "false", ":") or is_probe(words):
        return ""
    if words[0] == "printf":
        return formatted(words[1:])
    if words[0] == "echo":
        return _echoed(words[1:])
    found = _line(words, state, environment)
    return None if found is None else f"{found}\n"


def _echoed(arguments: list[str]) -> str:
    """Return what `echo` prints."""
    options = ""
    while arguments and re.fullmatch("-[neE]+", arguments[0]):
        options += arguments[0]
        arguments = arguments[1:]
    text = " ".join(arguments)
    text = re.sub(r"\\[nt\\]", lambda found: _ESCAPES[found[0]], text) if "e" in options else text
    return text if "n" in options else f"{text}\n"


def _line(words: list[str], state: State, environment: Mapping[str, str] | None) -> str | None:
    """Return what a command prints that ends its last line, without that end."""
    name, arguments = words[0], words[1:]
    if name == "pwd":
        return (environment or {}).get("PWD") or state.variable("PWD")
    if name == "dirname" and len(arguments) == 1:
        return posixpath.dirname(arguments[0]) or "."
    if name == "basename" and arguments:
        base = posixpath.basename(arguments[0])
        return base.removesuffix(arguments[1]) if len(arguments) > 1 else base
    if name in ("realpath", "readlink") and arguments:
        return arguments[-1]
    if name == "cat" and arguments:
        return _contents(arguments, state)
    known = _COMPUTED.get(name)
    return None if known is None else known(arguments)


def _contents(paths: list[str], state: State) -> str | None:
    """Return what is in files, without the last ends of line; None where that is not known of one of them."""
    found = ""
    for path in paths:
        text = state.content(path)
        if text is None:
            return None
        found += text
    return found.rstrip("\n")


def filtered(text: str, words: list[str]) -> str | None:
    """Return what a command in a pipeline makes of a text; None where that cannot be said.

    Args:
        text: What it reads, without the last end of line.
        words: Its name and arguments.
    """
    known = _FILTERS.get(words[0]) if words else None
    return None if known is None or unknowns(text) or any(map(unknowns, words)) else known(text, words[1:])


def is_probe(words: list[str]) -> bool:
    """Tell whether a command looks for an accelerator that a project does not run on."""
    return _PROBE.match(" ".join(words)) is not None


def formatted(arguments: list[str]) -> str | None:
    """Return what `printf` makes of its arguments; None where it does more than is known of it here."""
    if not arguments or arguments[0].startswith("-"):
        return None
    pattern, values = arguments[0], arguments[1:]
    count = sum(found[0] != "%%" for found in _FORMAT.finditer(pattern))
    if "%" in _FORMAT.sub("", pattern) or len(values) > limits.MAX_ROUNDS:
        return None
    pieces = []
    for start in range(0, len(values) or 1, count or max(len(values), 1)):
        rest = iter(values[start : start + count] if count else ())
        try:
            pieces.append(_filled(pattern, rest))
        except ValueError:
            return None
    return re.sub(r"\\[nt\\]", lambda found: _ESCAPES[found[0]], "".join(pieces))


def _filled(pattern: str, values: Iterator[str]) -> str:
    return _FORMAT.sub(lambda found: "%" if found[0] == "%%" else _converted(found, next(values, "")), pattern)


def _converted(found: re.Match[str], value: str) -> str:
    width, digits, kind = found["width"], found["digits"], found["kind"]
    if kind == "q":
        return _escaped(value)
    if kind == "s":
        return (value if digits is None else value[: int(digits)]).rjust(int(width or 0))
    return format(float(value or 0) if kind == "f" else _whole(value), _specification(width, digits, kind))


def _whole(value: str) -> int:
    """Return a number as `printf %d` takes it: "010" is eight."""
    if not re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]*)", value):
        raise ValueError(value)
    return evaluate(value or "0", lambda name: None)


def _escaped(value: str) -> str:
    """Return a text as `printf %q` writes it, for a shell to read again."""
    if not value.isprintable():
        raise ValueError("what is no text is written otherwise")
    return re.sub(r"([^\w@%+=:./-])", r"\\\1", value) or "''"


def _specification(width: str, digits: str | None, kind: str) -> str:
    return f"{width}.{digits or 6}f" if kind == "f" else f"{width}d"


def _seq(arguments: list[str]) -> str | None:
    between, width = "\n", 0
    while arguments and arguments[0].startswith("-") and not arguments[0][1:2].isdigit():
        if arguments[0] == "-s" and len(arguments) > 1:
            between, arguments = arguments[1], arguments[2:]
        elif arguments[0].startswith("-s") and len(arguments[0]) > len("-s"):
            between, arguments = arguments[0].removeprefix("-s"), arguments[1:]
        elif arguments[0] == "-w":
            width, arguments = 1, arguments[1:]
        else:
            return None
    if not 1 <= len(arguments) <= 3 or not all(re.fullmatch(r"-?[0-9]{1,9}", item) for item in arguments):
        return None
    numbers = [int(item) for item in arguments]
    first, step, last = {1: (1, 1, numbers[-1]), 2: (numbers[0], 1, numbers[-1])}.get(
        len(numbers), (numbers[0], numbers[len(numbers) // 2], numbers[-1])
    )
    if step == 0:
        return None
    found = range(first, last + (1 if step > 0 else -1), step)
    if len(found) > limits.MAX_WORDS:
        return None
    width *= max((len(str(number)) for number in (first, last)), default=0)
    return between.join(f"{number:0{width}d}" if width else str(number) for number in found)


def _expr(arguments: list[str]) -> str | None:
    try:
        return str(evaluate(re.sub(r"\b0+(?=[0-9])", "", " ".join(arguments)), lambda name: None))
    except NotKnown:
        return None


def _tr(text: str, arguments: list[str]) -> str | None:
    if len(arguments) != 2:
        return None
    if arguments[0] == "-d":
        gone = _set(arguments[1])
        return "".join(letter for letter in text if letter not in gone)
    if arguments[0].startswith("-"):
        return None
    old, new = _set(arguments[0]), _set(arguments[1])
    return text.translate({ord(a): new[min(index, len(new) - 1)] for index, a in enumerate(old)}) if new else None


def _set(text: str) -> str:
    """Return the characters that `a-z`, `[:upper:]` or `/` name."""
    text = re.sub(r"\\[nt\\]", lambda found: _ESCAPES[found[0]], text)

    def spread(found: re.Match[str]) -> str:
        if found["class"]:
            return _CLASSES[found["class"]]
        return "".join(map(chr, range(ord(found["low"]), ord(found["high"]) + 1)))

    return _RANGES.sub(spread, text)


def _wc(text: str, arguments: list[str]) -> str | None:
    counts = {"-l": text.count("\n") + 1 if text else 1, "-w": len(text.split()), "-c": len(text.encode()) + 1}
    return str(counts[arguments[0]]) if len(arguments) == 1 and arguments[0] in counts else None


def _sed(text: str, arguments: list[str]) -> str | None:
    found = _SUBSTITUTE.fullmatch(arguments[0]) if len(arguments) == 1 else None
    if found is None or found["old"] == "." or "\n" in text:
        return None
    return text.replace(found["old"].removeprefix("\\"), found["new"], -1 if found["all"] else 1)


def _cut(text: str, arguments: list[str]) -> str | None:
    found = re.fullmatch(r"-d ?(.) -f ?([0-9]{1,3})", " ".join(arguments))
    number = None if found is None else number_of(found[2])
    if found is None or not number or "\n" in text:
        return None
    parts = text.split(found[1])
    return text if len(parts) == 1 else parts[number - 1] if number <= len(parts) else ""


_COMPUTED: Mapping[str, Callable[[list[str]], str | None]] = {"expr": _expr, "seq": _seq}
_FILTERS: Mapping[str, Callable[[str, list[str]], str | None]] = {
    "cat": lambda text, arguments: None if arguments else text,
    "cut": _cut,
    "sed": _sed,
    "tr": _tr,
    "wc": _wc,
    "xargs": lambda text, arguments: None if arguments else " ".join(text.split()),
}
