"""Read and write `vextract.lock`: a project's origin and digests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from packaging.version import InvalidVersion, Version

from extractor.project.disk import is_inside
from extractor.values import limits, readers
from extractor.values.errors import UsageError
from extractor.values.options import Options
from extractor.values.shell import write_pip_command
from extractor.values.toml_table import Table
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
        _write_pair("schema", SCHEMA),
        _write_pair("vextract", lock.vextract),
        "\n[verl]\n",
        _write_pair("release", options.verl),
        _write_pair("source", lock.source_kind),
        _write_pair("sha256", lock.source_sha256),
        *([_write_pair("manifest_of", lock.borrowed_from)] if lock.borrowed_from is not None else []),
        "\n[options]\n",
        _write_pair("package", options.package),
        _write_pair("engine", options.engine),
        _write_pair("algorithm", options.algorithm),
        _write_pair("features", options.features),
        _write_pair("recipe", options.recipe),
        *([_write_pair("methods", options.methods)] if options.methods else []),
        *([_write_pair("roots", options.roots)] if options.roots else []),
        *([_write_pair("manifest", options.manifest)] if options.manifest else []),
    ]
    for file in lock.files:
        lines += ["\n[[files]]\n", _write_pair("path", file.path), _write_pair("kind", file.kind.value)]
        lines.append(_write_pair("sha256", file.sha256))
        if file.upstream_path is not None:
            lines.append(_write_pair("upstream", file.upstream_path))
        if file.upstream_sha256 is not None:
            lines.append(_write_pair("upstream_sha256", file.upstream_sha256))
        if file.changes:
            lines += ["changes = [\n", *(f"    {_write_value(change)},\n" for change in file.changes), "]\n"]
    body = "".join(lines)
    return f"{body}\n[integrity]\n{_write_pair('sha256', _compute_body_digest(body))}".encode()


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
        top = readers.parse_toml(text)
    except readers.TOMLDecodeError as error:
        raise UsageError(f"{file}: damaged: not valid TOML: {error}", hint=_RESTORE) from None
    schema = top.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(
            f"{file}: key `schema`: {schema}, and this vextract reads {SCHEMA}: a newer vextract wrote it",
            hint=f"upgrade vextract: {write_pip_command('--upgrade', 'vextract')}",
        )
    body, _, _ = text.rpartition("\n[integrity]\n")
    if top.pop("integrity", None) != {"sha256": _compute_body_digest(body)}:
        raise UsageError(f"{file}: changed by hand: its checksum does not match what it says", hint=_RESTORE)
    return _read_lock(_LockTable(top, file))


def _compute_body_digest(body: str) -> str:
    return sha256(body.encode()).hexdigest()


def _write_pair(key: str, value: str | int | tuple[str, ...]) -> str:
    return f"{key} = {_write_value(value)}\n"


def _write_value(value: str | int | tuple[str, ...]) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and "\n" in value:
        return '"""\n' + "\n".join(_write_value(line)[1:-1] for line in value.split("\n")) + '"""'
    if isinstance(value, tuple):
        return "[" + ", ".join(_write_value(item) for item in value) + "]"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in escaped) + '"'


class _LockTable(Table):
    """A lock, of which every error is mended alike."""

    def error(self, name: str, problem: str, *, hint: str) -> UsageError:
        """Return the error of a key."""
        said = f"key `{self.key(name):.{_LONGEST}}` {problem:.{_LONGEST}}"
        return UsageError(f"{self.file}: {said} ({hint:.{_LONGEST}})", hint=_RESTORE)


def _read_lock(top: Table) -> Lock:
    top.keys_are("schema vextract verl options files")
    if top.integer("schema") not in _READ:
        raise top.error("schema", f"is {top.data['schema']}", hint=f"one of {_READ} is read")
    verl, chosen = top.table("verl"), top.table("options")
    verl.keys_are("release source sha256 manifest_of")
    chosen.keys_are("package engine algorithm features recipe methods roots manifest")
    options = Options(
        package=_check_entry(chosen, "package", str.isidentifier, "an identifier"),
        verl=_check_entry(verl, "release", _is_version, "a version"),
        engine=chosen.string("engine"),
        algorithm=chosen.string("algorithm"),
        features=_require_sorted(chosen, "features"),
        recipe=chosen.optional_string("recipe") or "toy",
        methods=_require_sorted(chosen, "methods", optional=True),
        roots=_require_sorted(chosen, "roots", optional=True),
        manifest=chosen.optional_string("manifest") or "",
    )
    borrowed = _check_entry(verl, "manifest_of", _is_version, "a version") if verl.has("manifest_of") else None
    kind = _check_entry(verl, "source", SOURCE_KINDS.__contains__, f"one of {', '.join(SOURCE_KINDS)}")
    return Lock(top.string("vextract"), options, kind, verl.digest("sha256"), _read_files(top), borrowed)


def _read_files(top: Table) -> tuple[LockedFile, ...]:
    found: list[LockedFile] = []
    kinds = [item.value for item in FileKind]
    known = ", ".join(kinds)
    for entry in top.array("files"):
        file = entry.read(
            LockedFile,
            {
                "path": lambda table, key: _check_entry(table, key, _is_place, "a path of a project's file"),
                "kind": lambda table, key: FileKind(_check_entry(table, key, kinds.__contains__, f"one of {known}")),
                "sha256": Table.digest,
                "upstream_sha256": Table.digest,
            },
            {"upstream_path": "upstream"},
        )
        if found and file.path <= found[-1].path:
            raise entry.error("path", f"is {file.path!r}", hint="it stands twice or out of order")
        found.append(file)
    return tuple(found)


def _check_entry(table: Table, name: str, check: Callable[[str], bool], wanted: str) -> str:
    value = table.string(name)
    if not check(value):
        raise table.error(name, f"is {value!r}", hint=f"it must be {wanted}")
    return value


def _require_sorted(table: Table, name: str, *, optional: bool = False) -> tuple[str, ...]:
    value = table.strings(name, optional)
    if value != tuple(sorted({*value})):
        raise table.error(name, "is not sorted", hint="each name once")
    return value


def _is_version(text: str) -> bool:
    """Tell whether a text is a version, safe in paths."""
    try:
        return bool(Version(text))
    except InvalidVersion:
        return False


def _is_place(path: str) -> bool:
    return is_inside(path) and path != NAME and not path.startswith(".vextract/")
