"""The merge of one file."""

import ast
import re
import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extractor.pipeline import merge
from extractor.pipeline.merge import Labels, find_first_conflict, find_left_markers, is_mergeable, merge_lines
from extractor.pipeline.merge.files import is_layout, merge_file, split_pieces
from extractor.pipeline.merge.pieces import find_changed
from extractor.pipeline.rewrite.header import add_header
from extractor.values.errors import UsageError
from tests.lifecycle.releases import emitted
from tests.lifecycle.test_merge_pieces import conflicts, formatted, merged
from tests.releases import ALL
from tests.rewrite.support import with_former_header

LABELS = Labels("yours", "base", "theirs")
LINES = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b" x\t", "é漢".encode(), b"r\r"]), max_size=6)
TEXT = st.tuples(LINES, st.booleans()).map(lambda pair: b"\n".join(pair[0]) + (b"\n" if pair[1] else b""))


@given(TEXT, TEXT, TEXT)
@settings(max_examples=60)
def test_no_line_of_either_side_is_lost(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert merge_lines(base, ours, base, LABELS) == merge_lines(base, base, ours, LABELS) == merge.Merged(ours, 0)
    assert merge_lines(base, ours, ours, LABELS) == merge.Merged(ours, 0)
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


def test_any_git_merges_and_none_is_missed(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """An older one, one with settings of its user, and none at all."""
    sides = b"1\n2\n3\n", b"1\nmine\n3\n", b"1\ntheirs\n3\n"
    real = subprocess.run

    def old_git(command: list[str], **options: object) -> object:
        if "--zdiff3" in command:
            return subprocess.CompletedProcess(command, 129, b"", b"error: unknown option `zdiff3'")
        return real(command, **options)

    (tmp_path / ".gitconfig").write_text("[merge]\n\tconflictStyle = merge\n[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    for run in (real, old_git):
        monkeypatch.setattr(subprocess, "run", run)
        found = merge_lines(*sides, LABELS)
        assert found.conflicts == 1
        assert b"||||||| base\n2\n" in found.data
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="merging your edits needs git") as error:
        merge_lines(*sides, LABELS)
    assert "install git" in error.value.hint


def test_what_is_no_text_and_other_line_ends() -> None:
    assert is_mergeable(b"", b"text\n")
    assert not is_mergeable(b"text\n", b"\0")
    base = b"1\n2\n3\n4\n5\n6\n"
    found = merge_lines(base, base.replace(b"\n", b"\r\n") + b"mine\r\n", b"0\n" + base, LABELS)
    assert found == merge.Merged(b"0\r\n1\r\n2\r\n3\r\n4\r\n5\r\n6\r\nmine\r\n", 0)


def vendored(text: str, number: int = 0) -> str:
    """A vendored file of verl's, with the header of today or, with a number, of a release before."""
    if not number:
        return add_header(text, "\n", upstream_path="verl/a.py", modified=True)
    dropped = f"dropped {number} unreachable definitions: {', '.join(['one_with_a_long_name'] * 6)}"
    return with_former_header(text, f"0.{number}.0", "verl/a.py", [dropped], f"{number}" * 64)


def test_where_a_vendored_file_comes_from_is_nobodys_edit() -> None:
    """As after a merge in Git of two branches that were upgraded to different releases, by different vextracts."""
    for numbers in ((8, 9, 7), (8, 8, 0), (0, 8, 0), (8, 0, 9), (0, 0, 0)):
        base, ours = (vendored("import os\n\n\ndef f():\n    return 1\n", number).encode() for number in numbers[:2])
        theirs = vendored("import os\n\n\ndef f():\n    return 2\n", numbers[2]).encode()
        ours = ours.replace(b"\n", b"\r\n")
        found = merge_file("a.py", base, ours, theirs, LABELS)
        assert (found.data.replace(b"\r\n", b"\n"), found.conflicts) == (theirs, 0), numbers
        assert is_layout("a.py", base, ours)
        for edit in (b"import os\r\n\r\nMINE = 1\r\n", b"# mine\r\nimport os\r\n"):
            edited = ours.replace(b"import os\r\n", edit)
            assert b"MINE" not in edit or not is_layout("a.py", base, edited)
            found = merge_file("a.py", base, edited, theirs, LABELS)
            wanted = theirs.replace(b"import os\n", edit.replace(b"\r\n", b"\n"))
            assert (found.data.replace(b"\r\n", b"\n"), found.conflicts) == (wanted, 0), numbers


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
    pattern = r"<<<<<<< [^\n]*\n(.*?)\|{7} [^\n]*\n.*?=======\n(.*?)>>>>>>> [^\n]*\n"
    yours, its = (re.sub(pattern, side, merged.data.decode(), flags=re.DOTALL) for side in (r"\1", r"\2"))
    assert "MINE" in yours
    ast.parse(yours)
    ast.parse(its)


# What upgrades between real releases merge.


@pytest.mark.network
def test_what_upstream_had_on_another_day_gives_way_to_what_it_has_now() -> None:
    """A function that a copy of verl had before its release came to have it, and that was changed until then."""
    path, name = "toy/vendored/algorithms/core_algos.py", "agg_loss"
    old, new = (emitted(release)[path].decode() for release in ("0.6.1", ALL[-1]))
    theirs, mine = (
        next(
            ast.get_source_segment(text, node) or ""
            for node in ast.parse(text).body
            if isinstance(node, ast.FunctionDef) and node.name == name
        )
        for text in (new, old)
    )
    assert mine != theirs
    assert merged(path, "a = 1\n", f"a = 1\n\n\n{mine}\n", f"a = 1\n\n\n{theirs}\n").endswith(f"{theirs}\n")
    # What its owner does or says in it is the owner's, though it may compute nothing.
    for was, now in (
        ("return loss", "return 2 * loss"),
        ("    return loss", "    # Mine.\n    return loss"),
        ("loss_agg_mode: str", "loss_agg_mode: Mine"),
        (f"def {name}", f"# Mine.\ndef {name}"),
    ):
        said = mine.replace(was, now, 1)
        assert now.split("\n")[0] in conflicts(path, "a = 1\n", f"a = 1\n\n\n{said}\n", f"a = 1\n\n\n{theirs}\n")
    # Who puts it in the place of what the release has means it.
    before = theirs.replace("return loss", "return 2 * loss")
    assert merged(path, f"{before}\n", f"{mine}\n", f"{theirs}\n") == f"{mine}\n"


def changed_modules(old: str) -> Iterator[tuple[str, bytes, bytes]]:
    """Path, former and present text of every module that an upgrade to the newest release changes."""
    base, theirs = emitted(old), emitted(ALL[-1])
    for path in base:
        if path.endswith(".py") and path in theirs and base[path] != theirs[path]:
            yield path, base[path], theirs[path]


@pytest.mark.network
def test_a_formatter_is_no_edit() -> None:
    """An owner whose editor formats it gets upstream's all the same."""
    different = 0
    for path, base, theirs in changed_modules("0.4.0"):
        ours = formatted(base, "--line-length=79", "--config=format.quote-style='single'")
        found = merge_file(path, base, ours, theirs, LABELS)
        assert found.conflicts == 0, f"{path}: {found.data.decode()}"
        assert ast.dump(ast.parse(found.data)) == ast.dump(ast.parse(theirs)), path
        different += ours != base
    assert different > 20


@pytest.mark.network
def test_an_edit_in_a_formatted_file_is_never_lost() -> None:
    """A remark and a statement in every function and method of what an upgrade changes, and then the formatter."""
    edits = merges = 0
    for path, base, theirs in changed_modules("0.6.1"):
        lines, tokens = base.decode().split("\n"), list[str]()
        functions = [node for node in ast.walk(ast.parse(base)) if isinstance(node, ast.FunctionDef)]
        for node in sorted(functions, key=lambda item: -item.body[-1].lineno):
            last, token = node.body[-1], f"EDIT{len(tokens):05d}"
            if last.lineno == node.lineno:  # a stub on one line
                continue
            indent = " " * last.col_offset
            lines[last.lineno - 1 : last.lineno - 1] = [f"{indent}# {token}A", f'{indent}x = "{token}B"  # {token}C']
            tokens += [f"{token}{kind}" for kind in "ABC"]
        found = merge_file(path, base, formatted("\n".join(lines).encode(), "--line-length=79"), theirs, LABELS)
        lost = [token for token in tokens if token.encode() not in found.data]
        assert lost == [], (path, lost)
        edits, merges = edits + len(tokens), merges + (found.conflicts == 0)
    assert edits > 300
    assert merges > 5


THOROUGH = [(ALL[0], ALL[-1]), (ALL[-1], ALL[0]), ALL[-2:]]
PAIRS = [("0.6.1", "0.7.1"), *(pytest.param(*pair, marks=pytest.mark.thorough) for pair in THOROUGH)]


@pytest.mark.parametrize(("old", "new"), PAIRS)
@pytest.mark.network
def test_an_edit_of_a_function_ends_in_that_function(old: str, new: str) -> None:
    """Two lines before the last statement of every function of the algorithms, over every step between releases."""
    path = "toy/vendored/algorithms/core_algos.py"
    base, theirs = (emitted(release)[path] for release in (old, new))
    lines = base.decode().split("\n")
    edited = 0
    for node in ast.parse(base).body:
        if not isinstance(node, ast.FunctionDef):
            continue
        last = node.body[-1]
        at, indent = last.lineno - 1, " " * last.col_offset
        ours = "\n".join((*lines[:at], f"{indent}edited = 1", f"{indent}del edited", *lines[at:]))
        found = merge_file(path, base, ours.encode(), theirs, LABELS)
        if found.conflicts:
            continue
        before, after = split_pieces(path, theirs.decode()), split_pieces(path, found.data.decode())
        (changed,) = find_changed(before, after)
        # Or in the one that has got its body: kl_penalty and kl_penalty_forward.
        assert changed.startswith(node.name) or node.name.startswith(changed)
        edited += 1
    assert edited > 3
