"""The first lines of a vendored file: where it comes from, and what was changed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

WIDTH = 120


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
            f"# changed: {change}", WIDTH, subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False
        )
    return newline.join([*lines, text])
