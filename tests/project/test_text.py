"""Upstream's text stays: names, comments and docstrings, apart from imports, named fixes and what Ray did."""

from __future__ import annotations

import ast
import itertools
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from extractor.pipeline.index.syntax import find_first_line
from extractor.pipeline.slicer.slice import KeptModule
from extractor.values.manifest import Fix
from tests.project.support import CONFIGURATIONS, PACKAGE, Configuration, Maker

pytestmark = pytest.mark.usefixtures("verl")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Text:
    """A module's lines, those of import statements left out."""

    lines: tuple[str, ...]
    definitions: dict[str, list[tuple[str, ...]]]

    @classmethod
    def of(cls, code: str) -> Text:
        """Split a module's code."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
        skipped = set(_import_lines(tree))
        lines = code.splitlines()

        def between(first: int, last: int) -> tuple[str, ...]:
            return tuple(
                lines[number - 1].rstrip()
                for number in range(first, last + 1)
                if number not in skipped and lines[number - 1].strip()
            )

        definitions: dict[str, list[tuple[str, ...]]] = {}
        for node in tree.body:
            if isinstance(node, Definition):
                assert node.end_lineno is not None
                definitions.setdefault(node.name, []).append(between(1 + find_first_line(node), node.end_lineno))
        return cls(between(1, len(lines)), definitions)


def _without_dropped_methods(module: KeptModule) -> str:
    """The upstream text without the methods that the slicer left out, and the comments right above them."""
    lines = module.source.splitlines()
    gone: set[int] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(module.source)
    for index, methods in module.dropped:
        body = getattr(tree.body[index], "body")  # noqa: B009
        for method in (body[number] for number in methods):
            first = 1 + find_first_line(method)
            while lines[first - 2].lstrip().startswith("#"):
                first -= 1
            gone.update(range(first, method.end_lineno + 1))
    return "\n".join("" if number in gone else line for number, line in enumerate(lines, 1))


def _import_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            assert node.end_lineno is not None
            yield from range(node.lineno, node.end_lineno + 1)


def _is_explained(line: str, fixes: list[Fix], *, ours: bool) -> bool:
    """True for a line that a named fix, the removal of Ray or a redirected path accounts for."""
    if ours:
        parts = []
        for replacement in (edit.replacement for fix in fixes for edit in fix.edits if edit.replacement):
            first, *more = replacement.splitlines()
            if more and (line.endswith(first) or line.strip() in {item.strip() for item in more}):
                return True
            parts.append(replacement)
        parts += ["local_executor", "submit(", "fetch(", f"{PACKAGE}.", "__all__"]
    else:
        parts = [part for fix in fixes for edit in fix.edits for part in (edit.match, edit.keyword) if part]
        parts += ["@ray.", " ray.", ".remote(", '"verl.', "__all__"]
    return any(part in line for part in parts)


def _speaks_of_what_is_lost(line: str, theirs: tuple[str, ...], lost: list[str]) -> bool:
    """True for a comment above a line that is lost too: a fix takes it away with its statement."""
    if not line.lstrip().startswith("#"):
        return False
    below = theirs[theirs.index(line) + 1 :]
    return next((item for item in below if not item.lstrip().startswith("#")), "") in lost


def _bodies_of_dropped_loops(theirs: tuple[str, ...], fixes: list[Fix]) -> set[str]:
    """The lines in loops that a fix takes away, naming their first line only."""
    heads = {f"{edit.match}:" for fix in fixes for edit in fix.edits if edit.op == "drop_statement"}
    found = set()
    for number, line in enumerate(theirs):
        if line.strip() in heads:
            deeper = re.compile(line[: len(line) - len(line.lstrip())] + " ")
            found.update(itertools.takewhile(deeper.match, theirs[number + 1 :]))
    return found


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=str)
def test_only_what_is_announced_differs(made: Maker, configuration: Configuration) -> None:
    project = made(configuration)
    fixes = {fix.id: fix for fix in project.manifest.fixes}
    for module, emitted in project.modules:
        applied = [fixes[name] for name in module.fixes]
        upstream = Text.of(_without_dropped_methods(module))
        ours = Text.of(emitted.text.partition("\n")[2])

        known = set(upstream.lines)
        added = [line for line in ours.lines if line not in known]
        assert [line for line in added if not _is_explained(line, applied, ours=True)] == [], module.module
        rest = iter(upstream.lines)
        for line in ours.lines:
            assert line in added or line in rest, f"{module.module}: moved: {line}"

        for name, bodies in ours.definitions.items():
            assert len(bodies) == len(upstream.definitions[name])
            for mine, theirs in zip(bodies, upstream.definitions[name], strict=True):
                lost = list((Counter(theirs) - Counter(mine)).elements())
                lost = [line for line in lost if not _speaks_of_what_is_lost(line, theirs, lost)]
                loops = _bodies_of_dropped_loops(theirs, applied)
                lost = [line for line in lost if line not in loops]
                assert [line for line in lost if not _is_explained(line, applied, ours=False)] == [], name
