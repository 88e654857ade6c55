"""A resolver made of a table, and the shortest way to rewrite a piece of made-up source."""

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence

from extractor.pipeline.rewrite import Emitted, rewrite_module
from extractor.pipeline.slicer import KeptModule, NotKept, Substitute, Target
from extractor.values.manifest import Fix

HOMES = {
    "verl:Batch": "protocol:Batch",
    "verl.protocol:Batch": "protocol:Batch",
    "verl.utils:tally": "utils.numbers:tally",
    "verl.utils:numbers": "utils.numbers:",
    "verl.utils.numbers:": "utils.numbers:",
    "verl.utils.numbers:tally": "utils.numbers:tally",
    "verl.utils.numbers:spread": "utils.numbers:spread",
    "verl.utils.timing:timer": "shims.timing:timer",
    "verl.jobs:score": "jobs:score",
    "verl.deep.pack.near:help_out": "deep.pack.near:help_out",
    "verl.deep.far:reach": "deep.far:reach",
}


class Table:
    """Resolves what HOMES lists; every other name of verl was not kept."""

    def __init__(self, homes: Mapping[str, str] = HOMES) -> None:
        self.homes = homes

    def resolve_import(self, importer: str, imported: str, name: str | None) -> Target | None:
        if imported.partition(".")[0] != "verl":
            return None
        try:
            module, _, found = self.homes[f"{imported}:{name or ''}"].partition(":")
        except KeyError:
            raise NotKept(f"{imported}.{name}") from None
        return Target(module, found or None)


def emit(
    source: str,
    *,
    kept: tuple[int, ...] | None = None,
    module: str = "verl.deep.pack.thing",
    path: str | None = None,
    substitutes: tuple[Substitute, ...] = (),
    reexports: tuple[str, ...] = (),
    fixes: tuple[Fix, ...] = (),
) -> Emitted:
    """Rewrite dedented `source`; everything is kept unless told otherwise."""
    source = textwrap.dedent(source).removeprefix("\n")
    path = path or module.replace(".", "/") + ".py"
    parsed = ast.parse(source).body
    replaced = {item.statement for item in substitutes if not isinstance(parsed[item.statement], ast.ImportFrom)}
    every = tuple(index for index in (range(200) if kept is None else kept) if index not in replaced)
    names = tuple(fix.id for fix in fixes)
    target = path.removeprefix("verl/")
    made = KeptModule(module, path, "0" * 64, target, source, every, substitutes, reexports, names)
    return rewrite_module(made, Table(), "toy", fixes)


def body(emitted: Emitted) -> str:
    """The text below the header."""
    lines = emitted.text.splitlines(keepends=True)
    assert lines[0].startswith("# vextract:vendored ")
    return "".join(lines[1:])


def with_former_header(
    text: str, release: str, upstream_path: str, changes: Sequence[str], sha256: str = "0" * 64
) -> str:
    """Put the header above a file that it had before schema 2 of the lock."""
    lines = [f"# vextract:vendored from verl {release}: {upstream_path}", f"# upstream sha256: {sha256}"]
    for change in changes:
        lines += textwrap.wrap(
            f"# changed: {change}", 120, subsequent_indent="#   ", break_long_words=False, break_on_hyphens=False
        )
    return "\n".join([*lines, text])


def after(text: str) -> str:
    """Expected text, dedented."""
    return textwrap.dedent(text).removeprefix("\n")


def cases_of(text: str) -> dict[str, list[str]]:
    """Cases by name: each begins with a line "=== NAME", and lines "---" stand between its texts."""
    _, *found = re.split(r"^=== (.+)\n", text, flags=re.MULTILINE)
    return {
        name: re.split(r"^---\n", case, flags=re.MULTILINE) for name, case in zip(found[::2], found[1::2], strict=True)
    }
