"""Write a vendored file's header line: kind, origin, whether modified.

What changes from release to release by itself (the release, the digest, the list of changes) stands in vextract.lock.
"""

from collections.abc import Sequence
from itertools import takewhile

_KIND = "# vextract:vendored "
_MODIFIED = ", modified (see NOTICE and vextract.lock)"
_BOM = b"\xef\xbb\xbf"
# Headers of before schema 2 of the lock went on: "... from verl 0.9.1: PATH", the digest, the changes.
_DIGEST, _CHANGED, _GOES_ON = b"# upstream sha256: ", b"# changed: ", b"#   "


def add_header(text: str, newline: str, *, upstream_path: str, modified: bool) -> str:
    """Put the header above upstream's text.

    A shebang goes: on any line but the first it means nothing. An encoding line may stay, the text is UTF-8.
    """
    if text.startswith("#!"):
        text = text.partition(newline)[2]
    return f"{_KIND}{upstream_path}{_MODIFIED * modified}{newline}{text}"


def copy_header(other: bytes, data: bytes, emitted: bytes) -> bytes:
    """Return a vendored file with the header of another version.

    Args:
        other: The file whose header it gets, or none if that has none.
        data: The version. One that has lost its header is returned as it is.
        emitted: What it was made of: lines of that header go wherever they stand, the owner's between them stay.
    """
    if data.startswith(_BOM):
        return _BOM + copy_header(other, data.removeprefix(_BOM), emitted)
    lines = data.splitlines(keepends=True)
    known = {line.rstrip() for line in _find_header(emitted.splitlines())}
    header = (n for n, line in enumerate(lines) if line.startswith(_KIND.encode()) or line.rstrip() in known)
    first = next(header, None)
    if first is None:
        return data
    below = lines[first:]
    # A merge in Git may have brought the header of another release.
    stale = below[0].rstrip() not in known
    rest = below[len(_find_header(below)) :] if stale else [line for line in below if line.rstrip() not in known]
    end = below[0][len(below[0].rstrip(b"\r\n")) :]
    return b"".join([*lines[:first], *(line.rstrip() + end for line in _find_header(other.splitlines())), *rest])


def _find_header(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Return the lines at the top that are the header."""
    if not lines or not lines[0].startswith(_KIND.encode()):
        return ()
    if len(lines) == 1 or not lines[1].startswith(_DIGEST):
        return lines[:1]
    return [*lines[:2], *takewhile(lambda line: line.startswith((_CHANGED, _GOES_ON)), lines[2:])]


def read_former_changes(text: str) -> tuple[str, ...]:
    """Read the changes from a header of lock schema 1."""
    found: list[str] = []
    goes_on = False
    lines = text.encode().splitlines()
    for line in lines if any(line.startswith(_DIGEST) for line in lines) else ():
        if line.startswith(_CHANGED):
            found.append(line.removeprefix(_CHANGED).decode())
            goes_on = True
        elif goes_on and line.startswith(_GOES_ON):
            found[-1] += f" {line.removeprefix(_GOES_ON).decode()}"
        else:
            goes_on = False
    return tuple(found)
