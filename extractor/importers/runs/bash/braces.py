"""Braces: `{a,b}`, `{1..8..2}` and `{a..c}`, which are words of their own before anything else is worked out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator

from extractor.importers.runs.bash.quoting import pieces
from extractor.values import limits

_RANGE = re.compile(
    r"(?:(?P<low>-?[0-9]{1,18})\.\.(?P<high>-?[0-9]{1,18})|(?P<first>[A-Za-z])\.\.(?P<last>[A-Za-z]))"
    r"(?:\.\.(?P<step>-?[0-9]{1,18}))?"
)


def alternatives(text: str, spend: Callable[[int], None]) -> Iterator[str]:
    """Yield the words that a word with braces stands for, as they would stand in the script.

    Args:
        text: As it stands there.
        spend: Counts the characters that are gone through.
    """
    waiting = [("", list(pieces(text)))]
    while waiting:
        before, rest = waiting.pop()
        spend(len(before) + len(rest))
        found = _first(rest, spend)
        if found is None:
            yield before + "".join(rest)
            continue
        start, end, choices = found
        before += "".join(rest[:start])
        for choice in reversed(choices):
            spend(len(rest))
            waiting.append((before, [*choice, *rest[end:]]))


def _first(rest: list[str], spend: Callable[[int], None]) -> tuple[int, int, list[list[str]]] | None:
    """Return where the first braces begin and end that stand for several words, and what for."""
    for start, piece in enumerate(rest):
        if piece != "{":
            continue
        depth, commas = 0, [start]
        for end in range(start, len(rest)):
            depth += {"{": 1, "}": -1}.get(rest[end], 0)
            if rest[end] == "," and depth == 1:
                commas.append(end)
            if not depth:
                break
        spend(end - start)
        if depth:
            continue
        if len(commas) > 1:
            bounds = [*commas, end]
            return start, end + 1, [rest[low + 1 : high] for low, high in itertools.pairwise(bounds)]
        span = _RANGE.fullmatch("".join(rest[start + 1 : end]))
        if span is not None:
            return start, end + 1, [[item] for item in _spread(span)]
    return None


def _spread(span: re.Match[str]) -> list[str]:
    letters = span["first"] is not None
    low, high = (ord(span["first"]), ord(span["last"])) if letters else (int(span["low"]), int(span["high"]))
    step = abs(int(span["step"] or 1)) or 1
    numbers = range(low, high + 1, step) if low <= high else range(low, high - 1, -step)
    numbers = numbers[: limits.MAX_WORDS + 1]
    if letters:
        return [chr(number) for number in numbers]
    padded = any(re.match("-?0[0-9]", span[side]) for side in ("low", "high"))
    width = max(len(span["low"]), len(span["high"])) if padded else 0
    return [f"{number:0{width}d}" for number in numbers]
