"""Find a copy of verl and its import name."""

import errno
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from extractor.importers.adopt.findings import Copy
from extractor.importers.python_text.segments import decode
from extractor.pipeline.source import Source
from extractor.values import limits, readers
from extractor.values.errors import UsageError

_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist", "wandb", "outputs"}
_SUFFIXES = (".py", ".yaml", ".yml", ".json", ".md", ".sh")
_FEWEST = 3
# A second copy has at least so much of what the first has; a recipe beside it that replaces some files has less.
_LIKE_THE_FIRST = 0.5
_HINT = "pass the directory that holds your copy of verl, or one above it"
VERSION = "verl/version/version"


def locate(directory: Path, sources: Mapping[str, Source]) -> Copy:
    """Find the copy of verl in a directory.

    Raises:
        UsageError: there is no directory, it cannot be read, or nothing in it is a copy of verl.
    """
    top = directory.expanduser()
    if not top.is_dir():
        problem = "not a directory" if top.exists() else "no such directory"
        raise UsageError(f"{directory}: {problem}", hint=_HINT)
    top = Path(os.path.realpath(top))
    try:
        found = dict(read_files(top))
    except OSError as error:
        raise UsageError(
            f"{error.filename or directory}: cannot be read: {error.strerror}",
            hint="look at what lies there, and its permissions",
        ) from None
    upstream = {path.removeprefix("verl/") for source in sources.values() for path in source.files}
    roots = _find_roots(found, sources)
    if not roots:
        raise UsageError(f"{directory}: no copy of verl in it: no file that looks like one of upstream's", hint=_HINT)
    root, *others = roots
    prefix = f"{root}/" if root else ""
    inside = {path.removeprefix(prefix): data for path, data in sorted(found.items()) if path.startswith(prefix)}
    says = inside.get(VERSION.removeprefix("verl/"), b"").decode(errors="replace").strip()
    return Copy(
        root=top / root,
        top=top,
        others=tuple(top / other for other in others),
        prefixes=_list_prefixes(top / root, inside),
        files={f"verl/{path}": data for path, data in inside.items() if path in upstream},
        own={f"verl/{path}": data for path, data in inside.items() if path not in upstream and path.endswith(".py")},
        neighbours=_name_neighbours(found, root),
        says=says if re.fullmatch(r"[\w.+-]+", says) else None,
    )


def read_files(top: Path) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of relevant files, skipping other vextract projects."""

    def enter(folder: Path) -> bool:
        hidden = folder.name.startswith(".") or folder.name in _SKIPPED
        return not hidden and not any(os.path.lexists(folder / name) for name in ("pyvenv.cfg", "vextract.lock"))

    total = 0
    for path in readers.list_files_below(top, enter) if not os.path.lexists(top / "vextract.lock") else ():
        telling = path.suffix in _SUFFIXES or path.name == "version"
        inside = not path.is_symlink() or Path(os.path.realpath(path)).is_relative_to(top)
        if not telling or not inside or not path.is_file() or path.stat().st_size > limits.MAX_TEXT:
            continue
        name = path.relative_to(top).as_posix()
        if not readers.is_plain_path(name):
            raise OSError(
                errno.EILSEQ, "a name that not every file system can hold: rename it", readers.show_path(name)
            )
        data = readers.read_bytes(path)
        total += len(data)
        if total > limits.MAX_UNPACKED:
            raise OSError(
                errno.EFBIG, f"its text files have more than {readers.write_size(limits.MAX_UNPACKED)}", str(top)
            )
        yield name, data


def _find_roots(found: Mapping[str, bytes], sources: Mapping[str, Source]) -> list[str]:
    """Return directories that hold copies of verl, the best match first."""
    upstream: dict[str, dict[str, set[str]]] = {}
    for source in sources.values():
        for path, data in source.files.items():
            if path.endswith(".py") and not path.endswith("__init__.py"):
                known = upstream.setdefault(path.rpartition("/")[2], {})
                known.setdefault(path.removeprefix("verl/"), set()).update(_select_telling_lines(data))
    votes: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path, data in found.items():
        known = upstream.get(path.rpartition("/")[2], {})
        places = {name: texts for name, texts in known.items() if f"/{path}".endswith(f"/{name}")}
        lines = _select_telling_lines(data) if places else set()
        for name, texts in places.items():
            common = len(lines & texts)
            if lines and common >= 0.2 * len(lines):
                root = path.removesuffix(name).rstrip("/")
                votes[root] += common
                files[root] += 1
    good = [root for root in votes if files[root] >= _FEWEST or votes[root] >= 50]
    good.sort(key=lambda root: (-votes[root], root))
    return good[:1] + [root for root in good[1:] if votes[root] >= _LIKE_THE_FIRST * votes[good[0]]]


def _select_telling_lines(data: bytes) -> set[str]:
    """Return lines long enough to compare, without comments and imports."""
    lines = (line.strip() for line in (decode(data) or "").split("\n"))
    return {line for line in lines if len(line) > 12 and not line.startswith(("#", "import ", "from "))}


def _list_prefixes(place: Path, inside: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return dotted names the copy imports itself by, longest first."""
    parts = place.parts[1:]
    names = [".".join(parts[start:]) for start in range(len(parts)) if all(map(str.isidentifier, parts[start:]))]
    text = b"\n".join(data for path, data in inside.items() if path.endswith(".py"))
    pattern = r"^[ \t]*(?:from|import)[ \t]+{}[. \t\r\n]"
    return tuple(
        name for name in names if name != "verl" and re.search(pattern.format(name).encode(), text, re.MULTILINE)
    )


def _name_neighbours(found: Mapping[str, bytes], root: str) -> frozenset[str]:
    """Return the modules at the repository's top and beside the copy."""
    above = root.rpartition("/")[0]
    others = [path for path in found if path.endswith(".py") and not (root and path.startswith(f"{root}/"))]
    starts = {"", f"{above}/" if above else ""}
    beside = [path.removeprefix(start) for start in starts for path in others if path.startswith(start)]
    return frozenset({path.partition("/")[0].removesuffix(".py") for path in beside} - {"verl", "tests", "setup"})
