"""Compare a fork's modules with upstream's, symbol by symbol."""

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from extractor.importers.adopt.findings import Copy
from extractor.importers.python_text.module_imports import Name, list_names
from extractor.importers.python_text.segments import Segment, decode, restore_upstream_names, split
from extractor.pipeline.source import Source
from extractor.values import readers
from extractor.values.fingerprint import fingerprint_statement, load_upstream_parts
from extractor.values.indentation import reindent
from extractor.values.modules import is_package, name_module

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ALIKE = 0.6


@dataclass(frozen=True)
class Difference:
    """A segment that differs from upstream.

    Attributes:
        key: That of upstream's segment, or of the fork's where upstream has none.
        old, new: The two sides; None where one has no such segment.
        bases: Upstream's texts that the fork's may have been made from, the nearest first; the release's is the last.
        is_upstreams: It is no edit of the fork's: upstream had it so on another day than the release's.
    """

    key: str
    old: Segment | None
    new: Segment | None
    bases: tuple[str, ...]
    is_upstreams: bool = False

    @property
    def base(self) -> str:
        """Return upstream's original text; empty if the fork added the symbol."""
        return self.bases[0]

    @property
    def what(self) -> str:
        """Say "edited", "added" or "removed"."""
        return "added" if self.old is None else "removed" if self.new is None else "edited"

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the names of a class's changed methods."""
        if self.new is None or not isinstance(self.new.node, ast.ClassDef) or not self.base:
            return ()
        was, now = (
            {
                part.name: fingerprint_statement(part)
                for node in readers.parse_python(text).body
                for part in (node.body if isinstance(node, ast.ClassDef) else ())
                if isinstance(part, _FUNCTIONS)
            }
            for text in (self.base, self.new.core)
        )
        return tuple(name for name, part in now.items() if was.get(name) != part)


@dataclass(frozen=True)
class Compared:
    """The differences between upstream's and the fork's version of a module.

    Attributes:
        upstream, fork: Their segments.
        symbols: Segments other than imports that differ.
        imports: What the fork imports and upstream does not. Of a module of another day, what edits in it use.
    """

    upstream: tuple[Segment, ...] = field(repr=False)
    fork: tuple[Segment, ...] = field(repr=False)
    symbols: tuple[Difference, ...] = ()
    imports: tuple[Name, ...] = ()


def compare(copy: Copy, source: Source, others: Sequence[Source]) -> dict[str, Compared]:
    """Compare a copy's changed modules with a release, by upstream's path.

    What upstream had on another day is marked as such. A copy with a definition of another day is of that day; then
    nothing is said by what it lacks, nor by imports that no edit uses, nor by differences that only a reader sees:
    comments, annotations, what is printed.
    """
    pairs = {}
    for path, data in copy.files.items():
        old, new = decode(source.files[path]), decode(data)
        if path.endswith(".py") and data != source.files[path] and old is not None and new is not None:
            try:
                pairs[path] = split(old), split(reindent(restore_upstream_names(new, copy.prefixes)))
            except SyntaxError:
                continue
    found = {path: _compare_symbols(*sides) for path, sides in pairs.items()}
    of_another_day = any(
        item.is_upstreams and item.old is not None and item.new is not None and item.new.is_definition
        for items in found.values()
        for item in items
    )
    compared = {}
    for path, (old_side, new_side) in pairs.items():
        items = found[path]
        if of_another_day:
            items = [
                replace(item, is_upstreams=item.is_upstreams or item.new is None or _is_same(item.old, item.new))
                for item in items  # one that adds and changes no computation says nothing
            ]
        symbols = _choose_bases(items, others, path)
        imports = _find_new_imports(old_side, new_side, path, symbols if of_another_day else None)
        compared[path] = Compared(old_side, new_side, symbols, imports)
    return compared


def _compare_symbols(old: Sequence[Segment], new: Sequence[Segment]) -> list[Difference]:
    before = {item.key: item for item in old if not item.is_import}
    after = {item.key: item for item in new if not item.is_import}
    pairs = _match_reworded(before, after)
    found = []
    for key, segment in after.items():
        was = before.get(pairs.get(key, key))
        if (was.core if was is not None else "") != segment.core:
            is_known = not _is_same(was, segment) and _was_upstreams(segment.node)
            text = was.core if was is not None else ""
            found.append(Difference(was.key if was is not None else key, was, segment, (text,), is_known))
    gone = before.keys() - after.keys() - set(pairs.values())
    found += [Difference(key, item, None, (item.core,)) for key, item in before.items() if key in gone and item.core]
    return found


def _match_reworded(before: Mapping[str, Segment], after: Mapping[str, Segment]) -> dict[str, str]:
    """Map the fork's changed unnamed statements to upstream's originals."""
    gone = [item for key, item in before.items() if key not in after and not item.is_named and item.node is not None]
    found: dict[str, str] = {}
    for key, item in after.items():
        if key not in before and not item.is_named and item.node is not None and gone:
            ratios = [SequenceMatcher(None, other.core, item.core).ratio() for other in gone]
            if max(ratios) >= _ALIKE:
                found[key] = gone.pop(ratios.index(max(ratios))).key
    return found


def _is_same(old: Segment | None, new: Segment) -> bool:
    """Tell whether two statements compute the same; bare comments always do."""
    if new.node is None or old is None or old.node is None:
        return new.node is None
    return fingerprint_statement(old.node) == fingerprint_statement(new.node)


def _was_upstreams(node: ast.stmt | None) -> bool:
    return node is not None and fingerprint_statement(node) in load_upstream_parts()


def _choose_bases(items: Sequence[Difference], others: Sequence[Source], path: str) -> tuple[Difference, ...]:
    """Add closer versions from other releases as merge bases of edits."""
    edits = [item.new for item in items if item.new is not None and not item.is_upstreams]
    texts: dict[tuple[str, type], list[str]] = {}
    for source in others if edits else ():
        try:
            segments = split(source.read(path)) if path in source.files else ()
        except SyntaxError:
            continue
        for segment in segments:
            texts.setdefault((segment.key, type(segment.node)), []).append(segment.core)

    def choose(item: Difference) -> Difference:
        if item.new is None or item.is_upstreams:
            return item
        known = texts.get((item.key, type(item.new.node)), ())
        lines = Counter(item.new.core.split("\n"))

        def count_apart(text: str) -> int:
            others = Counter(text.split("\n"))
            return (lines - others).total() + (others - lines).total()

        nearer = dict.fromkeys(text for text in known if count_apart(text) < count_apart(item.base))
        return replace(item, bases=(*sorted(nearer, key=count_apart), item.base))

    return tuple(map(choose, items))


def _find_new_imports(
    old: Sequence[Segment], new: Sequence[Segment], path: str, edits: Sequence[Difference] | None
) -> tuple[Name, ...]:
    """Return imports only the fork has, limited to `edits` if given."""
    module, package = name_module(path), is_package(path)
    known = set(list_imports(old, module, is_package=package).values())
    added = [item for item in list_imports(new, module, is_package=package).values() if item not in known]
    if edits is not None:
        nodes = [item.new.node for item in edits if item.new and item.new.node and not item.is_upstreams]
        used = {node.id for edit in nodes for node in ast.walk(edit) if isinstance(node, ast.Name)}
        added = [item for item in added if item.local in used]
    return tuple(added)


def is_all_upstreams(text: str | None) -> bool:
    """Tell whether upstream once had every statement of a Python file."""
    try:
        segments = split(text or "")
    except SyntaxError:
        return False
    return all(item.node is None or item.is_import or _was_upstreams(item.node) for item in segments)


def list_imports(segments: Sequence[Segment], module: str, *, is_package: bool) -> dict[str, Name]:
    """Return what top-level imports bind, by local name."""
    nodes = [item.node for item in segments if isinstance(item.node, (ast.Import, ast.ImportFrom))]
    return {item.local: item for node in nodes for item in list_names(node, module, is_package=is_package)}
