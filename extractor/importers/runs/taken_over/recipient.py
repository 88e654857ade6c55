"""A project that takes over what its run's checkout has: copies among the hooks, and the hooks that import them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from extractor.importers.runs.files import Copied, Copying, Places
from extractor.importers.runs.meaning import Remark
from extractor.pipeline.source import Source
from extractor.values import readers
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree

_COPIES = "custom/from_run/"


@dataclass(frozen=True)
class Recipient:
    """A project, and the run that it takes over.

    Attributes:
        tree: The project's files.
        package: Its package.
        source: verl, of the run's release.
        places: Where the run may have been started from.
        settings: The run's, by the project's keys.
        release: Of verl, that the project is of.
    """

    tree: Tree
    package: str
    source: Source
    places: Places
    settings: Mapping[str, Any]
    release: str = ""

    @cached_property
    def code(self) -> dict[str, str]:
        """Return the package's Python files, by path."""
        below = f"{self.package}/"
        return {
            file.path: file.data.decode()
            for file in self.tree
            if file.path.startswith(below) and file.path.endswith(".py")
        }

    def text_of(self, path: str) -> str:
        """Return the text of one of the package's files; "" where it has none."""
        found = (file.data.decode() for file in self.tree if file.path == f"{self.package}/{path}")
        return next(found, "")

    def with_manager(self, name: str) -> dict[str, str]:
        """Return the settings that choose a reward manager, as the project's release calls them."""
        text = self.code.get(f"{self.package}/settings/reward_keys.py", "")
        return dict.fromkeys(re.findall(r'^MANAGER = "(.+)"$', text, re.MULTILINE), name)

    def has(self, module: str) -> bool:
        """Tell whether the package has a module: `custom/algorithms`."""
        return f"{self.package}/{module}.py" in self.code

    def copying(self, folders: Sequence[Path] = ()) -> Copying:
        """Return what copies files of the run into the project; `folders` are looked in before its places."""
        places = replace(self.places, folders=(*folders, *self.places.folders))
        return Copying(self.package, self.tree, self.source, places)

    def text(self, path: str) -> str:
        """Return the text of a Python file of the run's checkout; "" where there is none."""
        file = self.places.find(path)
        try:
            text = "" if file is None else readers.read_text(file)
            readers.python(text)
        except (OSError, SyntaxError, UsageError):
            return ""
        return text

    def with_hooks(self, texts: Mapping[str, str], imported_by: Mapping[str, str]) -> Tree:
        """Return the project's tree with more hooks.

        Args:
            texts: By path below the package.
            imported_by: For hooks that register something, by module: the hook of the project that imports it.
        """
        files = {file.path: file for file in self.tree}
        for path, text in texts.items():
            place, data = f"{self.package}/{path}", text.encode()
            # Copied for something else before, a module may hand on more: one has all that the other has.
            if path.startswith(_COPIES) and place in files and len(files[place].data) > len(data):
                continue
            files[place] = File(place, FileKind.HOOK, data)
        for module, hook in imported_by.items():
            path = f"{self.package}/{hook}.py"
            line = f"\nfrom . import {module.rpartition('/')[2]}  # noqa: E402, F401  what the run names\n"
            files[path] = replace(files[path], data=files[path].data.rstrip() + b"\n" + line.encode())
        return Tree.of(list(files.values()))


@dataclass(frozen=True)
class Taken:
    """A project's tree with what was taken over, the settings that name it now, and what a user should know.

    `places` are the files and folders of the checkout that it was taken from, `reads` the settings that it asks the
    config for by the names that the run has for them.
    """

    tree: Tree
    remarks: list[Remark] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()


def copied_remarks(key: str, value: Any, place: str, target: str, copied: Copied) -> list[Remark]:
    """Say from where to where something was copied, the packages that it needs, and what it cannot have.

    Args:
        key, value: The setting that names it.
        place: Where it was.
        target: The hook that it is in.
        copied: The copy.
    """
    found = [Remark(key, value, "changed", f"copied from {place} to {target}, with what it imports")]
    if copied.packages:
        needs = f"{target} needs packages: pip install {' '.join(copied.packages)}"
        found.append(Remark(key, value, "to do", needs))
    if copied.absent:
        why = f"{target} may import what cannot be had here: {'; '.join(copied.absent)}"
        found.append(Remark(key, value, "to do", why))
    return found
