"""No named fix goes without a test."""

import ast
from pathlib import Path

import pytest

from tests.fixes.support import Case, all_cases

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("fix_case", all_cases(), ids=str)
def test_every_fix_names_a_test_that_exists(fix_case: Case) -> None:
    path, _, name = fix_case.fix.test.partition("::")
    tests = {
        node.name: [argument.arg for argument in node.args.args]
        for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert {"case", "fixed", "broken"} <= set(tests[name])


def test_every_test_belongs_to_a_fix() -> None:
    named = {case.fix.test for case in all_cases()}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and "case" in [argument.arg for argument in node.args.args]:
                assert f"{path.relative_to(ROOT).as_posix()}::{node.name}" in named
