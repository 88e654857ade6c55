"""Upstream's side of a comparison, with the named fixes of a project."""

from pathlib import Path

import pytest

from extractor.pipeline.source import Source
from extractor.usecases.verify import project_files as subjects
from extractor.usecases.verify.fixed_upstream import write_upstream
from extractor.values.errors import CheckFailed
from extractor.values.manifest import Edit, Fix
from tests.verify.projects import small

MODULE = "verl.mean"
UPSTREAM = '"""Means."""\n\nfrom verl.rows import rows\n\n\ndef mean(values):\n    return sum(rows(values)) / 2\n'
SHIM = "from ..rows import rows\n\n\ndef share(values):\n    return sum(rows(values)) / len(values)\n"
SOURCE = Source(
    "0.6.1", "checkout", "0" * 64, {"verl/mean.py": UPSTREAM.encode(), "verl/rows.py": b"rows = list\n"}, ""
)
EDIT = Edit("replace", within="mean", match="sum(rows(values)) / 2", replacement="share(values)")


def fix(name: str, imports: tuple[str, ...], parity: str | None = None, **more: object) -> Fix:
    edits = (Edit(**{**vars(EDIT), "imports": imports, **more}),)  # type: ignore[arg-type]
    return Fix(name, "why", MODULE, edits, "", parity=parity)


def written(folder: Path, *fixes: Fix) -> tuple[list[str], str]:
    """Write upstream for a project that has all of these fixes; return those that it got, and the module."""
    changes = {"toy/mean.py": [f"fix {item.id}: why" for item in fixes]}
    project = small(folder / "p", {"toy/mean.py": "", "toy/rows.py": "", "toy/shims/sums.py": SHIM}, changes=changes)
    given = write_upstream(subjects.read_project(project), SOURCE, fixes, folder / "up")
    return given, (folder / "up/verl/mean.py").read_text(encoding="utf-8")


def test_a_fix_comes_with_its_shim_which_uses_upstreams_code(tmp_path: Path) -> None:
    given, text = written(tmp_path, fix("a-share", ("shims.sums:share",)))
    assert given == ["a-share"]
    assert "from toy.shims.sums import share\n" in text
    assert text.rstrip().endswith("return share(values)")
    assert "from verl.rows import rows\n" in (tmp_path / "up/toy/shims/sums.py").read_text(encoding="utf-8")


def test_what_is_replaced_gives_way_to_the_shim(tmp_path: Path) -> None:
    ours = Fix("ours", "why", MODULE, (), "", replaced={f"{MODULE}:mean": "shims.sums:share"}, parity="met")
    given, text = written(tmp_path, ours)
    assert given == ["ours"]
    assert text.startswith(UPSTREAM)
    assert text.rstrip().endswith("from toy.shims.sums import share as mean")


def test_exact_fixes_and_those_of_other_code_are_left_out_and_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    for kept in (fix("exact", ("shims.sums:share",), "exact"), fix("other", ("custom.sums:share",))):
        assert written(tmp_path / kept.id, kept) == ([], UPSTREAM)
    with pytest.raises(CheckFailed, match="was found 0 times"):
        written(tmp_path, fix("elsewhere", ("shims.sums:share",), match="no_such()"))
