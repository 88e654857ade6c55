"""What `vextract export` has left in the comments of a script about the project that it was."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from extractor.values import readers
from extractor.values.errors import UsageError

_NOTE = re.compile(r"^#\s*vextract:\s*(?P<name>[\w.]+)(?P<mark>[:=])\s*(?P<value>.*)$", re.MULTILINE)
_AS_EXPORTED = "leave these comments as `vextract export` wrote them, or remove them"


def hints(path: Path, text: str) -> dict[str, Any]:
    """Return what is said of the project itself.

    Raises:
        UsageError: a comment is not as it was written.
    """
    found = _noted(path, text, ":")
    for name, value in found.items():
        texts = value if name == "features" and isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in texts):
            raise UsageError(f"{path}: `# vextract: {name}:` is no text, or list of texts", hint=_AS_EXPORTED)
    if not str(found.get("package", "proj")).isidentifier():
        raise UsageError(f"{path}: `# vextract: package:` is no name of a package", hint=_AS_EXPORTED)
    return found


def kept(path: Path, text: str) -> dict[str, Any]:
    """Return the settings that verl has no name for, by the project's keys.

    Raises:
        UsageError: a comment is not as it was written.
    """
    return _noted(path, text, "=")


def _noted(path: Path, text: str, mark: str) -> dict[str, Any]:
    try:
        return {
            found["name"]: readers.parse_json(found["value"]) for found in _NOTE.finditer(text) if found["mark"] == mark
        }
    except ValueError as error:
        raise UsageError(f"{path}: a comment `# vextract: ...` is no JSON: {error}", hint=_AS_EXPORTED) from None
