"""The modules of its repository that a program reaches by its imports, as far as their text tells."""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from extractor.importers.runs.places import Places
from extractor.importers.runs.python.files import module_at
from extractor.values import readers
from extractor.values.errors import UsageError

# A repository may have whole libraries.
_MOST = 60


def texts(text: str, path: Path, places: Places | None) -> Iterator[str]:
    """Yield the text of a program and of the modules that it imports, those that these import, and so on.

    Args:
        text: Of the program.
        path: Of the program.
        places: Where it may have been started from; None: nothing that it imports is known.

    Raises:
        SyntaxError: the program is no Python.
    """
    yield text
    seen, waiting = {path.resolve()}, deque([(text, path)])
    while waiting and places is not None:
        module, place = waiting.popleft()
        found = (module_at(name, place, level, places) for name, level in _imports(module))
        for file in dict.fromkeys(filter(None, found)):
            if file.resolve() in seen or len(seen) > _MOST:
                continue
            seen.add(file.resolve())
            try:
                inner = readers.read_text(file)
                _imports(inner)
            except (OSError, SyntaxError, UsageError):
                continue
            yield inner
            waiting.append((inner, file))


@lru_cache(maxsize=1024)  # of a command it is asked several times whether it starts this or that
def _imports(text: str) -> tuple[tuple[str, int], ...]:
    """Return the modules that a text imports, wherever it does: each dotted, with the dots before it.

    Raises:
        SyntaxError: it is no Python.
    """
    names: list[tuple[str, int]] = []
    for node in ast.walk(readers.python(text)):
        if isinstance(node, ast.Import):
            names += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names += [(module, node.level)]
            names += [(f"{module}.{alias.name}".lstrip("."), node.level) for alias in node.names]
    return tuple(dict.fromkeys(names))
