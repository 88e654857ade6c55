"""Resolve a defaults list's entry to a file and package."""

import posixpath
from typing import Any


def find_file(folder: str, name: str) -> str:
    """Return a config's path from the top folder ("../" if outside)."""
    path = find_folder(folder, name)
    return path if path.endswith((".yaml", ".yml")) else f"{path}.yaml"


def find_folder(folder: str, name: str) -> str:
    """Return a group's path from the top folder ("" for itself)."""
    path = posixpath.normpath(posixpath.join(folder, name)).lstrip("/")
    return "" if path == "." else path


def name_group_package(group: str) -> str:
    """Return a group's own package: `../optim`, `/db/server`."""
    return group.replace("../", "").strip("/").replace("/", ".")


def join_package(package: str, at: str) -> str:
    """Return the package that `@at` means inside another package."""
    if at.partition(".")[0] == "_global_":
        return at.partition(".")[2]
    if at in ("", "_here_"):
        return package
    return f"{package}.{at}" if package else at


def put_below(package: str, body: Any) -> Any:
    """Return a config's body below its package."""
    for part in reversed(package.split(".") if package else []):
        body = {part: body}
    return body


def list_choice_keys(group: str, package: str, at: str | None, by_itself: str) -> list[str]:
    """Return the keys that choose of a group: `db@here.there`, `db@there`, `db`.

    Args:
        group: As a path from the top folder.
        package: Of the file whose defaults list names it.
        at: What follows its `@` there; None: it has none.
        by_itself: The package that the group has by itself.
    """
    full = join_package(package, by_itself if at is None else at)
    keys = [f"{group}@{full}", f"{group}@{at or ''}"]
    return [*keys, group] if full == by_itself or not at or at.startswith("_global_") else keys
