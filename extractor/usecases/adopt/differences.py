"""What a fork did to one of upstream's modules, symbol by symbol."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from extractor.usecases.adopt.segments import Segment, hunks
from extractor.values.modules import absolute

COMMENTS = "comments between imports"
_ALIKE = 0.6


@dataclass(frozen=True)
class Difference:
    """One segment that is not as upstream has it.

    Attributes:
        key: That of upstream's segment, or of the fork's where upstream has none.
        old, new: The two sides; None where one has no such segment.
    """

    key: str
    old: Segment | None
    new: Segment | None

    @property
    def what(self) -> str:
        """Say "edited", "added" or "removed"."""
        return "added" if self.old is None else "removed" if self.new is None else "edited"

    @property
    def hunks(self) -> int:
        """Return the places that differ."""
        return hunks(self.old.core, self.new.core) if self.old is not None and self.new is not None else 1


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
class Differences:
    """All that differs in one module.

    Attributes:
        symbols: Segments other than imports.
        imports: What the fork imports and upstream does not.
        comments: Lines with comments among the imports that upstream does not have.
    """

    symbols: tuple[Difference, ...]
    imports: tuple[Imported, ...] = field(default=())
    comments: tuple[str, ...] = ()


def differences(old: Sequence[Segment], new: Sequence[Segment], module: str, *, is_package: bool) -> Differences:
    """Compare upstream's segments with the fork's."""
    before = {item.key: item for item in old if not item.is_import}
    after = {item.key: item for item in new if not item.is_import}
    pairs = _reworded(before, after)
    found = []
    for key, segment in after.items():
        was = before.get(pairs.get(key, key))
        if was is None:
            if segment.core:
                found.append(Difference(key, None, segment))
        elif was.core != segment.core:
            found.append(Difference(was.key, was, segment))
    taken = set(pairs.values())
    found += [
        Difference(key, item, None)
        for key, item in before.items()
        if key not in after and key not in taken and item.core
    ]
    known = set(imports_of(old, module, is_package=is_package).values())
    added = [item for item in imports_of(new, module, is_package=is_package).values() if item not in known]
    lines = {line for item in old if item.is_import for line in item.core.split("\n")}
    comments = [
        line for item in new if item.is_import for line in item.core.split("\n") if "#" in line and line not in lines
    ]
    return Differences(tuple(found), tuple(added), tuple(comments))


def imports_of(segments: Sequence[Segment], module: str, *, is_package: bool) -> dict[str, Imported]:
    """Return a mapping, local name -> what the plain imports at the top level of a module bind it to."""
    found: dict[str, Imported] = {}
    for segment in segments:
        if isinstance(segment.node, (ast.Import, ast.ImportFrom)):
            found.update({item.local: item for item in bound_by(segment.node, module, is_package=is_package)})
    return found


def bound_by(node: ast.Import | ast.ImportFrom, module: str, *, is_package: bool) -> list[Imported]:
    """Return what one import statement binds."""
    if isinstance(node, ast.ImportFrom):
        origin = absolute(node, module, is_package=is_package)
        return [Imported(alias.asname or alias.name, origin, alias.name) for alias in node.names]
    return [
        Imported(alias.asname or alias.name, alias.name, None, dotted=alias.asname is None and "." in alias.name)
        for alias in node.names
    ]


def _reworded(before: Mapping[str, Segment], after: Mapping[str, Segment]) -> dict[str, str]:
    """Map the key of a statement without a name in the fork to that of the one of upstream's it was made from."""
    gone = [item for key, item in before.items() if key not in after and not item.is_named and item.node is not None]
    found: dict[str, str] = {}
    for key, item in after.items():
        if key in before or item.is_named or item.node is None or not gone:
            continue
        ratio, best = max(
            ((SequenceMatcher(None, other.core, item.core).ratio(), other) for other in gone), key=lambda pair: pair[0]
        )
        if ratio >= _ALIKE:
            found[key] = best.key
            gone.remove(best)
    return found
