"""Keep dropped methods and symbols that the owner's code needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from extractor.pipeline import generate as pipeline
from extractor.pipeline.generate import Generated
from extractor.pipeline.index import Index, MemberNames
from extractor.pipeline.index.reading import CodeScan
from extractor.pipeline.merge.pieces import Unsupported
from extractor.pipeline.merge.python import split_python
from extractor.pipeline.slicer import Slice
from extractor.pipeline.source import Source
from extractor.project.lock import Lock
from extractor.usecases.owner_code import OwnerCode, list_imported
from extractor.values import readers
from extractor.values.manifest import Manifest
from extractor.values.options import Options


@dataclass(frozen=True)
class MethodDemand:
    """Holds what the owner's code asks for.

    Attributes:
        words: The names by which it may reach methods.
        edited: Methods of upstream's classes that the owner has edited, "Class.method".
        imported: Symbols of verl that it imports, as "module:name".
    """

    words: MemberNames = field(default_factory=MemberNames)
    edited: frozenset[str] = frozenset()
    imported: frozenset[str] = frozenset()

    def __or__(self, other: MethodDemand) -> MethodDemand:
        mine, theirs = self.words, other.words
        words = MemberNames(mine.any | theirs.any, mine.own | theirs.own, mine.put_together | theirs.put_together)
        return MethodDemand(words, self.edited | other.edited, self.imported | other.imported)

    def methods(self, sliced: Slice) -> frozenset[str]:
        """Return the dropped methods that are needed, as "module:Class.method"."""
        words = self.words
        return frozenset(
            f"{holder}.{name}"
            for holder, names in sliced.dropped.items()
            for name in names
            if name in words.any | words.own
            or any(fnmatchcase(name, pattern) for pattern in words.put_together)
            or f"{holder.partition(':')[2]}.{name}" in self.edited
        )

    def roots(self, sliced: Slice, source: Source) -> frozenset[str]:
        """Return imported symbols that the release has but the slice lacks."""
        if not self.imported:
            return frozenset()
        wanted = self.imported - (sliced.edges.keys() - {stub.symbol for stub in sliced.stubs})
        index, modules = Index(source), {module.module for module in sliced.modules}
        return frozenset(
            symbol
            for symbol in wanted
            for module, _, name in [symbol.partition(":")]
            if module in index and (module not in modules if name == "*" else name in index[module].bindings)
        )


def generate_with_methods(options: Options, source: Source, manifest: Manifest, demand: MethodDemand) -> Generated:
    """Generate a project including methods and symbols the owner's code needs.

    Args:
        options, source, manifest: As for `generate`; the methods and roots that the options name do not count.
        demand: What the owner's code asks for.
    """
    options = replace(options, methods=(), roots=())
    while True:
        generated = pipeline.generate(options, source, manifest)
        methods, roots = demand.methods(generated.sliced), demand.roots(generated.sliced, source)
        if not methods and not roots:
            return generated
        options = replace(
            options,
            methods=tuple(sorted({*options.methods, *methods})),
            roots=tuple(sorted({*options.roots, *roots})),
        )


def read_edit_demands(before: str, text: str, package: str) -> MethodDemand:
    """Read what an owner has changed in a file.

    Args:
        before: The file without the changes.
        package: Import name of the package that upstream's code is in.
    """
    before, text = before.replace("\r\n", "\n"), text.replace("\r\n", "\n")
    old, new = map(readers.parse_python_or_nothing, (before, text))
    same = {ast.dump(node) for node in _list_parts(old)}
    changed = [node for node in _list_parts(new) if ast.dump(node) not in same]
    outside: set[tuple[str, str]] = set()
    for node in new.body:
        if isinstance(node, ast.Import):
            outside |= {(alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            outside |= {(alias.asname or alias.name, node.module or "") for alias in node.names}
    others = {local for local, module in outside if module.partition(".")[0] not in (package, "verl")}
    known, now = _map_methods(before), _map_methods(text)
    edited = frozenset(name for name, code in now.items() if name in known and code != known[name])
    return MethodDemand(CodeScan(*changed).words(others), edited)


def read_owner_demands(code: Sequence[OwnerCode], lock: Lock) -> MethodDemand:
    """Return what the owner's code needs of verl.

    Args:
        code: All of it, as `read_owner_code` gives it.
    """
    package, demand = lock.options.package, MethodDemand(imported=frozenset(list_imported(code, lock)))
    for file in code:
        demand |= read_edit_demands(file.emitted or "", file.text, package)
    return demand


def _list_parts(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield a module's statements, and the parts of its classes."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from (*node.bases, *node.keywords, *node.decorator_list, *node.body)
        else:
            yield node


def _map_methods(text: str) -> dict[str, str]:
    """Map methods to their text with the comments above it."""
    methods: dict[str, str] = {}
    with suppress(Unsupported):
        for piece in split_python(text):
            for part in piece.parts:
                if part.kind in ("FunctionDef", "AsyncFunctionDef"):
                    name = f"{piece.key}.{part.key.partition(' ')[0]}"  # a property and its setter are one
                    methods[name] = methods.get(name, "") + part.head
    return methods
