"""Hold the project that a run's code is copied into."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from extractor.importers.runs.copied_code.copying import FOLDER, Copied, Copying
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run_folders import RunFolders
from extractor.pipeline.source import Source
from extractor.values import readers
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree

HEAD = "# vextract:hook  yours: written once, never touched by an upgrade\n"


@dataclass(frozen=True)
class TargetProject:
    """A project, and the run whose code it gets.

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
    places: RunFolders
    settings: Mapping[str, Any]
    release: str = ""

    @cached_property
    def code(self) -> dict[str, str]:
        """Return the package's Python files, by path."""
        files = (file for file in self.tree if file.path.startswith(f"{self.package}/") and file.path.endswith(".py"))
        return {file.path: file.data.decode() for file in files}

    @property
    def copies(self) -> dict[str, str]:
        """Return the Python files copied from the run's checkout, by path."""
        below = tuple(f"{self.package}/custom/{name}" for name in (f"{FOLDER}/", "verl_", "easyr1_"))
        return {path: text for path, text in self.code.items() if path.startswith(below)}

    def text_of(self, path: str) -> str:
        """Return the text of a package file, or ""."""
        return next((file.data.decode() for file in self.tree if file.path == f"{self.package}/{path}"), "")

    def has(self, module: str) -> bool:
        """Tell whether the package has a module: `custom/algorithms`."""
        return f"{self.package}/{module}.py" in self.code

    def choose_manager(self, name: str) -> dict[str, str]:
        """Return settings that choose a reward manager in the project's release."""
        text = self.text_of("settings/reward_keys.py")
        return dict.fromkeys(re.findall(r'^MANAGER = "(.+)"$', text, re.MULTILINE), name)

    def copying(self, *folders: Path) -> Copying:
        """Return a copier of run files that searches `folders` first."""
        places = replace(self.places, folders=(*folders, *self.places.folders))
        return Copying(self.package, self.tree, self.source, places)

    def checkouts(self, path: str) -> str:
        """Return the text of a checkout's Python file, or ""."""
        file = self.places.find(path)
        try:
            text = "" if file is None else readers.read_text(file)
            readers.parse_python(text)
        except (OSError, SyntaxError, UsageError):
            return ""
        return text

    def add_hooks(self, texts: Mapping[str, str], imported_by: Mapping[str, str]) -> Tree:
        """Return the project's tree with more hooks.

        Args:
            texts: By path below the package.
            imported_by: For hooks that register something, by module: the hook of the project that imports it.
        """
        files = {file.path: file for file in self.tree}
        for path, text in texts.items():
            place, data = f"{self.package}/{path}", text.encode()
            # A module that was copied for something else before may hand on more: one has all that the other has.
            if path.startswith(f"custom/{FOLDER}/") and place in files and len(files[place].data) > len(data):
                continue
            files[place] = File(place, FileKind.HOOK, data)
        for module, hook in imported_by.items():
            path = f"{self.package}/{hook}.py"
            line = f"\nfrom . import {module.rpartition('/')[2]}  # noqa: E402, F401  what the run names\n"
            if line.encode() not in files[path].data:
                files[path] = replace(files[path], data=files[path].data.rstrip() + b"\n" + line.encode())
        return Tree.of(list(files.values()))


@dataclass(frozen=True)
class CopyResult:
    """A project's tree with a copy in it.

    Attributes:
        tree: All files.
        remarks: What a user should know.
        settings: Those that name the copy now.
        places: Files and folders of the checkout that it was taken from.
    """

    tree: Tree
    remarks: list[Remark] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    places: tuple[str, ...] = ()


def remark_on_copy(key: str, value: Any, place: str, target: str, copied: Copied) -> list[Remark]:
    """Report where something was copied, what it lacks, and needed packages."""
    found = [Remark(key, value, "to do", f"{target} cannot be imported: {why}") for why in copied.missing]
    found.append(Remark(key, value, "changed", f"copied from {place} to {target}, with what it imports"))
    if copied.packages:
        needs = f"{target} needs packages: pip install {' '.join(copied.packages)}"
        found.append(Remark(key, value, "to do", needs))
    return found
