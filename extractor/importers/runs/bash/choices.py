"""What a script compares a variable with, for who has to say what it is."""

from __future__ import annotations

import re

_WORD = r"[\w.+-]+"


def choices(text: str, name: str) -> list[str]:
    """Return the words that a script compares a variable with, in tests and in the patterns of `case`."""
    variable = rf"\$(?:{name}\b|\{{{name}(?:[:,^]+[^}}]*)?\}})\"?"
    tests = re.findall(rf"{variable}\s*(?:==?|!=)\s*[\"']?({_WORD})", text)
    cases = re.findall(rf"\bcase\s+\"?{variable}\s+in\b(.*?)\besac\b", text, re.DOTALL)
    patterns = re.findall(
        rf"^\s*\(?[\"']?({_WORD}(?:[\"']?\s*\|\s*[\"']?{_WORD})*)[\"']?\)", "\n".join(cases), re.MULTILINE
    )
    words = [word for pattern in patterns for word in re.findall(_WORD, pattern)]
    return list(dict.fromkeys([*tests, *words]))
