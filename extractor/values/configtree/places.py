"""Where an entry of a defaults list leads: to which file, and to which part of the config."""

from __future__ import annotations

import posixpath


def file_of(folder: str, name: str) -> str:
    """Return the path of a config below the top folder, by the folder that names it and the name that it has there."""
    path = posixpath.normpath(posixpath.join("/", folder, name)).lstrip("/")
    return path if path.endswith((".yaml", ".yml")) else f"{path}.yaml"


def package_under(package: str, at: str) -> str:
    """Return the package that `@at` means in a file whose own package is this one."""
    if at.partition(".")[0] == "_global_":
        return at.partition(".")[2]
    if at in ("", "_here_"):
        return package
    return f"{package}.{at}" if package else at
