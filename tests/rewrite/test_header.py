"""The first line of a vendored file says whose it is, and the header of another version is nobody's edit."""

import pytest

from extractor.pipeline.rewrite import read_dropped_methods, read_former_changes, read_named_fixes
from extractor.pipeline.rewrite.changes import describe_dropped_methods
from extractor.pipeline.rewrite.header import add_header, copy_header
from tests.rewrite.support import emit, with_former_header

MANY = [f"{holder}.method_number_{number}" for holder in ("First", "Second") for number in range(40)]
BODY = "# Copyright\nimport os\n"
NEW = add_header(BODY, "\n", upstream_path="verl/a.py", modified=True)
OLD = with_former_header(BODY, "1.2.3", "verl/a.py", ["unused imports dropped", *describe_dropped_methods(MANY)])


@pytest.mark.parametrize("names", [[], ["Engine.run"], ["Engine.run", "Engine.stop", "Other.run"], MANY])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_changes_say_can_be_read_again(names: list[str], newline: str) -> None:
    changes = ["unused imports dropped", *describe_dropped_methods(names), "fix x-1: because; of: this"]
    assert list(read_dropped_methods(changes)) == names
    assert read_named_fixes(changes) == ("x-1",)
    old = with_former_header(BODY, "1.2.3", "verl/a.py", changes).replace("\n", newline)
    assert list(read_former_changes(old)) == changes
    assert list(read_former_changes(old.replace(newline, f"{newline}# mine{newline}", 1))) == changes


def test_a_file_of_today_names_no_changes() -> None:
    assert read_former_changes(f"{NEW}# changed: by me\n") == ()


def test_a_file_that_is_as_it_is_upstream_is_not_called_modified() -> None:
    source = "# Licence.\nx = 1\n"
    assert emit(source).text == f"# vextract:vendored verl/deep/pack/thing.py\n{source}"
    assert emit("import os\nx = 1\n").text.startswith("# vextract:vendored verl/deep/pack/thing.py, modified (")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (OLD, NEW),
        (f"# MINE\n{OLD}", f"# MINE\n{NEW}"),
        (OLD.replace("# Copyright", "# MINE\n# Copyright"), NEW.replace("# Copyright", "# MINE\n# Copyright")),
        (OLD.replace("# Copyright", "#   MINE\n# Copyright"), NEW.replace("# Copyright", "#   MINE\n# Copyright")),
        (OLD.replace("\n", "\n# changed: MINE\n", 1), NEW.replace("\n", "\n# changed: MINE\n", 1)),
        (OLD.partition("\n")[2], NEW),
        (BODY, BODY),
        (f"\ufeff{OLD}", f"\ufeff{NEW}"),
        (OLD.replace("\n", "\r\n"), NEW.replace("\n", "\r\n")),
        # As after a merge in Git of two branches that were upgraded to different releases.
        (OLD.replace("1.2.3", "1.2.4").replace("0" * 64, "1" * 64).replace("First", "Third"), NEW),
    ],
    ids=["whole", "above", "below", "continued", "between", "headless", "gone", "mark", "ends", "stale"],
)
def test_a_header_gives_way_to_another_and_edits_beside_it_stay(old: str, new: str) -> None:
    found = copy_header(NEW.encode(), old.encode(), OLD.encode())
    assert found == new.encode()
    assert copy_header(NEW.encode(), found, NEW.encode()) == found
    bare = new.replace("\r\n", "\n").replace(NEW.partition("\n")[0] + "\n", "")
    assert copy_header(BODY.encode(), found, NEW.encode()).replace(b"\r\n", b"\n") == bare.encode()
