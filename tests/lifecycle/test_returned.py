"""Edits that an upgrade parked, and that another release has a place for again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extractor.cli.app import run as command
from extractor.usecases import diff
from tests.lifecycle.releases import Choice, generated, options_of
from tests.lifecycle.worlds import create

ACTOR = "toy/vendored/workers/dp_actor.py"


@given(st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n"])), st.lists(st.sampled_from([b"a\n", b"b\n", b"c", b"d\n"])))
def test_a_diff_is_undone(old: list[bytes], new: list[bytes]) -> None:
    sides = b"".join(old), b"".join(new)
    text = b"a note\n\n" + diff.unified("x", *sides)
    assert diff.undo_unified(sides[1], text) == sides[0]
    assert sides[0] == sides[1] or diff.undo_unified(sides[1] + b"z\nz\nz\nz\n" * 2, b"") != sides[0]


@pytest.mark.slow
def test_parked_edits_go_back_where_they_were(verl: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choice = Choice("0.7.1")
    root = create(tmp_path / "toy", generated(choice).tree, options_of(choice))
    text = (root / ACTOR).read_text(encoding="utf-8")
    (root / ACTOR).write_text(text + "\n\nMINE = 1\n", encoding="utf-8")
    assert command(["upgrade", str(root), "--to", "0.8.0"]) == 0
    assert (root / f"orphaned/{ACTOR}.note").is_file()
    assert command(["upgrade", str(root), "--to", "0.7.0"]) == 0
    assert "MINE = 1" in (root / ACTOR).read_text(encoding="utf-8")
    assert not (root / "orphaned").exists()
