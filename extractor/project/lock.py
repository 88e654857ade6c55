"""Read and write `vextract.lock`: what a project was made from, and its digests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from extractor.project.disk import stays_inside
from extractor.values import limits, readers
from extractor.values.errors import UsageError
from extractor.values.options import Options
from extractor.values.shell import installing
from extractor.values.tree import FileKind, Tree

NAME = "vextract.lock"
# A lock of schema 1 has no changes: they stand in the headers of its vendored files.
SCHEMA = 2
_READ = (1, SCHEMA)
SOURCE_KINDS = ("wheel", "sdist", "checkout", "installed")

_HEADER = "# What this project was generated from. Written by vextract: commit it, do not edit it.\n"
_LONGEST = 200
_RESTORE = f"restore {NAME} from version control (`git checkout -- {NAME}`)"


@dataclass(frozen=True)
class LockedFile:
    """One file as it was emitted.

    Attributes:
        path: POSIX path relative to the project.
        kind: Who writes it.
        sha256: Digest of the emitted bytes.
        upstream_path: For vendored files that come from one of upstream's, its path.
        upstream_sha256: Digest of that file.
        changes: What was done to it, one sentence each.
    """

    path: str
    kind: FileKind
    sha256: str
    upstream_path: str | None = None
    upstream_sha256: str | None = None
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lock:
    """The contents of a lock.

    Attributes:
        vextract: Version that wrote it.
        options: The choices behind the project; they name the release of verl.
        source_kind: "wheel", "sdist", "checkout" or "installed".
        source_sha256: Digest of that source.
        files: Every emitted file, sorted by path.
        borrowed_from: The release whose manifest was used, where the project's release had none of its own.
    """

    vextract: str
    options: Options
    source_kind: str
    source_sha256: str
    files: tuple[LockedFile, ...]
    borrowed_from: str | None = None

    @classmethod
    def of(
        cls,
        tree: Tree,
        options: Options,
        *,
        vextract: str,
        source_kind: str,
        source_sha256: str,
        borrowed_from: str | None = None,
    ) -> Lock:
        """Return the lock of a tree."""
        files = tuple(
            LockedFile(file.path, file.kind, file.sha256, file.upstream_path, file.upstream_sha256, file.changes)
            for file in tree
        )
        return cls(vextract, options, source_kind, source_sha256, files, borrowed_from)

    def file(self, path: str) -> LockedFile | None:
        """Return the entry of a path."""
        return next((file for file in self.files if file.path == path), None)


def dump(lock: Lock) -> bytes:
    """Return the bytes of a lock, equal for equal locks."""
    options = lock.options
    lines = [
        _HEADER,
        _pair("schema", SCHEMA),
        _pair("vextract", lock.vextract),
        "\n[verl]\n",
        _pair("release", options.verl),
        _pair("source", lock.source_kind),
        _pair("sha256", lock.source_sha256),
        *([_pair("manifest_of", lock.borrowed_from)] if lock.borrowed_from is not None else []),
        "\n[options]\n",
        _pair("package", options.package),
        _pair("engine", options.engine),
        _pair("algorithm", options.algorithm),
        _pair("features", options.features),
        _pair("recipe", options.recipe),
        *([_pair("methods", options.methods)] if options.methods else []),
        *([_pair("roots", options.roots)] if options.roots else []),
        *([_pair("manifest", options.manifest)] if options.manifest else []),
    ]
    for file in lock.files:
        lines += ["\n[[files]]\n", _pair("path", file.path), _pair("kind", file.kind.value)]
        lines.append(_pair("sha256", file.sha256))
        if file.upstream_path is not None:
            lines.append(_pair("upstream", file.upstream_path))
        if file.upstream_sha256 is not None:
            lines.append(_pair("upstream_sha256", file.upstream_sha256))
        if file.changes:
            lines += ["changes = [\n", *(f"    {_value(change)},\n" for change in file.changes), "]\n"]
    body = "".join(lines)
    return f"{body}\n[integrity]\n{_pair('sha256', _body_digest(body))}".encode()


def read(project: Path) -> Lock:
    """Read the lock of a project.

    Raises:
        UsageError: missing, damaged, edited, or written by a newer vextract.
    """
    path = project / NAME
    try:
        data = readers.read_bytes(path, limits.MAX_TEXT)
    except FileNotFoundError:
        raise UsageError(
            f"{project}: not a vextract project: it has no {NAME}", hint="make one with `vextract new myproj`"
        ) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint=_RESTORE) from None
    return parse(data, str(path))


def parse(data: bytes, file: str = NAME) -> Lock:
    """Read the bytes of a lock.

    Raises:
        UsageError: as for `read`; the message names the file, and the key or the line.
    """
    try:
        # Git may have checked the file out with other line ends.
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise UsageError(f"{file}: damaged: not UTF-8", hint=_RESTORE) from None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(("<<<<<<< ", ">>>>>>> ")):
            raise UsageError(
                f"{file}:{number}: holds a conflict of a Git merge",
                hint=f"take one side whole (`git checkout --ours {NAME}` or `--theirs`), then run `vextract sync`",
            )
    try:
        top = readers.toml(text)
    except readers.TOMLDecodeError as error:
        raise UsageError(f"{file}: damaged: not valid TOML: {error}", hint=_RESTORE) from None
    schema = top.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(
            f"{file}: key `schema`: {schema}, and this vextract reads {SCHEMA}: a newer vextract wrote it",
            hint=f"upgrade vextract: {installing('--upgrade', 'vextract')}",
        )
    body, _, _ = text.rpartition("\n[integrity]\n")
    if top.pop("integrity", None) != {"sha256": _body_digest(body)}:
        raise UsageError(f"{file}: changed by hand: its checksum does not match what it says", hint=_RESTORE)
    try:
        return _read_lock(_Table("", top))
    except ValueError as error:
        raise UsageError(f"{file}: {error}", hint=_RESTORE) from None


def _body_digest(body: str) -> str:
    return sha256(body.encode()).hexdigest()


def _pair(key: str, value: str | int | tuple[str, ...]) -> str:
    return f"{key} = {_value(value)}\n"


def _value(value: str | int | tuple[str, ...]) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and "\n" in value:
        return '"""\n' + "\n".join(_value(line)[1:-1] for line in value.split("\n")) + '"""'
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in escaped) + '"'


class _Table:
    """A table of a lock, whose keys are taken one by one."""

    def __init__(self, where: str, values: Any) -> None:
        self._where = where
        self._left = dict(values)

    def take(self, key: str, check: Callable[[Any], bool], wanted: str, default: Any = None) -> Any:
        """Return a value, checked where it is there or has no default.

        Raises:
            ValueError: the value is not as wanted; the message names the key.
        """
        if key not in self._left and default is not None:
            return default
        value = self._left.pop(key, None)
        if not check(value):
            said = "is missing" if value is None else f"is {value!r:.{_LONGEST}}"
            raise ValueError(f"key `{self._where}{key}` {said}, and no {wanted}")
        return value

    def text(self, key: str, default: Any = None) -> Any:
        """Return a text that is not empty."""
        return self.take(key, lambda value: isinstance(value, str) and value != "", "text", default)

    def names(self, key: str, default: Any = None) -> tuple[str, ...]:
        """Return sorted texts."""
        return tuple(
            self.take(key, lambda found: _are_texts(found) and found == sorted({*found}), "sorted list", default)
        )

    def digest(self, key: str, default: Any = None) -> Any:
        """Return a SHA-256."""
        return self.take(key, lambda found: re.fullmatch(r"[0-9a-f]{64}", str(found)) is not None, "sha256", default)

    def tables(self, key: str) -> Iterator[_Table]:
        """Yield the tables of an array, or the only one."""
        found = self.take(key, lambda found: isinstance(found, (dict, list)), "table")
        for number, entry in enumerate(found if isinstance(found, list) else [found]):
            where = f"{key}[{number}]" if isinstance(found, list) else key
            if not isinstance(entry, dict):
                raise ValueError(f"key `{where}` is no table")
            yield (table := _Table(f"{where}.", entry))
            table.end()

    def end(self) -> None:
        """Refuse what nobody has taken."""
        for key in self._left:
            raise ValueError(f"key `{self._where}{key:.{_LONGEST}}` is unknown")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_version(value: Any) -> bool:
    """Tell whether a value is a version: it becomes part of paths and pip's arguments."""
    try:
        return isinstance(value, str) and bool(Version(value))
    except InvalidVersion:
        return False


def _read_lock(top: _Table) -> Lock:
    top.take("schema", lambda value: type(value) is int and value in _READ, f"schema: {' or '.join(map(str, _READ))}")
    for verl in top.tables("verl"):
        release = verl.take("release", _is_version, "version")
        borrowed = verl.take("manifest_of", _is_version, "version", "")
        kind = verl.take("source", SOURCE_KINDS.__contains__, f"source: {', '.join(SOURCE_KINDS)}")
        digest = verl.digest("sha256")
    for chosen in top.tables("options"):
        options = Options(
            package=chosen.take("package", lambda name: isinstance(name, str) and name.isidentifier(), "identifier"),
            verl=release,
            engine=chosen.text("engine"),
            algorithm=chosen.text("algorithm"),
            features=chosen.names("features"),
            recipe=chosen.text("recipe", "toy"),
            methods=chosen.names("methods", ()),
            roots=chosen.names("roots", ()),
            manifest=chosen.text("manifest", ""),
        )
    files: list[LockedFile] = []
    for entry in top.tables("files"):
        path = entry.take("path", _is_place, "path of a project's file")
        if files and path <= files[-1].path:
            raise ValueError(f"key `files[{len(files)}].path`: {path!r} stands twice or out of order")
        file_kind = entry.take("kind", [item.value for item in FileKind].__contains__, "kind of file")
        upstream, upstream_sha = entry.text("upstream", ""), entry.digest("upstream_sha256", "")
        changes = tuple(entry.take("changes", _are_texts, "list of texts", ()))
        sha = entry.digest("sha256")
        files.append(LockedFile(path, FileKind(file_kind), sha, upstream or None, upstream_sha or None, changes))
    vextract = top.text("vextract")
    top.end()
    return Lock(vextract, options, kind, digest, tuple(files), borrowed or None)


def _is_place(path: Any) -> bool:
    return isinstance(path, str) and stays_inside(path) and path != NAME and not path.startswith(".vextract/")
