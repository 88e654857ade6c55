"""The modules of its repository that a program reaches by its imports, as far as their text tells."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from extractor.usecases.fromrun.files import Places
from extractor.usecases.fromrun.python.files import module_at
from extractor.values import readers
from extractor.values.errors import UsageError

# A repository may have whole libraries.
_MOST = 60


def texts(tree: ast.Module, text: str, path: Path, places: Places | None) -> Iterator[str]:
    """Yield the text of a program and of the modules that it imports, those that these import, and so on.

    Args:
        tree: The program.
        text: The same.
        path: Of the program.
        places: Where it may have been started from; None: nothing that it imports is known.
    """
    yield text
    seen, waiting = {path.resolve()}, deque([(tree, path)])
    while waiting and places is not None:
        module, place = waiting.popleft()
        for file in _imported(module, place, places):
            if file.resolve() in seen or len(seen) > _MOST:
                continue
            seen.add(file.resolve())
            try:
                text = readers.read_text(file)
                inner = readers.python(text)
            except (OSError, SyntaxError, UsageError):
                continue
            yield text
            waiting.append((inner, file))


def _imported(tree: ast.Module, path: Path, places: Places) -> Iterator[Path]:
    """Yield the files of a repository that a module of it imports, wherever it does."""
    names: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names += [
                (module, node.level),
                *((f"{module}.{alias.name}".lstrip("."), node.level) for alias in node.names),
            ]
    for name, level in dict.fromkeys(names):
        file = module_at(name, path, level, places)
        if file is not None:
            yield file
