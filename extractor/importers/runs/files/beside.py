"""Text files that a module opens beside itself: `open(os.path.join(os.path.dirname(__file__), "prompts.txt"))`.

A module that it loads by its file is one of them. Of a folder that it names, `os.path.join(here, "..", "prompts")`, all
of them. A file above its folder, `Path(__file__).parents[2] / "configs" / "weights.yaml"`, has its place in a copy of
the checkout's folders.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from extractor.values import readers
from extractor.values.errors import UsageError

_LONGEST = 200
_LOADS_FILES = re.compile(r"\b(?:spec_from_file_location|SourceFileLoader|run_path)\(")
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
        if not _may_lie_below(path, text):
            continue
        try:
            if isinstance(place, Path):
                yield str(path), _read(place.parent, name)
            else:
                yield str(path), released[str(PurePosixPath(place).parent / path)].decode()
        except (KeyError, OSError, UnicodeDecodeError, UsageError):
            continue
    if isinstance(place, Path) and root is not None:
        for name in joined(tree):
            yield from _below(place.parent, name, root)


def above(text: str, place: Path | None, root: Path | None) -> dict[str, str]:
    """Return the files that a module's text names in a folder above its own, by their paths in the checkout.

    Args:
        text: The module's.
        place: The module's file; None: it is none of a checkout.
        root: The checkout.
    """
    if "__file__" not in text or place is None or root is None or not place.resolve().is_relative_to(root.resolve()):
        return {}
    found = {}
    own, *folders = (folder for folder in place.resolve().parents if folder.is_relative_to(root.resolve()))
    for name in dict.fromkeys(joined(readers.python_again(text))):
        path = PurePosixPath(name)
        if not _may_lie_below(path, text) or not path.suffix or len(name) > _LONGEST or (own / path).is_file():
            continue
        try:
            folder = next(folder for folder in folders if (folder / path).is_file())
            found[(folder / path).relative_to(root.resolve()).as_posix()] = _read(folder, name)
        except (StopIteration, OSError, UnicodeDecodeError, UsageError):
            continue
    return found


def _may_lie_below(path: PurePosixPath, text: str) -> bool:
    """Tell whether a path may be that of a file below a folder, and of no module but one that is loaded by its file."""
    is_odd = not str(path).isprintable() or path.is_absolute() or ".." in path.parts
    return not is_odd and (path.suffix != ".py" or _LOADS_FILES.search(text) is not None)


def joined(tree: ast.Module) -> Iterator[str]:
    """Yield the paths that code joins to another, in the order of their parts: `join(x, "..", "a")`, `x / "a"`."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call):
            joined = ast.unparse(node.func).rpartition(".")[2]
            parts = node.args[1:] if joined == "join" else node.args if joined == "joinpath" else []
        elif isinstance(node, ast.BinOp):
            while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant):
                parts = [node.right, *parts]
                node = node.left
        texts = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if texts and len(texts) == len(parts):
            yield "/".join(texts)


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
