"""Where the paths of a run lead: it may have been started from elsewhere than from its script's folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from extractor.values import readers

# How far above a script the root of its repository may be.
_ABOVE = 8
_CHECKOUT = ".git"
_SCRIPTS = (".sh", ".bash")
_VERL = "verl/__init__.py"
# A checkout that was unpacked from an archive has no .git, and not all have a package of their own.
_ROOT = (_CHECKOUT, "pyproject.toml", "setup.py", _VERL)
# What lies at the root of those that have nothing of that.
_AT_ROOT = ("LICENSE", "LICENSE.md", "LICENSE.txt", "requirements.txt")
# A name on the hub; what ends like a file of rows is none.
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_ROWS = re.compile(r"\.(parquet|jsonl?|csv|arrow)$")
# How far below the root of a repository its own copy of verl may be.
_BELOW = 3
# How many parts the path of a folder has that may be a checkout: not `/home`.
_DEEPER = 2
# Where packages often are, below the root.
_SOURCES = "src"
# What says that a folder is meant to be installed, and how far below the root of a repository one may be.
_INSTALLED, _INSTALLED_BELOW = ("pyproject.toml", "setup.py"), 2


@dataclass(frozen=True)
class Places:
    """The directories that a run may have been started from, the likeliest first.

    Attributes:
        folders: Absolute.
        is_said: Whether the first is what the user says.
        home: The outermost folder that is the run's own; None: not known.
    """

    folders: tuple[Path, ...]
    is_said: bool = False
    home: Path | None = None

    @classmethod
    def of(cls, script: Path, started_in: Path | None) -> Places:
        """Return the places of a script: what the user says, its own folder, those above it, and the current one.

        Args:
            script: The run.
            started_in: What the user says; None: nothing.
        """
        found = [] if started_in is None else [started_in.resolve()]
        found += _above(script.resolve().parent)
        home = found[-1]
        found += [home / _SOURCES, *_with_verl(home), *_installed(home), Path.cwd()]
        return cls(tuple(dict.fromkeys(found)), started_in is not None, home)

    def with_python_path(self, value: str) -> Places:
        """Return the places, and those that the run's PYTHONPATH names and that are here."""
        named = [Path(item) for item in value.split(os.pathsep) if item.startswith("/")]
        return replace(self, folders=tuple(dict.fromkeys([*self.folders, *filter(Path.is_dir, named)])))

    def gone_to(self, path: str) -> Places:
        """Return the places of a command, of which the likeliest is the directory that its script has gone to.

        Args:
            path: Of that, as the script has it; it may also be somebody else's.
        """
        there = Path(os.path.normpath(path))
        above = self.home is not None and self.home != there and self.home.is_relative_to(there)
        if above and len(there.parts) > _DEEPER and there != Path.home():  # of a checkout that nothing marks as one
            return replace(self, folders=tuple(dict.fromkeys([there, *self.folders])), home=there)
        tried = [there, *self.folders_like(path)] if path.startswith("/") else []
        known = (folder for folder in tried if self.home is not None and folder.is_relative_to(self.home))
        found = next((folder for folder in known if readers.is_there(folder) and folder.is_dir()), None)
        return self if found is None else replace(self, folders=tuple(dict.fromkeys([found, *self.folders])))

    @property
    def root(self) -> Path | None:
        """Return the likeliest root of a repository among them; None where there is none."""
        return next((_root(folder) for folder in self.folders if _is_root(folder)), None)

    def folders_like(self, path: str, *, by_last: bool = False) -> list[Path]:
        """Return the folders that a path of the run may mean: also where it begins in a folder of somebody else's.

        `~/verl/recipe/x/config` in a checkout that has `recipe/x/config` is that one; with `by_last` also in one that
        has a `config`.
        """
        parts = Path(path).parts
        ends = [Path(path), *(Path(*parts[start:]) for start in range(1, len(parts) - (not by_last)))]
        return [folder / end for end in ends for folder in self.folders]

    def find(self, path: str) -> Path | None:
        """Return the file that a path of the run names; None where there is none."""
        wanted = Path(path).expanduser()
        return next((folder / wanted for folder in self.folders if is_file(folder / wanted)), None)

    def within(self, path: str, folder: str) -> Path | None:
        """Return the file or directory that a path names in the run's own checkout; None where it is not there.

        Args:
            path: As a script has it.
            folder: Where the script has gone; other places that it may have been started from are tried after it. For
                a script it may also be somebody else's.
        """
        tried = [start / path for start in (Path(folder), *self.folders)]
        if path.endswith(_SCRIPTS):
            tried += self.folders_like(str(tried[0]))
        for wanted in tried:
            found = Path(os.path.normpath(wanted))
            if self.home is not None and readers.is_there(found) and found.resolve().is_relative_to(self.home):
                return found
        return None

    def find_like(self, path: str) -> Path | None:
        """Return the file that a path of the run names, also where it begins in a folder of somebody else's."""
        return self.find(path) or next((file for file in self.folders_like(path) if is_file(file)), None)


def is_file(path: Path) -> bool:
    """Tell whether a path is that of a file; a text that is too long for one is none."""
    return readers.is_there(path) and path.is_file()


def is_on_the_hub(name: str) -> bool:
    """Tell whether a name may be one of the hub's, of a model or of data."""
    return _ON_THE_HUB.fullmatch(name) is not None and _ROWS.search(name) is None


def _above(folder: Path) -> Iterator[Path]:
    """Yield a folder and those above it, up to the root of a repository; without one, the folder alone."""
    root = _root(folder)
    yield from (parent for parent in (folder, *folder.parents) if parent.is_relative_to(root))


def _root(folder: Path) -> Path:
    """Return the root of the repository that a folder is in; without one, the folder.

    A package of its own in the repository, such as the whole of verl, does not end it. Nor does a repository that lies
    in a checkout of verl, as that of upstream's recipes does: it is started from there.
    """
    parents = [folder, *folder.parents][:_ABOVE]
    checkouts = (parent for parent in parents if (parent / _CHECKOUT).exists())
    packages = (parent for parent in parents if _is_root(parent))
    others = (parent for parent in parents if any((parent / name).is_file() for name in _AT_ROOT))
    own = next(checkouts, None) or next(packages, None) or next(others, folder)
    return next((parent for parent in parents if (parent / _VERL).exists() and own.is_relative_to(parent)), own)


def _with_verl(root: Path) -> Iterator[Path]:
    """Yield the folders of a repository that have a verl of their own in them."""
    if _is_root(root):
        for depth in range(1, _BELOW + 1):
            for file in sorted(root.glob("*/" * depth + _VERL)):
                if not _is_hidden(file.parents[1], root):
                    yield file.parents[1]


def _installed(root: Path) -> Iterator[Path]:
    """Yield the folders in a repository that are installed from it: `pip install -e ./grader`."""
    if _is_root(root):
        for depth in range(1, _INSTALLED_BELOW + 1):
            found = {file.parent for name in _INSTALLED for file in root.glob("*/" * depth + name)}
            for folder in sorted(found):
                if not _is_hidden(folder, root):
                    yield from (folder, folder / _SOURCES)


def _is_hidden(folder: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in folder.relative_to(root).parts)


def _is_root(folder: Path) -> bool:
    """Tell whether a folder looks like the root of a repository: also by a README beside a folder that holds a verl."""
    if any((folder / name).exists() for name in _ROOT):
        return True
    if not any(folder.glob("README*")):
        return False
    return any(not (file.parents[1] / _CHECKOUT).exists() for file in folder.glob(f"*/{_VERL}"))
