"""Explain a file that is not verl's, and name its template."""

import ast
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from extractor.pipeline.index.syntax import list_definitions
from extractor.pipeline.render import map_templates
from extractor.project import base, lock
from extractor.project.lock import Lock, LockedFile
from extractor.usecases.explain.explanation import COPIED, HOOK, OWNER, RECORD, TEMPLATE, Explanation
from extractor.usecases.owner_code import find_owner_files
from extractor.values import readers
from extractor.values.manifest import Manifest
from extractor.values.modules import name_module
from extractor.values.tree import FileKind

_AS_EMITTED, _MISSING = "as it was emitted", "missing in the project"
_WHOSE = {FileKind.TEMPLATE: TEMPLATE, FileKind.HOOK: HOOK}


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
        paths = sorted({*self._files, *self._own})
        self._dotted = {path: name_module(path) if path.endswith(".py") else path for path in paths}

    def file(self, name: str) -> Explanation | None:
        """Explain the file at this path; None for a vendored module."""
        path = posixpath.normpath(name)
        if path in (lock.NAME, base.PATH):
            return Explanation(path, path, RECORD)
        entry = self._files.get(path)
        if entry is None:
            return Explanation(path, path, OWNER, symbols=tuple(self._names(path))) if path in self._own else None
        if entry.kind is FileKind.VENDORED and path.endswith(".py"):
            return None
        return self._explain_entry(entry)

    def named(self, name: str) -> tuple[Explanation, ...]:
        """Explain files matching a path ending or module, else matching symbols."""
        short = {path: dotted.partition(".")[2] for path, dotted in self._dotted.items()}  # without the package
        paths = [path for path, dotted in self._dotted.items() if name in (dotted, short[path])]
        paths = paths or [path for path in self._dotted if path.endswith((f"/{name}", f"/{name}.py"))]
        if found := tuple(filter(None, map(self.file, paths))):
            return found
        wanted = name.replace(":", ".").replace("/", ".")
        symbols = []
        for path, dotted in self._dotted.items():
            for symbol in self._names(path):
                known = (symbol, symbol.rpartition(".")[2], f"{dotted}.{symbol}", f"{short[path]}.{symbol}")
                if wanted in known and (holder := self.file(path)) is not None:
                    symbols.append(replace(holder, subject=f"{dotted}:{symbol}", symbols=()))
        return tuple(symbols)

    def bases(self, name: str) -> list[str]:
        """Return base classes of a class name, nearest first."""
        classes = [node for path in self._dotted for node in self._parse_body(path) if isinstance(node, ast.ClassDef)]
        found = [name.rpartition(".")[2]]
        for known in found:
            parents = [ast.unparse(parent) for node in classes if node.name == known for parent in node.bases]
            found += [last for parent in parents if (last := parent.rpartition(".")[2]) not in found]
        return found[1:]

    def names(self) -> set[str]:
        """Return what can be explained: paths, file names and symbols."""
        return {name for path in self._dotted for name in (path, posixpath.basename(path), *self._names(path))}

    def _explain_entry(self, entry: LockedFile) -> Explanation:
        made = entry.kind is FileKind.VENDORED or entry.path in self._templates
        return Explanation(
            subject=entry.path,
            path=entry.path,
            whose=COPIED if entry.kind is FileKind.VENDORED else _WHOSE[entry.kind],
            upstream_path=entry.upstream_path or "",
            release=self._release if entry.upstream_path else "",
            templates=self._templates.get(entry.path, ()),
            symbols=tuple(self._names(entry.path)),
            note=self.describe_state(entry.path)
            + ("" if made else "\nwritten without a template: it makes its folder a package"),
        )

    def read_edit(self, path: str) -> tuple[str, str]:
        """Say what the owner did to an emitted file, and return its text; two empty texts if nothing."""
        state = self.describe_state(path)
        if state == _AS_EMITTED:
            return "", ""
        return state, "" if state == _MISSING else readers.read_text(self._project / path)

    def describe_state(self, path: str) -> str:
        """Say whether an emitted file is there, and whether it was edited."""
        entry = self._files[path]
        try:
            data = readers.read_bytes(self._project / path)
        except OSError:
            return _MISSING
        same = sha256(data).hexdigest() == entry.sha256
        if entry.kind is FileKind.HOOK:
            return "as it was written" if same else "changed since it was written"
        return _AS_EMITTED if same else f"edited: `vextract diff {entry.path}` shows how"

    def _names(self, path: str) -> Iterator[str]:
        """Yield functions, classes and methods that a non-vendored Python file defines."""
        yield from (name for name, _ in list_definitions(self._parse_body(path)))

    def _parse_body(self, path: str) -> list[ast.stmt]:
        """Parse a non-vendored Python file; return no statements if impossible."""
        entry = self._files.get(path)
        if not path.endswith(".py") or (entry is not None and entry.kind is FileKind.VENDORED):
            return []
        try:
            return readers.parse_python_or_nothing(readers.read_bytes(self._project / path)).body
        except OSError:
            return []
