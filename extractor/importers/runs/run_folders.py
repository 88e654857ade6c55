"""Find a run's files in folders it may have started from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from extractor.values import limits, readers
from extractor.values.errors import UsageError

_VERL = "verl/__init__.py"
# What marks a folder as the root of a checkout: surely, likely, and where nothing else does.
_CHECKOUT = ".git"
_ROOT = (_CHECKOUT, "pyproject.toml", "setup.py", _VERL)
_AT_ROOT = ("LICENSE", "LICENSE.md", "LICENSE.txt", "requirements.txt")
# How far above a script its checkout begins at most, and how far below that an own verl or package lies.
_ABOVE, _BELOW = 8, 3
_INSTALLED, _INSTALLED_BELOW, _SOURCES = ("pyproject.toml", "setup.py"), 2, "src"
# A name on the hub, and endings that none has.
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_MOST_FILES = 4000
_ROWS = re.compile(r"\.(parquet|jsonl?|csv|arrow)$")


@dataclass(frozen=True)
class RunFolders:
    """The folders a run may have started from, likeliest first.

    Attributes:
        folders: Absolute paths.
        is_said: Whether the user has named the first.
        home: The outermost folder of the run's checkout; None: not known.
    """

    folders: tuple[Path, ...]
    is_said: bool = False
    home: Path | None = None

    @classmethod
    def of(cls, script: Path, started_in: Path | None) -> RunFolders:
        """Return a script's folders, beginning with `started_in` if given."""
        own = script.resolve().parent
        home = _find_root(own)
        found = [] if started_in is None else [started_in.resolve()]
        found += [folder for folder in (own, *own.parents) if folder.is_relative_to(home)]
        found += [home / _SOURCES, *_list_packages(home), Path.cwd()]
        return cls(tuple(dict.fromkeys(found)), started_in is not None, home)

    @property
    def start(self) -> Path:
        """Return where the run is started: as said, or above its script the nearest folder with verl."""
        above = [folder for folder in (self.folders[0], *self.folders[0].parents) if (folder / _VERL).exists()]
        return self.folders[0] if self.is_said or self.home is None else next(iter(above), self.home)

    def add_python_path(self, value: str) -> RunFolders:
        """Return the places with the existing folders of a PYTHONPATH."""
        named = [Path(item) for item in value.split(os.pathsep) if item.startswith("/")]
        return replace(self, folders=tuple(dict.fromkeys([*self.folders, *filter(Path.is_dir, named)])))

    def change_directory(self, path: str) -> RunFolders:
        """Return the folders with a script's changed directory first."""
        there = Path(os.path.normpath(path))
        tried = [there, *self.find_folders_like(path)] if path.startswith("/") else []
        known = (folder for folder in tried if self.home is not None and folder.is_relative_to(self.home))
        found = next((folder for folder in known if readers.is_there(folder) and folder.is_dir()), None)
        return self if found is None else replace(self, folders=tuple(dict.fromkeys([found, *self.folders])))

    @property
    def root(self) -> Path | None:
        """Return the likeliest root of a checkout, or None."""
        return next((_find_root(folder) for folder in self.folders if _is_root(folder)), None)

    def find_folders_like(self, path: str, *, by_last: bool = False) -> list[Path]:
        """Return folders a path may mean, also without its first parts.

        `~/verl/recipe/x/config` may be `recipe/x/config` of the checkout; with `by_last` also its `config`.
        """
        parts = Path(path).parts
        ends = [Path(path), *(Path(*parts[start:]) for start in range(1, len(parts) - (not by_last)))]
        return [folder / end for end in ends for folder in self.folders]

    def find(self, path: str) -> Path | None:
        """Return the file that a run's path names, or None."""
        wanted = Path(path).expanduser()
        return next((folder / wanted for folder in self.folders if is_file(folder / wanted)), None)

    def find_like(self, path: str) -> Path | None:
        """Return a path's file, also without its first parts, or None."""
        return self.find(path) or next((file for file in self.find_folders_like(path) if is_file(file)), None)


def is_file(path: Path) -> bool:
    """Tell whether a path is a file; overlong paths are not."""
    return readers.is_there(path) and path.is_file()


def is_on_the_hub(name: str) -> bool:
    """Tell whether a name may be a Hub model or dataset."""
    return _ON_THE_HUB.fullmatch(name) is not None and _ROWS.search(name) is None


def _find_root(folder: Path) -> Path:
    """Return the checkout's root above a folder, else the folder itself.

    A checkout inside one of verl, as that of upstream's recipes, is started from verl's.
    """
    parents = [folder, *folder.parents][:_ABOVE]
    checkouts = (parent for parent in parents if (parent / _CHECKOUT).exists())
    packages = (parent for parent in parents if _is_root(parent))
    others = (parent for parent in parents if any((parent / name).is_file() for name in _AT_ROOT))
    own = next(checkouts, None) or next(packages, None) or next(others, folder)
    return next((parent for parent in parents if (parent / _VERL).exists() and own.is_relative_to(parent)), own)


def _list_packages(root: Path) -> Iterator[Path]:
    """Yield a checkout's folders with verl, then its installed package folders."""
    if not _is_root(root):
        return
    found = [file.parents[1] for depth in range(1, _BELOW + 1) for file in sorted(root.glob("*/" * depth + _VERL))]
    for depth in range(1, _INSTALLED_BELOW + 1):
        for folder in sorted({file.parent for name in _INSTALLED for file in root.glob("*/" * depth + name)}):
            found += [folder, folder / _SOURCES]
    yield from (folder for folder in found if not any(part[0] == "." for part in folder.relative_to(root).parts))


def _is_root(folder: Path) -> bool:
    """Tell whether a folder looks like the root of a checkout."""
    if any((folder / name).exists() for name in _ROOT):
        return True
    verls = folder.glob(f"*/{_VERL}") if any(folder.glob("README*")) else ()
    return any(not (file.parents[1] / _CHECKOUT).exists() for file in verls)


def list_python_files(places: RunFolders) -> Iterator[tuple[str, str]]:
    """Yield path and text of the checkout's Python files."""
    root = places.root
    if root is None:
        return
    try:
        below = readers.list_files_below(root, lambda folder: not folder.name.startswith("."))
        found = sorted(file for file in below if file.suffix == ".py")
    except OSError:
        return
    for file in found[:_MOST_FILES]:
        try:
            yield file.relative_to(root).as_posix(), readers.decode_python(readers.read_bytes(file, limits.MAX_TEXT))
        except (OSError, SyntaxError, UsageError, UnicodeDecodeError):
            continue
