"""No named fix goes without a test."""

import ast
from pathlib import Path

from tests.fixes.support import all_cases

ROOT = Path(__file__).parents[2]


def test_every_fix_names_a_test_and_every_test_belongs_to_a_fix() -> None:
    named = {case.fix.test for case in all_cases()}
    there = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and "case" in (names := [each.arg for each in node.args.args]):
                there[f"{path.relative_to(ROOT).as_posix()}::{node.name}"] = {"case", "fixed", "broken"} <= set(names)
    assert there == dict.fromkeys(named, True)
