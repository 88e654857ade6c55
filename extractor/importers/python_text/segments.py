"""Split a module into top-level statements with their comments, under upstream's names."""

import ast
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from extractor.pipeline.index.syntax import list_bound_names
from extractor.pipeline.merge.python import cut_rows
from extractor.values import readers

TOP = "comments at the top"
END = "comments at the end"
_FIRST = (
    "trainer|utils|workers|protocol|models|single_controller|third_party|base_config|experimental|interactions|tools"
    "|model_merger|checkpoint_engine|version|py_functional"
)


@dataclass(frozen=True)
class Segment:
    """One top-level statement.

    Attributes:
        key: What it is recognised by in other versions of the module; unique in this one.
        lead: The empty lines above it.
        core: Its text, with the comments above it; each line ends in a line feed.
        binds: Names that it binds.
        node: The statement; None for comments that belong to none.
    """

    key: str
    lead: str
    core: str
    binds: tuple[str, ...] = ()
    node: ast.stmt | None = field(default=None, repr=False, compare=False)

    @property
    def is_import(self) -> bool:
        """Return True for a plain import statement."""
        return isinstance(self.node, (ast.Import, ast.ImportFrom))

    @property
    def is_definition(self) -> bool:
        """Return True for a function or a class."""
        return isinstance(self.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))

    @property
    def is_named(self) -> bool:
        """Return True if it binds names and is no import."""
        return bool(self.binds) and not self.is_import


def split(text: str) -> tuple[Segment, ...]:
    """Split a module into segments that join to the same text.

    Raises:
        SyntaxError: it is not Python.
    """
    lines = text.removesuffix("\n").split("\n") if text else []
    used: Counter[str] = Counter()
    found = []
    for start, end, nodes in cut_rows(readers.parse_python(text).body, lines, 0, len(lines)):
        item = nodes[0] if nodes else None
        first = next((number for number in range(start, end) if lines[number].strip()), end)
        binds = tuple(dict.fromkeys(list_bound_names(item))) if item is not None else ()
        key = _make_key(item, binds, start)
        used[key] += 1
        lead, core = ("".join(f"{line}\n" for line in part) for part in (lines[start:first], lines[first:end]))
        found.append(Segment(key if used[key] == 1 else f"{key} ({used[key]})", lead, core, binds, item))
    return tuple(found)


def _make_key(node: ast.stmt | None, binds: tuple[str, ...], start: int) -> str:
    if node is None:
        return TOP if start == 0 else END
    if isinstance(node, (ast.Import, ast.ImportFrom)) or not binds:
        return f"`{ast.unparse(node)}`"
    return ", ".join(binds)


def decode(data: bytes) -> str | None:
    """Decode UTF-8 text with normalized line ends; None if not text."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def restore_upstream_names(text: str, prefixes: Sequence[str]) -> str:
    """Replace the copy's import name by `verl` in a text."""
    for name in map(re.escape, prefixes):
        text = re.sub(rf"^([ \t]*(?:from|import)[ \t]+){name}(?=[.\s]|$)", r"\1verl", text, flags=re.MULTILINE)
        # Chains after `import prefix.x`, and dotted paths in strings.
        text = re.sub(rf"(?<![\w.]){name}(?=\.(?:{_FIRST})\b)", "verl", text)
    return text
