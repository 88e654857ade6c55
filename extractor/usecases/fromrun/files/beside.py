"""Text files that a module opens beside itself: `open(os.path.join(os.path.dirname(__file__), "prompts.txt"))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from extractor.values import readers
from extractor.values.errors import UsageError

_LONGEST = 200


def opened(text: str, place: Path | str | None, released: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield the files that a module's text names below its own folder, by their paths there, each with what it holds.

    Args:
        text: The module's.
        place: The module's file, or its path in a release.
        released: The files of that release.
    """
    if "__file__" not in text or place is None:
        return
    constants = (node.value for node in ast.walk(readers.python(text)) if isinstance(node, ast.Constant))
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


def _read(folder: Path, name: str) -> str:
    """Return the text of a file below a folder; what a link there leads out to is not below it."""
    place = (folder / name).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise FileNotFoundError(place)
    return readers.read_text(place)
