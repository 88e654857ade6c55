"""The first lines of a vendored file: where it comes from, and what was changed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 120
_CHANGED, _GOES_ON = "# changed: ", "#   "


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
