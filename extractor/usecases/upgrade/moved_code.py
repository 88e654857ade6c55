"""Carry the owner's edits of code that moved to another module.

What was emitted and what its owner made of it are handed to the module where a function, a class or a constant stands
today, as if they had always stood there. A merge then sees the edits alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from extractor.pipeline.merge.files import split_pieces
from extractor.pipeline.merge.pieces import Piece, Unsupported
from extractor.usecases.upgrade.relocate import Relocated, renamed
from extractor.usecases.upgrade.verdicts import FileOnDisk
from extractor.values.moves import moved_path
from extractor.values.tree import FileKind, Tree

_DEFINITIONS = ("FunctionDef", "AsyncFunctionDef", "ClassDef", "Assign", "AnnAssign")


def follow_moved_code(layout: Relocated, new: Tree, package: str) -> Relocated:
    """Apply edits of code that moved to its new module.

    What is edited and stands nowhere any more stays where it is.

    Args:
        layout: The sides of an upgrade, each file in its place of today.
        new: The new tree.
        package: The project's.
    """
    modules = {file.path: file.data for file in new if file.kind is FileKind.TEMPLATE and file.path.endswith(".py")}
    edited = {
        file.path: found.data
        for file in layout.lock.files
        if file.kind is FileKind.TEMPLATE and file.path.endswith(".py")
        for found in [layout.disk.get(file.path)]
        if found is not None and found.plain and found.data not in (None, layout.base[file.path])
    }
    if not edited:
        return layout
    today = {path: _definitions(path, data) for path, data in modules.items()}
    homes = _homes(layout, today)
    base, disk = dict(layout.base), dict(layout.disk)
    arriving: dict[str, list[tuple[str, str, str]]] = {}
    carried, gone = dict[str, tuple[str, ...]](), set[str]()
    for path, ours in edited.items():
        moving = _moving(path, base[path], today.get(path, {}), homes)
        sides = _split(path, base[path], ours or b"", moving, path in modules, package)
        if sides is None:
            continue
        left, arrived = sides
        for place, code in arrived.items():
            arriving.setdefault(place, []).append(code)
        if path in modules:
            base[path], disk[path] = left[0].encode(), FileOnDisk(left[1].encode())
            continue
        carried[path] = tuple(arrived)
        if left[0] == left[1]:
            gone.add(path)
            del disk[path]
    for place, codes in arriving.items():
        found = disk.get(place)
        was, mine, imports = zip(*codes, strict=True)
        base[place] = _joined(base.get(place), was)
        disk[place] = FileOnDisk(_joined(found.data if found is not None else None, (*mine, *imports)))
    changed = {path for path in modules if disk.get(path) != layout.disk.get(path)}
    return replace(
        layout,
        lock=replace(layout.lock, files=tuple(file for file in layout.lock.files if file.path not in gone)),
        base=base,
        disk=disk,
        renamed=layout.renamed | changed,
        carried=carried,
    )


def _homes(layout: Relocated, today: Mapping[str, Mapping[str, Piece]]) -> dict[str, list[str]]:
    """Map symbols to the modules that newly define them."""
    found: dict[str, list[str]] = {}
    for path, symbols in today.items():
        here, was = layout.disk.get(path), layout.base.get(path)
        if (here is None) != (was is None) or (here is not None and (not here.plain or here.data is None)):
            continue  # its owner removed it, or has another file there
        for symbol in symbols.keys() - (_definitions(path, was).keys() if was is not None else set()):
            found.setdefault(symbol, []).append(path)
    return found


def _definitions(path: str, data: bytes) -> dict[str, Piece]:
    """Return a module's top-level definitions; none if it is no Python."""
    return {piece.key: piece for piece in _pieces(path, data) or () if piece.kind in _DEFINITIONS and piece.named}


def _pieces(path: str, data: bytes) -> Sequence[Piece] | None:
    try:
        return split_pieces(path, data.decode("utf-8"))
    except (UnicodeDecodeError, Unsupported):
        return None


def _moving(path: str, base: bytes, here: Iterable[str], homes: Mapping[str, list[str]]) -> dict[str, str]:
    """Map symbols that left a module to their new module."""
    found = {}
    taken_in = "/".join((path.partition("/")[0], moved_path(path.partition("/")[2])))
    for symbol in sorted(_definitions(path, base).keys() - set(here)):
        places = [place for place in homes.get(symbol, ()) if place != path]
        if taken_in in places or len(places) == 1:
            found[symbol] = taken_in if taken_in in places else places[0]
    return found


def _split(
    path: str, base: bytes, ours: bytes, moving: Mapping[str, str], stays: bool, package: str
) -> tuple[tuple[str, str], dict[str, tuple[str, str, str]]] | None:
    """Take the moved edits out of both versions of a module.

    Returns:
        What is left of both, and place -> what both bring there, and the imports that only the owner's has. None where
        nothing that moves is edited.
    """
    was, mine = _pieces(path, base), _pieces(path, ours)
    if was is None or mine is None or not moving:
        return None
    before, after = ({piece.key: piece for piece in side} for side in (was, mine))
    edited = {key for key in moving if key not in after or after[key].core != before[key].core}
    added = {piece.key for piece in mine if piece.key not in before and not piece.names} if not stays else set()
    main = Counter(moving.values()).most_common(1)[0][0]
    homes = {key: moving[key] for key in edited} | dict.fromkeys(added, main)
    if not homes:
        return None
    arrived = {}
    for place in sorted(set(homes.values())):
        keys = {key for key, home in homes.items() if home == place}
        sides = [_pieces(path, renamed(data, path, place, package)) or () for data in (base, ours)]
        known, named = ([name for piece in side for name in piece.names] for side in sides)
        above = "".join(f"{name}\n" for name in known)
        theirs, own = (above + _text(piece for piece in side if piece.key in keys) for side in sides)
        arrived[place] = (theirs, own, "".join(f"{name}\n" for name in named if name not in known))
    left = [[piece for piece in side if piece.key not in homes] for side in (was, mine)]
    if not stays:
        left = [[piece for piece in side if not piece.names] for side in left]
    return (_text(left[0]), _text(left[1])), arrived


def _text(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def _joined(data: bytes | None, more: Iterable[str]) -> bytes:
    return "\n\n".join(filter(None, ((data or b"").decode("utf-8"), *more))).encode()
