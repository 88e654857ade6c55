"""Read and write `vextract.lock`: what a project was made from, and its digests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

from packaging.version import InvalidVersion, Version

from extractor.project.disk import stays_inside
from extractor.values import limits, readers
from extractor.values.errors import UsageError
from extractor.values.nearest import nearest
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
    lock = _Reader(file, text).lock(top)
    body, _, _ = text.rpartition("\n[integrity]\n")
    if top["integrity"]["sha256"] != _body_digest(body):
        raise UsageError(f"{file}: changed by hand: its checksum does not match what it says", hint=_RESTORE)
    return lock


def _body_digest(body: str) -> str:
    return sha256(body.encode()).hexdigest()


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


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


class _Reader:
    """Strict access to a parsed lock; errors name key and line."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._lines = text.splitlines()

    def lock(self, top: Mapping[str, object]) -> Lock:
        schema = top.get("schema")
        if isinstance(schema, int) and schema > SCHEMA:
            raise UsageError(
                f"{self._file}: key `schema`: {schema}, and this vextract reads {SCHEMA}: a newer vextract wrote it",
                hint=f"upgrade vextract: {installing('--upgrade', 'vextract')}",
            )
        if schema not in _READ or isinstance(schema, bool):
            self._fail("schema", f"is {schema!r}, not {' or '.join(map(str, _READ))}")
        self._known("", top, "schema", "vextract", "verl", "options", "files", "integrity")
        verl = self._table(top, "verl", "release", "source", "sha256", "manifest_of")
        options = self._table(
            top, "options", "package", "engine", "algorithm", "features", "recipe", "methods", "roots", "manifest"
        )
        integrity = self._table(top, "integrity", "sha256")
        self._digest("integrity.", integrity, "sha256")
        kind = self._text("verl.", verl, "source")
        if kind not in SOURCE_KINDS:
            self._fail("verl.source", f"is {kind!r}, not one of {', '.join(SOURCE_KINDS)}")
        package = self._text("options.", options, "package")
        if not package.isidentifier():
            self._fail("options.package", f"is {package!r}, which is no identifier")
        return Lock(
            vextract=self._text("", top, "vextract"),
            options=Options(
                package=package,
                verl=self._release(verl, "release"),
                engine=self._text("options.", options, "engine"),
                algorithm=self._text("options.", options, "algorithm"),
                features=self._sorted(options, "features"),
                recipe=self._text("options.", options, "recipe") if "recipe" in options else "toy",
                methods=self._sorted(options, "methods") if "methods" in options else (),
                roots=self._sorted(options, "roots") if "roots" in options else (),
                manifest=self._text("options.", options, "manifest") if "manifest" in options else "",
            ),
            source_kind=kind,
            source_sha256=self._digest("verl.", verl, "sha256"),
            files=self._files(top),
            borrowed_from=self._release(verl, "manifest_of") if "manifest_of" in verl else None,
        )

    def _release(self, verl: Mapping[str, object], key: str) -> str:
        """Return a version; it becomes part of paths and pip's arguments."""
        value = self._text("verl.", verl, key)
        try:
            Version(value)
        except InvalidVersion:
            self._fail(f"verl.{key}", f"is {value!r}, which is not a version")
        return value

    def _sorted(self, options: Mapping[str, object], key: str) -> tuple[str, ...]:
        value = self._texts("options.", options, key)
        if value != tuple(sorted(set(value))):
            self._fail(f"options.{key}", "is not sorted, or names something twice")
        return value

    def _files(self, top: Mapping[str, object]) -> tuple[LockedFile, ...]:
        entries = top.get("files")
        if not isinstance(entries, list):
            self._fail("files", "is missing or no array of tables")
        found: list[LockedFile] = []
        for number, entry in enumerate(entries):
            where = f"files[{number}]."
            if not isinstance(entry, dict):
                self._fail(f"files[{number}]", "is no table")
            self._known(where, entry, "path", "kind", "sha256", "upstream", "upstream_sha256", "changes")
            path = self._text(where, entry, "path")
            if not stays_inside(path) or path == NAME or path.startswith(".vextract/"):
                self._fail(f"{where}path", f"{path!r} is no path of a project's file")
            if found and path <= found[-1].path:
                self._fail(f"{where}path", f"{path!r} stands twice or out of order")
            kind = self._text(where, entry, "kind")
            if kind not in [item.value for item in FileKind]:
                self._fail(f"{where}kind", f"is {kind!r}, not one of {', '.join(item.value for item in FileKind)}")
            upstream = self._text(where, entry, "upstream") if "upstream" in entry else None
            upstream_sha = self._digest(where, entry, "upstream_sha256") if "upstream_sha256" in entry else None
            sha = self._digest(where, entry, "sha256")
            changes = self._texts(where, entry, "changes") if "changes" in entry else ()
            found.append(LockedFile(path, FileKind(kind), sha, upstream, upstream_sha, changes))
        return tuple(found)

    def _table(self, top: Mapping[str, object], name: str, *keys: str) -> Mapping[str, object]:
        value = top.get(name)
        if not isinstance(value, dict):
            self._fail(name, "is missing or no table")
        self._known(f"{name}.", value, *keys)
        return value

    def _known(self, where: str, table: Mapping[str, object], *keys: str) -> None:
        for key in table:
            if key not in keys:
                near = nearest(key, keys)
                self._fail(where + key, "is unknown" + (f" (did you mean `{near[0]}`?)" if near else ""))

    def _text(self, where: str, table: Mapping[str, object], key: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value:
            self._fail(where + key, "is missing" if value is None else f"is {value!r}, not a non-empty string")
        return value

    def _texts(self, where: str, table: Mapping[str, object], key: str) -> tuple[str, ...]:
        value = table.get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self._fail(where + key, "is no array of strings")
        return tuple(value)

    def _digest(self, where: str, table: Mapping[str, object], key: str) -> str:
        value = self._text(where, table, key)
        if not re.fullmatch(r"[0-9a-f]{64}", value):
            self._fail(where + key, f"{value!r} is no sha256")
        return value

    def _fail(self, key: str, problem: str) -> NoReturn:
        line = self._line(key)
        place = f"{self._file}{f':{line}' if line else ''}"
        raise UsageError(f"{place}: key `{_shortened(key)}` {_shortened(problem)}", hint=_RESTORE)

    def _line(self, key: str) -> int:
        """Return the line of a key, or 0 if not found."""
        table, _, name = key.rpartition(".")
        entry = re.fullmatch(r"files\[(\d+)\]", table)
        headers = [number for number, line in enumerate(self._lines, 1) if line == "[[files]]"]
        if entry:
            start = headers[int(entry.group(1))] if int(entry.group(1)) < len(headers) else 0
        else:
            start = self._lines.index(f"[{table}]") + 1 if f"[{table}]" in self._lines else 0
        if table and not start:
            return 0
        for number, line in enumerate(self._lines[start:], start + 1):
            if line.startswith("["):
                break
            if re.match(rf"{re.escape(name)}\s*=", line):
                return number
        return start
