"""The merge of one file."""

import ast
import re
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extractor.pipeline import merge
from extractor.pipeline.merge import Labels, find_first_conflict, find_left_markers, is_mergeable, merge_lines
from extractor.pipeline.merge.files import is_layout, merge_file
from extractor.pipeline.rewrite.header import add_header
from extractor.values.errors import UsageError
from tests.rewrite.support import with_former_header

LABELS = Labels("yours", "base", "theirs")
LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b" x\t", "é漢".encode(), b"r\r"]), max_size=6)
TEXT = st.tuples(LINES, st.booleans()).map(lambda pair: b"\n".join(pair[0]) + (b"\n" if pair[1] else b""))


@given(TEXT, TEXT)
@settings(max_examples=30)
def test_one_side_alone_wins(base: bytes, side: bytes) -> None:
    assert merge_lines(base, side, base, LABELS) == merge.Merged(side, 0)
    assert merge_lines(base, base, side, LABELS) == merge.Merged(side, 0)
    assert merge_lines(base, side, side, LABELS) == merge.Merged(side, 0)


@given(TEXT, TEXT, TEXT)
@settings(max_examples=60)
def test_no_line_of_either_side_is_lost(base: bytes, ours: bytes, theirs: bytes) -> None:
    found = merge_lines(base, ours, theirs, LABELS)
    ends = {line.rstrip(b"\r") for line in found.data.split(b"\n")}
    for side in (ours, theirs):
        new = set(side.split(b"\n")) - set(base.split(b"\n"))
        assert {line.rstrip(b"\r") for line in new} <= ends
    assert bool(found.conflicts) == (find_first_conflict(found.data) > 0)


def test_a_conflict_names_all_sides() -> None:
    found = merge_lines(b"1\n2\n3\n", b"1\nmine\n3\n", b"1\ntheirs\n3\n", LABELS)
    assert found.conflicts == 1
    assert found.data == b"1\n<<<<<<< yours\nmine\n||||||| base\n2\n=======\ntheirs\n>>>>>>> theirs\n3\n"
    assert find_left_markers(found.data, []) == [2, 4, 6, 8]
    # What both sides did alike is outside of it.
    found = merge_lines(b"1\n2\n3\n", b"1\nsame\nmine\n3\n", b"1\nsame\ntheirs\n3\n", LABELS)
    assert found.data.startswith(b"1\nsame\n<<<<<<< yours\nmine\n")
    # Markers that were there before are no conflict.
    before = b"Title\n=======\n\n    <<<<<<< not at the start\n"
    assert find_first_conflict(before) == 0
    assert find_left_markers(before, [before]) == []
    assert find_left_markers(before + b"=======\r\n>>>>>>> x\n", [before]) == [6]
    assert find_left_markers(b"=======\n", []) == [1]


def test_a_file_with_other_line_ends_merges() -> None:
    base = b"1\n2\n3\n4\n5\n6\n"
    found = merge_lines(base, base.replace(b"\n", b"\r\n") + b"mine\r\n", b"0\n" + base, LABELS)
    assert found == merge.Merged(b"0\r\n1\r\n2\r\n3\r\n4\r\n5\r\n6\r\nmine\r\n", 0)


def test_an_older_git_merges_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.run

    def old_git(command: list[str], **options: object) -> object:
        if "--zdiff3" in command:
            return subprocess.CompletedProcess(command, 129, b"", b"error: unknown option `zdiff3'")
        return real(command, **options)

    monkeypatch.setattr(subprocess, "run", old_git)
    found = merge_lines(b"1\n2\n3\n", b"1\nmine\n3\n", b"1\ntheirs\n3\n", LABELS)
    assert found.conflicts == 1
    assert b"||||||| base\n2\n" in found.data


def test_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="merging your edits needs git") as error:
        merge_lines(b"1\n", b"2\n", b"3\n", LABELS)
    assert "install git" in error.value.hint


def test_settings_of_the_user_do_not_matter(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    (tmp_path / ".gitconfig").write_text("[merge]\n\tconflictStyle = merge\n[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert merge_lines(b"1\n2\n3\n", b"1\nmine\n3\n", b"1\ntheirs\n3\n", LABELS).conflicts == 1


def test_what_is_no_text() -> None:
    assert is_mergeable(b"", b"text\n")
    assert not is_mergeable(b"text\n", b"\0")


def vendored(text: str, number: int = 0) -> str:
    """A vendored file of verl's, with the header of today or, with a number, of a release before."""
    if not number:
        return add_header(text, "\n", upstream_path="verl/a.py", modified=True)
    dropped = f"dropped {number} unreachable definitions: {', '.join(['one_with_a_long_name'] * 6)}"
    return with_former_header(text, f"0.{number}.0", "verl/a.py", [dropped], f"{number}" * 64)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("numbers", [(8, 9, 7), (8, 8, 0), (0, 8, 0), (8, 0, 0), (8, 0, 9), (0, 0, 0)], ids=str)
def test_where_a_vendored_file_comes_from_is_nobodys_edit(numbers: tuple[int, int, int], end: str) -> None:
    """As after a merge in Git of two branches that were upgraded to different releases, by different vextracts."""
    base, ours = (vendored("import os\n\n\ndef f():\n    return 1\n", number) for number in numbers[:2])
    theirs = vendored("import os\n\n\ndef f():\n    return 2\n", numbers[2])
    assert vendored("", 8).count("\n#   ") == 1  # the list goes on below
    merged = merge_file("a.py", base.encode(), ours.replace("\n", end).encode(), theirs.encode(), LABELS)
    assert (merged.data.decode().replace("\r\n", "\n"), merged.conflicts) == (theirs, 0)
    assert is_layout("a.py", base.encode(), ours.replace("\n", end).encode())
    for edit in ("import os\n\nMINE = 1\n", "# mine\nimport os\n", "#   mine\n# changed: mine\nimport os\n"):
        if numbers[0] != numbers[1] and edit.startswith("#   "):
            continue  # in the header of another release these lines are taken for its own
        edited = ours.replace("import os\n", edit)
        assert not is_layout("a.py", base.encode(), edited.encode()) or "MINE" not in edit
        merged = merge_file("a.py", base.encode(), edited.replace("\n", end).encode(), theirs.encode(), LABELS)
        assert merged.data.decode().replace("\r\n", "\n") == theirs.replace("import os\n", edit)
        assert merged.conflicts == 0


def test_an_edit_beside_the_header_fits_the_file_upstream_which_has_none() -> None:
    body = "# Licence.\nimport os\n"
    base, ours = vendored(body), vendored(f"# mine\n{body}")
    merged = merge_file("a.py", base.encode(), ours.encode(), body.encode(), LABELS)
    assert (merged.data.decode(), merged.conflicts) == (f"# mine\n{body}", 0)


def test_a_conflict_holds_whole_statements() -> None:
    """Upstream has put a docstring there whose first line alone stands where ours has an edit."""
    base = "def f(a):\n    b = a.pop(1)\n\n    if b:\n        c = 1\n    return b\n"
    ours = base.replace("    b = a.pop(1)\n", "    MINE = 1\n    b = a.pop(1)\n")
    docstring = '    """Take it.\n\n    Of a row.\n    """\n'
    theirs = f"def f(a, k):\n{docstring}    b = a[k]\n    for d in b:\n        e(d)\n    return b\n"
    merged = merge_file("a.py", base.encode(), ours.encode(), theirs.encode(), LABELS)
    assert merged.conflicts == 1
    for side in ("yours", "theirs"):
        assert "MINE" in resolved(merged.data.decode(), "yours")
        ast.parse(resolved(merged.data.decode(), side))


def resolved(text: str, side: str) -> str:
    """The text with one side of its conflicts."""
    pattern = r"<<<<<<< [^\n]*\n(?P<yours>.*?)\|{7} [^\n]*\n.*?=======\n(?P<theirs>.*?)>>>>>>> [^\n]*\n"
    return re.sub(pattern, lambda match: match[side], text, flags=re.DOTALL)
