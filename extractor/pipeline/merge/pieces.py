"""Merge files as trees of pieces that are matched by key."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from extractor.pipeline.merge.lines import Labels, Merged, merge_lines

# How alike two pieces must be for one to be the other, edited beyond recognition of its key.
_ALIKE = 0.6
# How alike a new function must be to an older one, which calls it now, for it to have that one's body.
_SAME_BODY = 0.8
_FUNCTIONS = ("FunctionDef", "AsyncFunctionDef")


class Unsupported(ValueError):
    """A file that cannot be taken apart."""


@dataclass(frozen=True)
class Grammar:
    """What is known of the language that pieces are written in.

    Attributes:
        is_no_edit: Of the base's text of a piece, ours and theirs: whether theirs may take the place of ours, which
            differs in its layout, or is an earlier theirs.
        merge_again: Merges a piece whose lines have conflicts.
        first: Keys of pieces that have to stand above all others, in this order.
    """

    is_no_edit: Callable[[str | None, str, str | None], bool]
    merge_again: Callable[[Merged, str, str, str, Labels], Merged]
    first: tuple[str, ...] = ()


@dataclass(frozen=True)
class Piece:
    """A definition, statement, section or key with the comments above it.

    Attributes:
        key: What it is recognised by in other versions of the file; unique among its neighbours.
        lead: The empty lines above it.
        head: Its own lines, each ended by a line feed; of a piece with parts those above the first part.
        parts: The pieces in it: methods of a class, keys of a section.
        kind: What it may be an edited version of: pieces of the same kind. "" for one that its key alone tells.
        named: False where its key is its text, so that the key changes with each edit.
        names: Of an import: what it binds, as statements of its own.
    """

    key: str
    lead: str
    head: str
    parts: tuple[Piece, ...] = ()
    kind: str = ""
    named: bool = True
    names: tuple[str, ...] = ()

    @property
    def core(self) -> str:
        """Return all of it but the empty lines above."""
        return self.head + "".join(part.text for part in self.parts)

    @property
    def text(self) -> str:
        """Return all of it."""
        return self.lead + self.core


def merge_pieces(
    base: Sequence[Piece],
    ours: Sequence[Piece],
    theirs: Sequence[Piece],
    labels: Labels,
    grammar: Grammar | None = None,
) -> Merged:
    """Merge the pieces of three versions of a file.

    Args:
        base, ours, theirs: The pieces.
        labels: What the markers of a conflict call the sides.
        grammar: That of their language.
    """
    merge = _Merge(labels, grammar)
    text = merge.level(base, ours, theirs)
    return Merged(text.encode(), merge.conflicts)


def find_changed(before: Sequence[Piece], after: Sequence[Piece]) -> set[str]:
    """Name the pieces, by their keys, in which two versions differ."""
    old, new = dict(_flatten_pieces(before)), dict(_flatten_pieces(after))
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _flatten_pieces(pieces: Sequence[Piece], above: str = "") -> Iterator[tuple[str, str]]:
    for piece in pieces:
        yield f"{above}{piece.key}", piece.head
        yield from _flatten_pieces(piece.parts, f"{above}{piece.key} / ")


def make_distinct(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Rename the second piece of a key, and so on."""
    used: dict[str, int] = {}
    found = []
    for piece in pieces:
        used[piece.key] = count = used.get(piece.key, 0) + 1
        found.append(piece if count == 1 else replace(piece, key=f"{piece.key} ({count})"))
    return tuple(found)


class _Merge:
    """The merge of one file.

    Attributes:
        conflicts: In how many places both sides have contradicted each other so far.
    """

    def __init__(self, labels: Labels, grammar: Grammar | None) -> None:
        self.conflicts = 0
        self._labels = labels
        self._grammar = grammar

    def level(self, base: Sequence[Piece], ours: Sequence[Piece], theirs: Sequence[Piece]) -> str:
        """Merge pieces that are neighbours."""
        ours, theirs = _match_renamed(base, ours, theirs), _match_renamed(base, theirs, ours)
        b, o, t = ({piece.key: piece for piece in side} for side in (base, ours, theirs))
        done = self._move_edits(b, o, t)
        first = self._grammar.first if self._grammar is not None else ()
        keys = sorted(
            order_keys(list(b), list(o), list(t)), key=lambda key: first.index(key) if key in first else len(first)
        )
        return "".join(
            done[key] if key in done else self._merge_one(b.get(key), o.get(key), t.get(key)) for key in keys
        )

    def _move_edits(
        self, base: Mapping[str, Piece], ours: Mapping[str, Piece], theirs: Mapping[str, Piece]
    ) -> dict[str, str]:
        """Move an edit to the helper that took the function's body.

        That is done where the edit contradicts what is left of the function, and nothing in the new one.
        """
        found: dict[str, str] = {}
        added = [piece for key, piece in theirs.items() if key not in base and key not in ours]
        for key, was in base.items():
            mine, new = ours.get(key), theirs.get(key)
            if mine is None or new is None or was.kind not in _FUNCTIONS or not mine.core != was.core != new.core:
                continue
            come = [piece for piece in added if piece.kind == was.kind and f"{piece.key}(" in new.core]
            place = max(come, key=lambda piece: _measure_likeness(was, piece), default=None)
            if place is None or _measure_likeness(was, place) < max(_SAME_BODY, _measure_likeness(was, new)):
                continue
            if not self._try_merge(was.core, mine.core, new.core).conflicts:
                continue
            there = self._try_merge(_rename_function(was, place.key), _rename_function(mine, place.key), place.core)
            if not there.conflicts:
                found |= {key: new.text, place.key: place.lead + there.data.decode()}
        return found

    def _merge_one(self, base: Piece | None, ours: Piece | None, theirs: Piece | None) -> str:
        """Merge the versions of one piece; None means missing."""
        was, mine, new = (piece.core if piece is not None else None for piece in (base, ours, theirs))
        lead = _choose_lead(base, ours, theirs)
        if mine == was:
            return lead + new if new is not None else ""
        if new in (was, mine):
            return lead + mine if mine is not None else ""
        if self._grammar is not None and mine is not None and self._grammar.is_no_edit(was, mine, new):
            return lead + new if new is not None else ""
        if ours is not None and theirs is not None:
            if ours.names and theirs.names:
                united = _unite_imports(base, ours, theirs)
                if (
                    _collect_remarks(ours.core) - _collect_remarks(was or "")
                    <= _collect_remarks(united)
                    >= _collect_remarks(theirs.core)
                ):
                    return lead + united
            if ours.parts and theirs.parts and (base is None or base.parts):
                parts = base.parts if base is not None else ()
                head = self._merge_lines(base.head if base is not None else "", ours.head, theirs.head)
                return lead + head + self.level(parts, ours.parts, theirs.parts)
        return lead + self._merge_lines(was or "", mine or "", new or "")

    def _merge_lines(self, base: str, ours: str, theirs: str) -> str:
        merged = self._try_merge(base, ours, theirs)
        self.conflicts += merged.conflicts
        return merged.data.decode()

    def _try_merge(self, base: str, ours: str, theirs: str) -> Merged:
        merged = merge_lines(base.encode(), ours.encode(), theirs.encode(), self._labels)
        if merged.conflicts and self._grammar is not None:
            merged = self._grammar.merge_again(merged, base, ours, theirs, self._labels)
        return merged


def _choose_lead(base: Piece | None, ours: Piece | None, theirs: Piece | None) -> str:
    """Choose a piece's leading empty lines: the changed ones, else theirs."""
    if ours is None or theirs is None:
        return next(piece.lead for piece in (theirs, ours, base) if piece is not None)
    return ours.lead if base is not None and theirs.lead == base.lead else theirs.lead


def _match_renamed(base: Sequence[Piece], side: Sequence[Piece], other: Sequence[Piece]) -> tuple[Piece, ...]:
    """Give renamed pieces the key of the similar piece they replace.

    One that the other side has as well, under the key that it has, is another piece.
    """
    elsewhere = {piece.key for piece in other}
    before, after = [piece.key for piece in base], [piece.key for piece in side]
    renamed: dict[str, str] = {}
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "replace":
            continue
        gone = [piece for piece in base[i1:i2] if piece.kind and piece.key not in after]
        come = [piece for piece in side[j1:j2] if piece.kind and piece.key not in {*before, *elsewhere}]
        alike = sorted(
            ((_measure_likeness(old, new), -i, -j) for i, old in enumerate(gone) for j, new in enumerate(come)),
            reverse=True,
        )
        taken: set[tuple[str, int]] = set()
        for likeness, i, j in alike:
            old, new = gone[-i], come[-j]
            if old.kind != new.kind or old.named != new.named or (old.named and likeness < _ALIKE):
                continue
            if not taken & {("old", i), ("new", j)}:
                taken |= {("old", i), ("new", j)}
                renamed[new.key] = old.key
    return tuple(replace(piece, key=renamed.get(piece.key, piece.key)) for piece in side)


def _rename_function(function: Piece, name: str) -> str:
    """Return a function's text with another name."""
    return re.sub(rf"\bdef {re.escape(function.key)}\b", f"def {name}", function.core, count=1)


def _measure_likeness(old: Piece, new: Piece) -> float:
    return SequenceMatcher(None, old.core.split(), new.core.split(), autojunk=False).ratio()


def order_keys(base: list[str], ours: list[str], theirs: list[str]) -> list[str]:
    """Order the keys of all sides as in the merged file.

    Theirs, unless only ours have changed the order of what all have; what is not there follows what it followed.
    """
    common = set(base) & set(ours) & set(theirs)
    was, mine, new = ([key for key in side if key in common] for side in (base, ours, theirs))
    first, second = (ours, theirs) if mine != was and new == was else (theirs, ours)
    order = list(first)
    for other in (second, base):
        for index, key in enumerate(other):
            if key in order:
                continue
            before = next((known for known in reversed(other[:index]) if known in order), None)
            after = next((known for known in other[index:] if known in order), None)
            if before is not None:
                order.insert(order.index(before) + 1, key)
            else:
                order.insert(order.index(after) if after is not None else len(order), key)
    return order


def _collect_remarks(imports: str) -> set[str]:
    """Return the comments above and behind import statements."""
    return {line.partition("#")[2] for line in imports.split("\n") if "#" in line}


def _unite_imports(base: Piece | None, ours: Piece, theirs: Piece) -> str:
    """Merge an import: theirs plus our additions, minus our removals."""
    was = set(base.names) if base is not None else set()
    added = [name for name in ours.names if name not in was and name not in theirs.names]
    removed = was - set(ours.names)
    if not removed & set(theirs.names):
        return theirs.core + "".join(f"{name}\n" for name in added)
    kept = [name for name in theirs.names if name not in removed]
    return "".join(f"{name}\n" for name in (*kept, *added))
