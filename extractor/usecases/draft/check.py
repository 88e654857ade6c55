"""Check a manifest against a source that it was not written for."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property

from extractor.pipeline.index import Index
from extractor.pipeline.rewrite.apply_fixes import count_matches
from extractor.pipeline.slicer.definitions import Definition, Definitions
from extractor.pipeline.source import Source
from extractor.usecases.changes import ChangeKind
from extractor.usecases.changes.compare import compare
from extractor.usecases.draft.findings import Finding, Kind, Suggestion
from extractor.usecases.draft.similar import Catalogue, certain, definition_of, module_moved
from extractor.values.manifest import Fix, Manifest
from extractor.values.options import Options


def check(manifest: Manifest, old: Source, new: Source) -> tuple[Finding, ...]:
    """Return everything in a manifest that held for its own release and does not hold for another one.

    Args:
        manifest: Of the older release.
        old: That release.
        new: The other one.
    """
    # A symbol may be replaced once for each engine.
    return tuple(dict.fromkeys(_Check(manifest, old, new).findings()))


class _Check:
    def __init__(self, manifest: Manifest, old: Source, new: Source) -> None:
        self._manifest = manifest
        self._new_files = new.files
        self._old_files = old.files
        self._old, self._new = Index(old), Index(new)
        self._catalogue = Catalogue(self._new)
        plain = replace(manifest, features=(), replacements=(), fixes=())
        options = Options("p", manifest.release)
        self._old_names = Definitions(self._old, plain, options)
        self._new_names = Definitions(self._new, plain, options)
        self._modules: dict[str, tuple[Suggestion, ...]] = {}

    def findings(self) -> Iterator[Finding]:
        yield from self._layout()
        yield from self._roles()
        yield from self._features()
        for item in self._manifest.replacements:
            yield from self._swapped(item.symbol, Kind.REPLACEMENT, f"replacements.{item.symbol}")
        for fix in self._manifest.fixes:
            yield from self._fix(fix)

    # Keys of the manifest

    def _layout(self) -> Iterator[Finding]:
        for path in self._manifest.layout:
            if holds(path, self._old_files) and not holds(path, self._new_files):
                suggestions: tuple[Suggestion, ...] = ()
                if path.endswith(".py"):
                    module = f"verl.{path.removesuffix('.py').replace('/', '.')}"
                    suggestions = tuple(
                        replace(item, place=self._new[item.place].path.removeprefix("verl/"))
                        for item in self._module(module)
                    )
                yield Finding(
                    Kind.LAYOUT, "layout", path, "is not in the source", suggestions, _taken_module(suggestions)
                )

    def _roles(self) -> Iterator[Finding]:
        for role in self._manifest.roles:
            where = f"roles.{role.name}"
            for symbol in role.symbols:
                module, _, name = symbol.partition(":")
                if name == "*":
                    if module not in self._new:
                        found = self._module(module)
                        moved = _taken_module(found)
                        yield Finding(
                            Kind.ROOT, where, symbol, "is gone: no such module", found, moved and f"{moved}:*"
                        )
                elif self._missing(symbol):
                    yield self._gone(Kind.ROOT, where, symbol)
            for module in role.modules:
                if module not in self._new:
                    found = self._module(module)
                    yield Finding(Kind.MODULE, where, module, "is gone", found, _taken_module(found))

    def _features(self) -> Iterator[Finding]:
        for feature in (*self._manifest.features, *self._manifest.withheld):
            where = f"features.{feature.name}"
            for pattern in feature.cut:
                if self._matched(pattern, self._old) and not self._matched(pattern, self._new):
                    if "*" in pattern:
                        yield Finding(Kind.CUT, where, pattern, "matches nothing")
                    else:
                        yield self._gone(Kind.CUT, where, pattern)
            for symbol in feature.replaced:
                yield from self._swapped(symbol, Kind.SWAP, where)

    def _swapped(self, symbol: str, kind: Kind, where: str) -> Iterator[Finding]:
        """Yield a symbol that gives way to ours: it must be defined where the manifest says, and look as it did."""
        if not binds(self._new, symbol):
            if binds(self._old, symbol):
                yield self._gone(kind, where, symbol)
            return
        before, after = definition_of(self._old, symbol), definition_of(self._new, symbol)
        if before is not None and after is not None:
            change, details = compare(ast.unparse(before), ast.unparse(after))
            if change is ChangeKind.SIGNATURE:
                said = _few([item for item in details if not item.endswith("body changed")])
                yield Finding(Kind.SIGNATURE, where, symbol, f"has another signature: {said}")

    def _fix(self, fix: Fix) -> Iterator[Finding]:
        where = f"fixes.{fix.id}"
        module = fix.module
        if module not in self._old:
            return  # left over from an earlier release
        if module not in self._new:
            found = self._module(module)
            moved = self._moved_fix(fix, found)
            yield Finding(Kind.FIX_MODULE, where, module, "is gone", found, moved)
            if moved is None:
                return
            module = moved
        if fix.edits:
            counts = count_matches(self._new[module].source, fix)
            for number, (edit, count) in enumerate(zip(fix.edits, counts, strict=True)):
                if count != edit.count:
                    within = f" within {edit.within}" if edit.within else ""
                    problem = f"`{edit.match}`{within} is found {count} times, and not {edit.count}"
                    yield Finding(Kind.FIX_EDIT, where, fix.id, problem, edit=number, count=count)
        for symbol in fix.replaced:
            if module == fix.module:
                yield from self._swapped(symbol, Kind.FIX_SWAP, where)
            else:
                moved_symbol = f"{module}:{symbol.partition(':')[2]}"
                there = moved_symbol.partition(":")[2] in self._new[module].bindings
                yield Finding(
                    Kind.FIX_SWAP,
                    where,
                    symbol,
                    "has moved" if there else "is gone",
                    moved=moved_symbol if there else None,
                )

    def _moved_fix(self, fix: Fix, found: tuple[Suggestion, ...]) -> str | None:
        """Return where the code of a fix has gone: a module in which every edit matches as often as it says."""
        for item in found:
            if fix.edits and count_matches(self._new[item.place].source, fix) == [edit.count for edit in fix.edits]:
                return item.place
        return _taken_module(found)

    # Where things are

    def _missing(self, symbol: str) -> bool:
        module, _, name = symbol.partition(":")
        return module not in self._new or self._new_names.define(module, name).kind == "missing"

    def _gone(self, kind: Kind, where: str, symbol: str) -> Finding:
        module, _, name = symbol.partition(":")
        was = self._old_names.define(module, name) if module in self._old else Definition("missing")
        # A symbol that was a re-export may still be where it was defined.
        if was.kind == "local" and was.module != module and not self._missing(f"{was.module}:{was.name}"):
            place = f"{was.module}:{was.name}"
            return Finding(
                kind, where, symbol, "is gone", (Suggestion(place, 1.0, "where it was defined before"),), place
            )
        old = definition_of(self._old, f"{was.module}:{was.name}") if was.kind == "local" else None
        found = self._catalogue.suggestions(name, old)
        if module in self._old and self._old[module].is_package:
            found = tuple(replace(item, place=self._as_exported(item.place)) for item in found)
        if old is None and kind in (Kind.FIX_SWAP, Kind.CUT, Kind.SWAP):
            found = (*found, *self._bound(name))
        problem = "is gone: no such module" if module not in self._new else "is gone"
        return Finding(kind, where, symbol, problem, found, certain(name, found))

    def _as_exported(self, symbol: str) -> str:
        """Return the package that a symbol can be imported from, where its own module's package offers it."""
        module, _, name = symbol.partition(":")
        package = module.rpartition(".")[0]
        exported = self._new_names.define(package, name)
        return f"{package}:{name}" if (exported.module, exported.name) == (module, name) else symbol

    def _bound(self, name: str) -> Iterator[Suggestion]:
        """Modules that bind a name otherwise than by defining it."""
        for module in sorted(self._new.names):
            symbol = f"{module}:{name}"
            mentioned = name.encode() in self._new_files.get(f"{module.replace('.', '/')}.py", b"")
            if mentioned and name in self._new[module].bindings and definition_of(self._new, symbol) is None:
                yield Suggestion(symbol, None, "has the same name")

    def _module(self, module: str) -> tuple[Suggestion, ...]:
        if module not in self._modules:
            self._modules[module] = module_moved(self._old, module, self._catalogue)
        return self._modules[module]

    @cached_property
    def _all_names(self) -> dict[int, frozenset[str]]:
        return {id(index): index.names for index in (self._old, self._new)}

    def _matched(self, pattern: str, index: Index) -> bool:
        return matched(pattern, index, self._all_names[id(index)])


def _few(details: list[str]) -> str:
    short = [item if len(item) < 100 else f"{item[:97]}..." for item in details[:3]]
    more = f"; and {len(details) - 3} more" if len(details) > 3 else ""
    return "; ".join(short) + more


def holds(path: str, files: Collection[str]) -> bool:
    """Tell whether a source has what a key of `[layout]` names."""
    full = f"verl/{path}"
    return any(file.startswith(full) for file in files) if full.endswith("/") else full in files


def matched(pattern: str, index: Index, modules: Collection[str]) -> bool:
    """Tell whether a pattern of `cut` names something; `modules` are all that the source has."""
    module, _, name = pattern.partition(":")
    if "*" in module:
        return any(fnmatchcase(item, module) for item in modules)
    return binds(index, pattern) if name != "*" else module in index


def binds(index: Index, symbol: str) -> bool:
    """Tell whether a module defines a name, or has it from another package."""
    module, _, name = symbol.partition(":")
    if module not in index:
        return False
    item = index[module].imports.get(name)
    return name in index[module].bindings or (item is not None and item.module.partition(".")[0] != "verl")


def _taken_module(found: tuple[Suggestion, ...]) -> str | None:
    """Return the module that can be taken without asking: it has most of what the old one had."""
    return found[0].place if found and found[0].score is not None and found[0].score >= 0.6 else None
