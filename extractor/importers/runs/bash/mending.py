"""What bash reads and the parser does not, written otherwise: some comments, quotes and brackets.

And what bash reads otherwise than it is meant: `A=<your key>`, which nobody runs before it is filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from extractor.importers.runs.bash.quoting import end_of

# Between continued lines, the way to comment one of them.
_COMMENT = re.compile(r"`[ \t]*#[^`\n]*`")
# `"${MODEL//'/'/-}"`
_QUOTED = re.compile(r"(?P<start>\$\{!?\w+(?:\[[^\]]*\])?//?[#%]?[^'\"{}$/\s]*)'(?P<text>[^'\"\n$`\\]*)'")
# `${X:-$(((A + B) * 2))}`, outside of quotes.
_NUMBER = re.compile(r"(?<=[-=])(?P<number>\$\(\((?:[^()\"'{}]|\([^()\"'{}]*\))*\)\))(?=\}+\Z)")
# Bash would take these for two redirections, the second of them to whatever comes next.
_PLACEHOLDER = re.compile(r"""(?<==)<[^\W\d][^<>\n"'`$&|;()\\]*>|(?<=[\w/@:.-])<[^\W\d][\w -]*>""")
_OF_A_SETTING = re.compile(r"[\w.+@-]+=\S*\Z")
_DOCUMENT = re.compile(r"<<-?[ \t]*(?P<quote>['\"]?)\\?(?P<end>\w+)(?P=quote)")
_BEFORE_COMMENTS = " \t\n;|&()"


def rewritten(source: bytes) -> bytes:
    """Return a script that means the same to bash, in a way that the parser knows."""
    try:
        text = source.decode()
    except UnicodeDecodeError:
        return source
    if not any(odd.search(text) for odd in (_COMMENT, _QUOTED, _PLACEHOLDER)) and "-$((" not in text:
        return source
    return "".join(_rewritten(text)).encode()


def _rewritten(text: str) -> Iterator[str]:
    at = 0
    documents: list[str] = []
    while at < len(text):
        end = _end(text, at)
        piece = text[at:end]
        if piece == "\n" and documents:
            end = _behind_documents(text, end, documents)
            piece, documents = text[at:end], []
        document = _DOCUMENT.match(text, at) if piece == "<" and text[at : at + 3] != "<<<" else None
        if piece == "<" and text[at : at + 3] == "<<<":
            end, piece = at + 3, "<<<"
        elif document is not None:
            documents.append(document["end"])
            end, piece = document.end(), document[0]
        elif piece == "<" and (placeholder := _placeholder(text, at)):
            end, piece = at + len(placeholder), f"'{placeholder}'"
        elif piece[0] in '"$':
            piece = _QUOTED.sub(_escaped, piece)
            piece = _NUMBER.sub(r'"\g<number>"', piece) if piece[0] == "$" else piece
        at = end
        if _COMMENT.fullmatch(piece) is None:
            yield piece


def _placeholder(text: str, at: int) -> str:
    """Return what stands there for a part of a word that sets something: `A=<your key>`, `dir=/home/<you>/x`."""
    found = _PLACEHOLDER.match(text, at)
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return found[0] if found and _OF_A_SETTING.search(line) else ""


def _end(text: str, at: int) -> int:
    """Return where a piece of a script ends: commands in others are gone through as they are."""
    letter = text[at]
    if letter == "#" and (not at or text[at - 1] in _BEFORE_COMMENTS):
        end = text.find("\n", at)
        return end if end >= 0 else len(text)
    if letter == "`":
        comment = _COMMENT.match(text, at)
        return at + 1 if comment is None else comment.end()
    if letter == "$" and text[at + 1 : at + 2] == "(":
        return at + 2
    return end_of(text, at)


def _behind_documents(text: str, at: int, ends: list[str]) -> int:
    for word in ends:
        found = re.compile(rf"^\t*{re.escape(word)}$", re.MULTILINE).search(text, at)
        at = len(text) if found is None else found.end()
    return at


def _escaped(found: re.Match[str]) -> str:
    return found["start"] + re.sub(r"(\W)", r"\\\1", found["text"])
