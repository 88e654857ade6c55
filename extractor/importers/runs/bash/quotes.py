"""Find where quoted texts, expansions and characters of bash end."""

import re
from collections.abc import Iterator

_NAME = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])")
# Between double quotes, single quotes in a default are characters.
_DEFAULT = re.compile(r"\$\{[!#]?[\w@*]+(?:\[[^\]]*\])?:?[-+=?]")
_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*[\\'\"]?([A-Za-z_]\w*)")
_PLAIN = re.compile(r"[\w./=:,+@%^~ \t-]+")


class NotBash(Exception):
    """Raised at the place where a text is not bash."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


def split_pieces(text: str, quoted: bool = False) -> Iterator[str]:
    """Yield quoted texts, expansions and characters one after another.

    Raises:
        NotBash: one of them does not end.
    """
    at = 0
    while at < len(text):
        plain = _PLAIN.match(text, at)
        end = find_end(text, at, quoted) if plain is None else plain.end()
        yield text[at:end]
        at = end


def find_end(text: str, at: int, quoted: bool = False) -> int:
    """Return where the quoted text, expansion or character at `at` ends.

    Raises:
        NotBash: it does not end.
    """
    mark = text[at]
    if mark == "\\":
        return min(at + 2, len(text))
    if mark == "$":
        return _end_expansion(text, at, quoted)
    if mark == "`":
        raise NotBash(at, "a backtick is not read: write $( ... )")
    if mark == "'" and not quoted:
        end = text.find("'", at + 1)
        return _find_closing(text, at, end if end >= 0 else len(text))
    if mark == '"' and not quoted:
        end = at + 1
        while end < len(text) and text[end] != '"':
            end = find_end(text, end, True)
        return _find_closing(text, at, end)
    return at + 1


def find_bracket(text: str, at: int) -> int:
    """Return where the bracket that opens before `at` closes.

    Raises:
        NotBash: it does not end.
    """
    start, level = at - 1, 1
    while at < len(text):
        if text[at] == "#" and text[at - 1] in " \t\n":
            at = text.find("\n", at) if "\n" in text[at:] else len(text)
            continue
        document = _DOCUMENT.match(text, at)
        if document is not None:
            end = re.compile(rf"^\t*{document[1]}$", re.MULTILINE).search(text, document.end())
            at = len(text) if end is None else end.end()
            continue
        level += {"(": 1, ")": -1}.get(text[at], 0)
        if not level:
            return at + 1
        at = find_end(text, at)
    raise NotBash(start, "this bracket is not closed")


def _end_expansion(text: str, at: int, quoted: bool) -> int:
    following = text[at + 1 : at + 2]
    if following in ("'", '"') and not quoted:
        raise NotBash(at, f"`${following}` is not read")
    if following == "(":
        return find_bracket(text, at + 2)
    if following != "{":
        name = _NAME.match(text, at)
        return at + 1 if name is None else name.end()
    in_default = quoted and _DEFAULT.match(text, at) is not None
    end = at + 2
    while end < len(text) and text[end] != "}":
        end = find_end(text, end, in_default and text[end] != '"')
    return _find_closing(text, at, end)


def _find_closing(text: str, start: int, end: int) -> int:
    if end >= len(text):
        raise NotBash(start, f"what {text[start : start + 2].strip()} begins here is not closed")
    return end + 1
