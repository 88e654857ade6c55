"""Explain a file that is not verl's, and name its template."""

import ast
import contextlib
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from extractor.pipeline.index.syntax import list_definitions
from extractor.pipeline.render import map_templates
from extractor.pipeline.slicer import Edge
from extractor.project import base, lock
from extractor.project.lock import Lock, LockedFile
from extractor.usecases.owner_code import find_owner_files
from extractor.values import readers
from extractor.values.manifest import Manifest
from extractor.values.modules import name_module
from extractor.values.tree import FileKind

VENDORED = "verl's: you may edit it, an upgrade merges your edits"
TEMPLATE = "ours, from a template: you may edit it, an upgrade merges your edits"
OWNER = "yours: no command of vextract writes it"
RECORD = "vextract's record of the project: commit it, do not edit it"
AS_EMITTED, MISSING = "as it was emitted", "missing in the project"
_WHOSE = {
    FileKind.VENDORED: "verl's, copied as it is",
    FileKind.TEMPLATE: TEMPLATE,
    FileKind.HOOK: "yours, from a template: written once, never touched again",
}


@dataclass(frozen=True)
class Explanation:
    """Holds what is known about one symbol or file.

    Attributes:
        subject: The symbol ("verl.protocol:DataProto", "toy.training.trainer:LocalPPOTrainer") or the file.
        path: The file in the project that holds it.
        whose: Who writes that file, and what may be done with it.
        upstream_path: The file of verl that it comes from; empty where it is none of verl's.
        release: That file's release of verl; empty where it is none of verl's.
        upstream_sha256: That file's digest; empty where nothing was made of it.
        templates: The templates of that path in this project, as paths below templates/: it is made from the last one,
            which takes the place of those before it. Empty for a file of verl's.
        chain: The edges from the subject back to its root; for a file that of its first symbol.
        symbols: For a file: its symbols, in the order in which they stand there.
        changes: What the rewrite did to the file.
        fixes: Named fixes in the file, as "id: why".
        note: What else there is to say: ours instead of upstream's, a stub, an effect that was kept, an edit.
    """

    subject: str
    path: str
    whose: str
    upstream_path: str = ""
    release: str = ""
    upstream_sha256: str = ""
    templates: tuple[str, ...] = ()
    chain: tuple[Edge, ...] = ()
    symbols: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    note: str = ""

    def lines(self) -> list[str]:
        """Return it as text."""
        lines = [self.subject]
        if self.path != self.subject:
            lines.append(f"  in       {self.path}")
        lines.append(f"  whose    {self.whose}")
        if self.upstream_path:
            digest = f", sha256 of that file {self.upstream_sha256}" if self.upstream_sha256 else ""
            lines += [f"  from     {self.upstream_path}", f"  release  verl {self.release}{digest}"]
        templates = [f"templates/{path}" for path in reversed(self.templates)]
        blocks = {
            "from": templates[:1],
            "over": templates[1:],
            "why": [_describe(edge) for edge in self.chain],
            "note": self.note.splitlines(),
            "fixes": self.fixes,
            "changed": self.changes,
            "holds": self.symbols,
        }
        for label, block in blocks.items():
            lines += [f"  {label if number == 0 else '':8} {line}" for number, line in enumerate(block)]
        return lines


def _describe(edge: Edge) -> str:
    if edge.how == "root":
        return f"{edge.symbol} is a root ({edge.origin})"
    return f"{edge.symbol} <- {edge.origin} {edge.how} it{f' (line {edge.line})' if edge.line else ''}"


def is_called(name: str, dotted: str) -> bool:
    """Tell whether a name ("toy/data.py", "data:rows", "rows") is a dotted one, or its end."""
    wanted = name_module(name.replace(":", "."))
    return f".{dotted}".endswith(f".{wanted}")


class TemplateFiles:
    """Explains project files that are not vendored from verl.

    Args:
        manifest: The release, which says what layers of templates there are.
    """

    def __init__(self, project: Path, locked: Lock, manifest: Manifest) -> None:
        self._project = project
        self._files: Mapping[str, LockedFile] = {file.path: file for file in locked.files}
        self._release = locked.options.verl
        self._templates = map_templates(manifest, locked.options)
        self._own = frozenset(find_owner_files(project, locked))
        self._dotted = {path: name_module(path) for path in sorted({*self._files, *self._own})}

    def file(self, name: str) -> Explanation | None:
        """Explain the file at this path; None for a vendored module."""
        path = posixpath.normpath(name)
        locked = self._files.get(path)
        if path in (lock.NAME, base.PATH):
            return Explanation(path, path, RECORD)
        if locked is None:
            return Explanation(path, path, OWNER, symbols=tuple(self._names(path))) if path in self._own else None
        if locked.kind is FileKind.VENDORED and path.endswith(".py"):
            return None
        note = self.describe_state(path)
        if locked.kind is not FileKind.VENDORED and path not in self._templates:
            note += "\nwritten without a template: it makes its folder a package"
        return Explanation(
            subject=path,
            path=path,
            whose=_WHOSE[locked.kind],
            upstream_path=locked.upstream_path or "",
            release=self._release if locked.upstream_path else "",
            templates=self._templates.get(path, ()),
            symbols=tuple(self._names(path)),
            note=note,
        )

    def named(self, name: str) -> tuple[Explanation, ...]:
        """Explain files matching a path ending or module, else matching symbols."""
        files = (path for path, dotted in self._dotted.items() if path.endswith(f"/{name}") or is_called(name, dotted))
        if explanations := tuple(filter(None, map(self.file, files))):
            return explanations
        return tuple(
            replace(holder, subject=f"{dotted}:{symbol}", symbols=())
            for path, dotted in self._dotted.items()
            for symbol in self._names(path)
            if is_called(name, f"{dotted}.{symbol}") and (holder := self.file(path)) is not None
        )

    def bases(self, name: str) -> list[str]:
        """Return base classes of a class name, nearest first."""
        classes = [node for path in self._dotted for node in self._parse_body(path) if isinstance(node, ast.ClassDef)]
        names = [name.rpartition(".")[2]]
        for known in names:
            parents = [ast.unparse(parent) for node in classes if node.name == known for parent in node.bases]
            names += [last for parent in parents if (last := parent.rpartition(".")[2]) not in names]
        return names[1:]

    def names(self) -> set[str]:
        """Return what can be explained: paths, file names and symbols."""
        return {name for path in self._dotted for name in (path, posixpath.basename(path), *self._names(path))}

    def read_text(self, path: str) -> str:
        """Return an emitted file as it is now."""
        return readers.read_text(self._project / path)

    def describe_state(self, path: str) -> str:
        """Say whether an emitted file is there, and whether it was edited."""
        locked = self._files[path]
        try:
            data = readers.read_bytes(self._project / path)
        except OSError:
            return MISSING
        same = sha256(data).hexdigest() == locked.sha256
        if locked.kind is FileKind.HOOK:
            return "as it was written" if same else "changed since it was written"
        return AS_EMITTED if same else f"edited: `vextract diff {locked.path}` shows how"

    def _names(self, path: str) -> Iterator[str]:
        """Yield functions, classes and methods that a non-vendored Python file defines."""
        yield from (name for name, _ in list_definitions(self._parse_body(path)))

    def _parse_body(self, path: str) -> list[ast.stmt]:
        """Parse a non-vendored Python file; return no statements if impossible."""
        locked = self._files.get(path)
        if not path.endswith(".py") or (locked is not None and locked.kind is FileKind.VENDORED):
            return []
        with contextlib.suppress(OSError):
            return readers.parse_python_or_nothing(readers.read_bytes(self._project / path)).body
        return []
