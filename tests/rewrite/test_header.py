"""The header of a vendored file says what was left out, and can be read again."""

from __future__ import annotations

import pytest

from extractor.pipeline.rewrite.header import WIDTH, dropped_methods, methods_dropped, with_header

MANY = [f"{holder}.method_number_{number}" for holder in ("First", "Second") for number in range(40)]


@pytest.mark.parametrize("names", [[], ["Engine.run"], ["Engine.run", "Engine.stop", "Other.run"], MANY])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_dropped_methods_are_all_named_in_the_header(names: list[str], newline: str) -> None:
    changes = ["unused imports dropped", *methods_dropped(names), "fix x: because; of: this"]
    text = with_header(
        f"x = 1{newline}# changed: dropped 1 method whose names nothing uses: No.way{newline}",
        newline,
        release="1.2.3",
        upstream_path="verl/a.py",
        upstream_sha256="0" * 64,
        changes=changes,
    )
    assert max(map(len, text.splitlines())) <= WIDTH
    assert list(dropped_methods(text)) == names
