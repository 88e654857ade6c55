"""The first lines of a vendored file: where it comes from, and what was changed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import takewhile

WIDTH = 120
_CHANGED, _GOES_ON = "# changed: ", "#   "
_DROPPED = "dropped {} method{} whose names nothing uses: "
_LISTED = re.compile(r"dropped \d+ methods? whose names nothing uses: (.+)")


def methods_dropped(names: Sequence[str]) -> list[str]:
    """Say which methods of a file's classes are left out, all of them: `dropped_methods` reads it again.

    Args:
        names: "Class.method", in order.
    """
    if not names:
        return []
    classes: dict[str, list[str]] = {}
    for name in names:
        holder, _, method = name.partition(".")
        classes.setdefault(holder, []).append(method)
    listed = "; ".join(f"{holder}: {', '.join(methods)}" for holder, methods in classes.items())
    return [f"{_DROPPED.format(len(names), 's' if len(names) > 1 else '')}{listed}"]


def dropped_methods(text: str) -> tuple[str, ...]:
    """Read the methods that are left out of a vendored file in its header: "Class.method", in order."""
    found = next(filter(None, map(_LISTED.fullmatch, changes_in(text))), None)
    if found is None:
        return ()
    classes = (part.partition(": ") for part in found[1].split("; "))
    return tuple(f"{holder}.{method}" for holder, _, methods in classes for method in methods.split(", "))


def with_header(
    text: str, newline: str, *, release: str, upstream_path: str, upstream_sha256: str, changes: Sequence[str]
) -> str:
    """Put the provenance above upstream's text.

    A shebang goes: on any line but the first it means nothing. An encoding line may stay, the text is UTF-8.
    """
    if text.startswith("#!"):
        text = text.partition(newline)[2]
    text = text.removeprefix("\ufeff")
    lines = [f"# vextract:vendored from verl {release}: {upstream_path}", f"# upstream sha256: {upstream_sha256}"]
    for change in changes:
        lines += textwrap.wrap(
            f"{_CHANGED}{change}", WIDTH, subsequent_indent=_GOES_ON, break_long_words=False, break_on_hyphens=False
        )
    return newline.join([*lines, text])


def with_header_of(other: bytes, data: bytes) -> bytes:
    """Return a vendored file with the provenance that another version of it has: these lines are nobody's edit.

    Anything else, and a file whose provenance is gone, is returned as it is.
    """
    lines, others = data.splitlines(keepends=True), other.splitlines(keepends=True)
    length, wanted = _header_length(lines), others[: _header_length(others)]
    if not length or not wanted or [line.rstrip() for line in lines[:length]] == [line.rstrip() for line in wanted]:
        return data
    end = lines[0][len(lines[0].rstrip(b"\r\n")) :]
    return b"".join([*(line.rstrip(b"\r\n") + end for line in wanted), *lines[length:]])


def _header_length(lines: Sequence[bytes]) -> int:
    """Return how many lines say where a vendored file comes from; 0: it does not say so."""
    starts = (b"# vextract:vendored from verl ", b"# upstream sha256: ")
    if len(lines) < len(starts) or not all(line.startswith(start) for line, start in zip(lines, starts, strict=False)):
        return 0
    told = (_CHANGED.encode(), _GOES_ON.encode())
    return len(starts) + sum(1 for _ in takewhile(lambda line: line.startswith(told), lines[len(starts) :]))


def changes_in(text: str) -> tuple[str, ...]:
    """Read what `with_header` has written: the changes that a vendored file names."""
    found: list[str] = []
    for line in text.splitlines()[2:]:
        if line.startswith(_CHANGED):
            found.append(line.removeprefix(_CHANGED))
        elif found and line.startswith(_GOES_ON):
            found[-1] += f" {line.removeprefix(_GOES_ON)}"
        else:
            break
    return tuple(found)
