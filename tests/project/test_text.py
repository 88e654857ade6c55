"""Upstream's text stays: names, comments and docstrings, apart from imports, named fixes and what Ray did."""

import ast
import itertools
import re
from collections import Counter

import pytest

from extractor.pipeline.index.syntax import find_first_line
from extractor.pipeline.slicer.types import KeptModule
from extractor.values.manifest import Fix
from tests.project.support import CONFIGURATIONS, PACKAGE, Configuration, Maker

pytestmark = [pytest.mark.usefixtures("verl"), pytest.mark.filterwarnings("ignore:invalid escape sequence")]

Lines = tuple[str, ...]


def texts_of(code: str) -> tuple[Lines, dict[str, list[Lines]]]:
    """A module's lines without those of import statements, and the lines of each definition."""
    tree, lines = ast.parse(code), code.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines[node.lineno - 1 : node.end_lineno] = [""] * len(lines[node.lineno - 1 : node.end_lineno])

    def between(first: int, last: int | None) -> Lines:
        return tuple(line.rstrip() for line in lines[first:last] if line.strip())

    definitions: dict[str, list[Lines]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions.setdefault(node.name, []).append(between(find_first_line(node), node.end_lineno))
    return between(0, None), definitions


def without_dropped_methods(module: KeptModule) -> str:
    """The upstream text without the methods that the slicer left out, and the comments right above them."""
    lines, body = module.source.splitlines(), ast.parse(module.source).body
    for index, methods in module.dropped:
        for method in (body[index].body[number] for number in methods):  # type: ignore[attr-defined]
            first = find_first_line(method)
            while lines[first - 1].lstrip().startswith("#"):
                first -= 1
            lines[first : method.end_lineno] = [""] * (method.end_lineno - first)
    return "\n".join(lines)


def is_explained(line: str, fixes: list[Fix], *, ours: bool) -> bool:
    """True for a line that a named fix, the removal of Ray or a redirected path accounts for."""
    edits = [edit for fix in fixes for edit in fix.edits]
    if not ours:
        parts = [part for edit in edits for part in (edit.match, edit.keyword) if part]
        return any(part in line for part in (*parts, "@ray.", " ray.", ".remote(", '"verl.', "__all__"))
    parts = [edit.replacement for edit in edits if edit.replacement]
    for first, *more in (part.splitlines() for part in parts):
        if more and (line.endswith(first) or line.strip() in {item.strip() for item in more}):
            return True
    return any(part in line for part in (*parts, "local_executor", "submit(", "fetch(", f"{PACKAGE}.", "__all__"))


def lost_of(mine: Lines, theirs: Lines, fixes: list[Fix]) -> list[str]:
    """Lines of a definition that are not there, but for bodies of dropped loops and comments above what went."""
    heads, loops = {f"{edit.match}:" for fix in fixes for edit in fix.edits if edit.op == "drop_statement"}, set[str]()
    for number, line in enumerate(theirs):
        if line.strip() in heads:
            deeper = re.compile(line[: len(line) - len(line.lstrip())] + " ")
            loops.update(itertools.takewhile(deeper.match, theirs[number + 1 :]))
    lost = list((Counter(theirs) - Counter(mine)).elements())

    def goes_with_what_is_below(line: str) -> bool:
        code = (item for item in theirs[theirs.index(line) + 1 :] if not item.lstrip().startswith("#"))
        return line.lstrip().startswith("#") and next(code, "") in lost

    return [line for line in lost if line not in loops and not goes_with_what_is_below(line)]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_only_what_is_announced_differs(made: Maker, configuration: Configuration) -> None:
    project = made(configuration)
    fixes = {fix.id: fix for fix in project.manifest.fixes}
    for module, emitted in project.modules:
        applied = [fixes[name] for name in module.fixes]
        upstream, theirs_by_name = texts_of(without_dropped_methods(module))
        ours, mine_by_name = texts_of(emitted.text.partition("\n")[2])
        added = {*ours} - {*upstream}
        assert [line for line in added if not is_explained(line, applied, ours=True)] == [], module.module
        rest = iter(upstream)
        for line in ours:
            assert line in added or line in rest, f"{module.module}: moved: {line}"
        for name, bodies in mine_by_name.items():
            for mine, theirs in zip(bodies, theirs_by_name[name], strict=True):
                lost = lost_of(mine, theirs, applied)
                assert [line for line in lost if not is_explained(line, applied, ours=False)] == [], name
