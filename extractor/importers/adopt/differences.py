"""What a fork did to upstream's modules, symbol by symbol."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from extractor.importers.adopt.findings import Copy
from extractor.importers.adopt.segments import Segment, count_hunks, split
from extractor.importers.adopt.upstream_names import decode, restore_upstream_names
from extractor.pipeline.source import Source
from extractor.values import readers
from extractor.values.fingerprint import fingerprint_statement, load_upstream_parts
from extractor.values.indentation import reindent
from extractor.values.modules import absolute, is_package, module_name

_IMPORTS = (ast.Import, ast.ImportFrom)
_ALIKE = 0.6


@dataclass(frozen=True)
class Difference:
    """One segment that is not as upstream has it.

    Attributes:
        key: That of upstream's segment, or of the fork's where upstream has none.
        old, new: The two sides; None where one has no such segment.
        is_upstreams: It is no edit of the fork's: upstream had it so on another day than the release's.
        bases: Texts that other releases have for it and that are nearer to the fork's than `old`, the nearest first.
    """

    key: str
    old: Segment | None
    new: Segment | None
    is_upstreams: bool = False
    bases: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """Return upstream's text that the fork's was made from; empty where it was made from none."""
        return self.bases[0] if self.bases else self.old.core if self.old is not None else ""

    @property
    def what(self) -> str:
        """Say "edited", "added" or "removed"."""
        return "added" if self.old is None else "removed" if self.new is None else "edited"

    @property
    def parts(self) -> tuple[str, ...]:
        """Return the methods of a class that differ from the text that it was made from."""
        if self.new is None or not isinstance(self.new.node, ast.ClassDef) or not self.base:
            return ()
        was, now = (
            {name: fingerprint_statement(node) for name, node in _methods(text)} for text in (self.base, self.new.core)
        )
        return tuple(name for name, part in now.items() if was.get(name) != part)

    @property
    def hunks(self) -> int:
        """Return the places that differ."""
        return count_hunks(self.base, self.new.core) if self.base and self.new is not None else 1


@dataclass(frozen=True)
class Imported:
    """Holds what an import statement binds: a name to a module, or to something in it.

    Attributes:
        local: The name.
        module: Absolute dotted module.
        name: What is taken from it; None for the module itself.
        dotted: True for `import a.b` without `as`.
    """

    local: str
    module: str
    name: str | None
    dotted: bool = False


@dataclass(frozen=True)
class Compared:
    """One of upstream's modules and the fork's, and how they differ.

    Attributes:
        upstream, fork: Their segments.
        symbols: Segments other than imports that differ.
        imports: What the fork imports and upstream does not. Of a module of another day, what edits in it use.
        comments: Lines with comments among the imports that upstream does not have; none of a module of another day.
    """

    upstream: tuple[Segment, ...] = field(repr=False)
    fork: tuple[Segment, ...] = field(repr=False)
    symbols: tuple[Difference, ...] = ()
    imports: tuple[Imported, ...] = ()
    comments: tuple[str, ...] = ()


def compare(copy: Copy, source: Source, bases: Sequence[Source]) -> dict[str, Compared]:
    """Compare the modules of a copy that are not as in a release, by upstream's path; none that cannot be read.

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
    of_another_day = any(_is_older_or_newer(item) for items in found.values() for item in items)
    if of_another_day:
        for path, items in found.items():
            found[path] = [replace(item, is_upstreams=item.is_upstreams or _says_nothing(item)) for item in items]
    return {
        path: _compare_imports(Compared(old, new, _with_bases(found[path], bases, path)), path, of_another_day)
        for path, (old, new) in pairs.items()
    }


def _compare_symbols(old: Sequence[Segment], new: Sequence[Segment]) -> list[Difference]:
    before = {item.key: item for item in old if not item.is_import}
    after = {item.key: item for item in new if not item.is_import}
    pairs = _reworded(before, after)
    found = []
    for key, segment in after.items():
        was = before.get(pairs.get(key, key))
        if was is None:
            found += [Difference(key, None, segment)] if segment.core else []
        elif was.core != segment.core:
            found.append(Difference(was.key, was, segment))
    gone = before.keys() - after.keys() - set(pairs.values())
    found += [Difference(key, item, None) for key, item in before.items() if key in gone and item.core]
    return [replace(item, is_upstreams=_was_upstreams(item)) for item in found]


def _reworded(before: Mapping[str, Segment], after: Mapping[str, Segment]) -> dict[str, str]:
    """Map the key of a statement without a name in the fork to that of upstream's that it was made from."""
    gone = [item for key, item in before.items() if key not in after and not item.is_named and item.node is not None]
    found: dict[str, str] = {}
    for key, item in after.items():
        if key not in before and not item.is_named and item.node is not None and gone:
            ratios = [SequenceMatcher(None, other.core, item.core).ratio() for other in gone]
            if max(ratios) >= _ALIKE:
                found[key] = gone.pop(ratios.index(max(ratios))).key
    return found


def _with_bases(items: Sequence[Difference], bases: Sequence[Source], path: str) -> tuple[Difference, ...]:
    """Add what other releases have in the place of each edit, where it is nearer."""
    if all(item.new is None or item.is_upstreams for item in items):
        return tuple(items)
    texts: dict[tuple[str, type], list[str]] = {}
    for source in bases:
        try:
            segments = split(source.read(path)) if path in source.files else ()
        except SyntaxError:
            continue
        for segment in segments:
            texts.setdefault((segment.key, type(segment.node)), []).append(segment.core)
    return tuple(
        replace(item, bases=_nearer(item, item.new, texts.get((item.key, type(item.new.node)), ())))
        if item.new is not None and not item.is_upstreams
        else item
        for item in items
    )


def _nearer(item: Difference, new: Segment, texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts that are nearer to the fork's than the release's, the nearest first."""
    limit = _count_apart(item.old.core, new.core) if item.old is not None else len(new.core.split("\n"))
    found = {text: _count_apart(text, new.core) for text in texts}
    return tuple(sorted((text for text, apart in found.items() if apart < limit), key=found.__getitem__))


def _count_apart(one: str, other: str) -> int:
    """Count the lines that only one of two texts has."""
    lines, others = (Counter(text.split("\n")) for text in (one, other))
    return (lines - others).total() + (others - lines).total()


def _compare_imports(found: Compared, path: str, of_another_day: bool) -> Compared:
    """Add how the imports of a module differ, and the comments among them."""
    module, package = module_name(path), is_package(path)
    known = set(list_imports(found.upstream, module, is_package=package).values())
    added = [item for item in list_imports(found.fork, module, is_package=package).values() if item not in known]
    if of_another_day:
        edits = (item.new.node for item in found.symbols if item.new and item.new.node and not item.is_upstreams)
        used = {node.id for edit in edits for node in ast.walk(edit) if isinstance(node, ast.Name)}
        return replace(found, imports=tuple(item for item in added if item.local in used))
    before, after = (
        [line for item in side if item.is_import for line in item.core.split("\n")]
        for side in (found.upstream, found.fork)
    )
    comments = tuple(line for line in after if "#" in line and line not in before)
    return replace(found, imports=tuple(added), comments=comments)


def is_all_upstreams(text: str | None) -> bool:
    """Tell whether upstream had all that a Python file defines and does, in whatever files."""
    try:
        body = readers.python(text or "").body
    except SyntaxError:
        return False
    return all(fingerprint_statement(node) in load_upstream_parts() for node in body if not isinstance(node, _IMPORTS))


def _was_upstreams(item: Difference) -> bool:
    new = item.new.node if item.new is not None else None
    return new is not None and not _says_nothing(item) and fingerprint_statement(new) in load_upstream_parts()


def _is_older_or_newer(item: Difference) -> bool:
    """Tell whether upstream had a definition otherwise; one that was added may have been copied from another file."""
    return item.is_upstreams and item.old is not None and item.new is not None and item.new.is_definition


def _says_nothing(item: Difference) -> bool:
    """Tell whether only upstream's side computes anything, or both compute the same."""
    old, new = (side.node if side is not None else None for side in (item.old, item.new))
    return new is None or (old is not None and fingerprint_statement(old) == fingerprint_statement(new))


def _methods(text: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in readers.python(text).body:
        for part in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield part.name, part


def list_imports(segments: Sequence[Segment], module: str, *, is_package: bool) -> dict[str, Imported]:
    """Return a mapping, local name -> what the plain imports at the top level of a module bind it to."""
    found: dict[str, Imported] = {}
    for segment in segments:
        if isinstance(segment.node, _IMPORTS):
            found.update({item.local: item for item in list_bound(segment.node, module, is_package=is_package)})
    return found


def list_bound(node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool) -> list[Imported]:
    """Return what one import statement binds."""
    if isinstance(node, ast.ImportFrom):
        origin = absolute(node, module, is_package=is_package)
        return [Imported(alias.asname or alias.name, origin, alias.name) for alias in node.names]
    return [
        Imported(alias.asname or alias.name, alias.name, None, dotted=alias.asname is None and "." in alias.name)
        for alias in node.names
    ]
