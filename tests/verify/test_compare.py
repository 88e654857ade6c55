"""What is compared of a project with upstream, what is told of differences, and how much of the code ran."""

from pathlib import Path
from typing import Any

import pytest

from extractor.pipeline.source import Source
from extractor.usecases.verify import parity, project_files
from extractor.usecases.verify.parity import ParityVerdict, check_coverage, compare, find_difference
from tests.verify.projects import small


def tensor(*values: float, dtype: str = "torch.float32", shape: list[int] | None = None) -> list[Any]:
    return ["t", dtype, [len(values)] if shape is None else shape, [float(value) for value in values]]


NAN = float("nan")


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        (tensor(1, 2, 3), tensor(1, 2.5, 3), "float32[3]: 1 of 3 elements differ, by at most 0.5"),
        (tensor(0.0, 1), tensor(-0.0, 1), "float32[2]: 1 of 2 elements differ, by at most 0"),
        (tensor(1, 2), tensor(1, 2, shape=[2, 1]), "float32[2] upstream, float32[2, 1] here"),
        (tensor(1, 2), tensor(1, 2, dtype="torch.float64"), "float32[2] upstream, float64[2] here"),
        (tensor(1, NAN), tensor(1, 2), "float32[2]: 1 of 2 elements differ, by at most nan"),
        (["v", 1.0], ["v", 1], "1.0 upstream, 1 here"),
        (["s", "list", [["v", 1.0]]], ["s", "tuple", [["v", 1.0]]], "list of 1 upstream, tuple of 1 here"),
        (["s", "list", [["v", 1], ["v", 2]]], ["s", "list", [["v", 1], ["v", 3]]], "[1]: 2 upstream, 3 here"),
        (["d", [["a", ["v", 1]]]], ["d", [["b", ["v", 1]]]], "a is missing here"),
        (["d", [["a", ["v", 1]]]], ["d", [["a", ["v", 2]]]], "a: 1 upstream, 2 here"),
    ],
)
def test_the_difference_in_words(left: list[Any], right: list[Any], words: str) -> None:
    assert find_difference(left, right) == words
    assert find_difference(left, left) is None


def result(value: int | None = None, *, error: str = "", absent: str = "") -> dict[str, Any]:
    common: dict[str, Any] = {"module": "verl.m"}
    if error:
        return {"error": error, **common}
    return {"absent": absent, **common} if absent else {"value": ["v", value], **common}


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict"),
    [
        (result(1), result(1), ParityVerdict.EQUAL),
        (result(1), result(2), ParityVerdict.DIFFERS),
        (result(1), result(error="E"), ParityVerdict.FAILS_HERE),
        (result(error="E"), result(1), ParityVerdict.UNAVAILABLE),
        (result(error="E"), result(error="E"), ParityVerdict.FAILS_ALIKE),
        (result(1), result(absent="verl.x"), ParityVerdict.ABSENT),
        (None, result(1), ParityVerdict.OURS_ONLY),
        (result(absent="not in this release"), result(1), ParityVerdict.OURS_ONLY),
        (result(absent="not in this release"), result(error="E"), ParityVerdict.ABSENT),
        (result(1), None, ParityVerdict.ABSENT),
    ],
)
def test_verdicts(theirs: dict[str, Any] | None, ours: dict[str, Any] | None, verdict: ParityVerdict) -> None:
    upstream = {} if theirs is None else {"family[case]": theirs}
    vendored = {} if ours is None else {"family[case]": ours}
    assert [case.verdict for case in compare(upstream, vendored, {})] == [verdict]


def test_fixes_without_a_counterpart_and_families_as_a_whole() -> None:
    for theirs in (result(1), result(error="E")):
        (case,) = compare({"family[case]": theirs}, {"family[case]": result(2)}, {"verl.m": ("new-fix",)})
        assert (case.verdict, case.note) == (ParityVerdict.FIX, "new-fix")
    upstream = {"family[a]": result(1), "family[b]": result(1)}
    vendored = {"family[a]": result(1), "family": result(error="E")}
    assert [case.verdict for case in compare(upstream, vendored, {})].count(ParityVerdict.FAILS_HERE) == 1
    nowhere = {"family": result(error="E")}
    assert [case.verdict for case in compare({}, nowhere, {})] == [ParityVerdict.OURS_ONLY]
    assert len(compare(upstream, {"family": result(absent="verl.m")}, {})) == 1, "what is not vendored counts once"


TEXT = '''"""Words."""


def used(x):
    """Words."""
    if x:
        return 1
    return 2


def unused():
    return 3


def _private():
    return 4


class Thing:
    def method(self):
        return 5

    def nothing(self):
        pass
'''


def test_functions_count_as_covered_where_a_line_of_them_ran(tmp_path: Path) -> None:
    project = small(tmp_path / "p", {"toy/core.py": TEXT})
    path = str((project / "toy/core.py").resolve())
    check = check_coverage(project_files.read_project(project), {path: [1, 4, 6, 7, 11, 15, 19, 20, 21]})
    assert check.details == ("toy/core.py: 2 of 3 functions, 50% of lines; not covered: unused",)
    assert "ran 50% of the lines of the functions in 1 vendored file, in 2 of 3 public functions" in check.summary
    check = check_coverage(project_files.read_project(project), {})
    assert check.ok
    assert check.details == ("toy/core.py: 0 of 3 functions, 0% of lines; not covered: used, unused, Thing.method",)


OURS = """
LIMIT = 3
def kept(a, b=2): ...
def of_the_owner(c=4): ...
class Config:
    rate: float = 0.5
    more: int
    def check(self, strict=True): ...
"""


def test_what_an_owner_adds_is_not_compared(tmp_path: Path) -> None:
    project = small(tmp_path / "project", {"toy/core.py": OURS, "toy/own.py": "def f(a=1): ..."})
    theirs = OURS.replace("def of_the_owner(c=4): ...", "def gone(c=4): ...").encode()
    source = Source("0.6.1", "wheel", "0" * 64, {"verl/core.py": theirs}, "")
    assert parity.find_declared_by_both(project_files.read_project(project), source) == {
        "verl.core": ["Config", "Config.check", "Config.rate", "LIMIT", "kept"]
    }
