"""Text files that a module opens beside itself: `open(os.path.join(os.path.dirname(__file__), "prompts.txt"))`.

Of a folder that it names, `os.path.join(here, "..", "prompts")`, all of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from extractor.values import readers
from extractor.values.errors import UsageError

_LONGEST = 200
_MOST = 50


def opened(
    text: str, place: Path | str | None, released: Mapping[str, bytes], root: Path | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the files that a module's text names below its own folder, by their paths there, each with what it holds.

    Args:
        text: The module's.
        place: The module's file, or its path in a release.
        released: The files of that release.
        root: The checkout that the module lies in; of folders outside it nothing is read.
    """
    if "__file__" not in text or place is None:
        return
    tree = readers.python_again(text)
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    for name in dict.fromkeys(value for value in constants if isinstance(value, str) and 0 < len(value) < _LONGEST):
        path = PurePosixPath(name)
        if not name.isprintable() or path.is_absolute() or ".." in path.parts or path.suffix == ".py":
            continue
        try:
            if isinstance(place, Path):
                yield str(path), _read(place.parent, name)
            else:
                yield str(path), released[str(PurePosixPath(place).parent / path)].decode()
        except (KeyError, OSError, UnicodeDecodeError, UsageError):
            continue
    if isinstance(place, Path) and root is not None:
        for name in _folders(tree):
            yield from _below(place.parent, name, root)


def _folders(tree: ast.Module) -> Iterator[str]:
    """Yield the paths that code joins to another, in the order of their parts: `join(x, "..", "a")`, `x / "a"`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "join":
            parts = [item.value for item in node.args[1:] if isinstance(item, ast.Constant)]
            if parts and len(parts) == len(node.args) - 1 and all(isinstance(part, str) for part in parts):
                yield "/".join(map(str, parts))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            value = node.right.value if isinstance(node.right, ast.Constant) else None
            if isinstance(value, str):
                yield value


def _below(folder: Path, name: str, root: Path) -> Iterator[tuple[str, str]]:
    """Yield the text files of a folder beside a module, or beside its own folder."""
    path = PurePosixPath(name)
    inner = path.relative_to("..") if path.parts[:1] == ("..",) else path
    if not name.isprintable() or path.is_absolute() or ".." in inner.parts or not inner.parts:
        return
    place = folder / path
    try:
        is_inside = place.is_dir() and place.resolve().is_relative_to(root.resolve())
        files = sorted(readers.files_below(place)) if is_inside else []
        for file in files if len(files) <= _MOST else ():
            if file.suffix != ".py":
                inside = file.relative_to(place).as_posix()
                yield f"{path}/{inside}", _read(place, inside)
    except (OSError, UnicodeDecodeError, UsageError):
        return


def _read(folder: Path, name: str) -> str:
    """Return the text of a file below a folder; what a link there leads out to is not below it."""
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise FileNotFoundError(place)
    return readers.read_text(place)
