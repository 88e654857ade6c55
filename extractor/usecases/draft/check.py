"""Check a manifest against another release's source."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from fnmatch import fnmatchcase

from extractor.pipeline.index import Index
from extractor.pipeline.rewrite.apply_fixes import count_matches
from extractor.pipeline.slicer.definitions import Definition, Definitions
from extractor.pipeline.source import Source
from extractor.usecases.changes import ChangeKind
from extractor.usecases.changes.compare import compare
from extractor.usecases.draft.similar import Catalogue, Suggestion, choose, find_definition, find_module
from extractor.values.manifest import Fix, Manifest
from extractor.values.options import Options

_MODULE_ENOUGH = 0.6


class Kind(str, Enum):
    """Says what no longer holds."""

    ROOT = "root"
    MODULE = "module"
    REPLACEMENT = "replacement"
    SIGNATURE = "signature"
    CUT = "cut"
    SWAP = "replaced"
    LAYOUT = "layout"
    FIX_MODULE = "module of a fix"
    FIX_EDIT = "edit of a fix"
    FIX_SWAP = "replaced by a fix"


@dataclass(frozen=True)
class Finding:
    """Something that the manifest says and that does not hold.

    Attributes:
        kind: What it is.
        where: The manifest's key: "roles.actor", "features.lora", "fixes.actor-autocast-dtype", "layout".
        subject: The symbol, module, path or pattern.
        problem: What is wrong with it, in a few words.
        suggestions: Where it may have gone, the best first.
        moved: The suggestion that is so good that it is taken.
        edit, count: For an edit of a fix, its number from 0, and how often it matches.
    """

    kind: Kind
    where: str
    subject: str
    problem: str
    suggestions: tuple[Suggestion, ...] = ()
    moved: str | None = None
    edit: int = 0
    count: int = 0

    def __str__(self) -> str:
        return f"{self.kind.value:22}  {self.where}: {self.subject} {self.problem}"


def check(manifest: Manifest, old: Source, new: Source) -> tuple[Finding, ...]:
    """Return manifest entries valid for `old` but not for `new`.

    Args:
        manifest: Of the older release.
    """
    # A symbol may be replaced once for each engine.
    return tuple(dict.fromkeys(_Check(manifest, old, new).findings()))


class _Check:
    def __init__(self, manifest: Manifest, old: Source, new: Source) -> None:
        self._manifest = manifest
        self._files = old.files, new.files
        self._old, self._new = Index(old), Index(new)
        self._catalogue = Catalogue(self._new)
        plain = replace(manifest, features=(), replacements=(), fixes=())
        options = Options("p", manifest.release)
        self._old_names = Definitions(self._old, plain, options)
        self._new_names = Definitions(self._new, plain, options)
        self._modules: dict[str, tuple[Suggestion, ...]] = {}
        self._roots: dict[str, list[str]] = {}
        for symbol in (symbol for role in manifest.roles for symbol in role.symbols):
            module, _, name = symbol.partition(":")
            self._roots.setdefault(module, []).extend([name] * (name != "*"))

    def findings(self) -> Iterator[Finding]:
        yield from self._check_layout()
        yield from self._check_roles()
        for feature in (*self._manifest.features, *self._manifest.withheld):
            where = f"features.{feature.name}"
            for pattern in feature.cut:
                if matches(pattern, self._old) and not matches(pattern, self._new):
                    pattern_gone = Finding(Kind.CUT, where, pattern, "matches nothing")
                    yield pattern_gone if "*" in pattern else self._report_gone(Kind.CUT, where, pattern)
            for symbol in feature.replaced:
                yield from self._check_swapped(symbol, Kind.SWAP, where)
        for item in self._manifest.replacements:
            yield from self._check_swapped(item.symbol, Kind.REPLACEMENT, f"replacements.{item.symbol}")
        for fix in self._manifest.fixes:
            yield from self._check_fix(fix)

    def _check_layout(self) -> Iterator[Finding]:
        for path in self._manifest.layout:
            module = f"verl.{path.removesuffix('.py').replace('/', '.')}" if path.endswith(".py") else ""
            roots = self._roots.get(module, ())
            is_empty = bool(roots) and all(self._is_missing(f"{module}:{name}") for name in roots)
            if holds(path, self._files[0]) and (is_empty or not holds(path, self._files[1])):
                moved = self._module(module) if module else ()
                paths = (self._new[item.place].path.removeprefix("verl/") for item in moved)
                suggestions = tuple(replace(item, place=place) for item, place in zip(moved, paths, strict=True))
                yield Finding(
                    Kind.LAYOUT, "layout", path, "is not in the source", suggestions, _choose_module(suggestions)
                )

    def _check_roles(self) -> Iterator[Finding]:
        for role in self._manifest.roles:
            for subject in (*role.symbols, *role.modules):
                module, colon, name = subject.partition(":")
                if name not in ("", "*"):
                    yield from [self._report_gone(Kind.ROOT, f"roles.{role.name}", subject)] * self._is_missing(subject)
                elif module not in self._new:
                    suggestions = self._module(module)
                    moved, kind = _choose_module(suggestions), Kind.ROOT if colon else Kind.MODULE
                    yield Finding(
                        kind, f"roles.{role.name}", subject, "is gone", suggestions, moved and f"{moved}{colon}{name}"
                    )

    def _check_swapped(self, symbol: str, kind: Kind, where: str) -> Iterator[Finding]:
        """Yield a finding if a replaced symbol vanished or changed signature."""
        if not has_binding(self._new, symbol):
            if has_binding(self._old, symbol):
                yield self._report_gone(kind, where, symbol)
            return
        before, after = find_definition(self._old, symbol), find_definition(self._new, symbol)
        if before is not None and after is not None:
            change, details, _ = compare(ast.unparse(before), ast.unparse(after))
            if change is ChangeKind.SIGNATURE:
                said = [item[:97] for item in details if not item.endswith("body changed")]
                more = f"; and {len(said) - 3} more" if len(said) > 3 else ""
                yield Finding(Kind.SIGNATURE, where, symbol, f"has another signature: {'; '.join(said[:3])}{more}")

    def _check_fix(self, fix: Fix) -> Iterator[Finding]:
        where, module = f"fixes.{fix.id}", fix.module
        if module not in self._old:
            return  # left over from an earlier release
        if module not in self._new:
            suggestions, counts = self._module(module), [edit.count for edit in fix.edits]
            fitting = (item.place for item in suggestions if count_matches(self._new[item.place].source, fix) == counts)
            moved = next(fitting, None) if counts else None
            moved = moved or _choose_module(suggestions)
            yield Finding(Kind.FIX_MODULE, where, module, "is gone", suggestions, moved)
            if moved is None:
                return
            module = moved
        counts = count_matches(self._new[module].source, fix) if fix.edits else []
        for number, (edit, count) in enumerate(zip(fix.edits, counts, strict=True)):
            if count != edit.count:
                within = f" within {edit.within}" if edit.within else ""
                problem = f"`{edit.match}`{within} is found {count} times, and not {edit.count}"
                yield Finding(Kind.FIX_EDIT, where, fix.id, problem, edit=number, count=count)
        for symbol in fix.replaced:
            if module == fix.module:
                yield from self._check_swapped(symbol, Kind.FIX_SWAP, where)
            else:
                name = symbol.partition(":")[2]
                place = f"{module}:{name}" if name in self._new[module].bindings else None
                yield Finding(Kind.FIX_SWAP, where, symbol, "has moved" if place else "is gone", moved=place)

    def _is_missing(self, symbol: str) -> bool:
        module, _, name = symbol.partition(":")
        return module not in self._new or self._new_names.define(module, name).kind == "missing"

    def _report_gone(self, kind: Kind, where: str, symbol: str) -> Finding:
        module, _, name = symbol.partition(":")
        was = self._old_names.define(module, name) if module in self._old else Definition("missing")
        place = f"{was.module}:{was.name}"
        # A symbol that was a re-export may still be where it was defined.
        if was.kind == "local" and was.module != module and not self._is_missing(place):
            still = Suggestion(place, 1.0, "where it was defined before")
            return Finding(kind, where, symbol, "is gone", (still,), place)
        suggestions = self._catalogue.find(name, find_definition(self._old, place) if was.kind == "local" else None)
        problem = "is gone: no such module" if module not in self._new else "is gone"
        return Finding(kind, where, symbol, problem, suggestions, choose(suggestions))

    def _module(self, module: str) -> tuple[Suggestion, ...]:
        if module not in self._modules:
            self._modules[module] = find_module(self._old, module, self._catalogue, self._roots.get(module, ()))
        return self._modules[module]


def holds(path: str, files: Collection[str]) -> bool:
    """Tell whether a source has what a key of `[layout]` names."""
    full = f"verl/{path}"
    return any(file.startswith(full) for file in files) if full.endswith("/") else full in files


def matches(pattern: str, index: Index) -> bool:
    """Tell whether a pattern of `cut` names something."""
    module, _, name = pattern.partition(":")
    if "*" in module:
        return any(fnmatchcase(item, module) for item in index.names)
    return has_binding(index, pattern) if name != "*" else module in index


def has_binding(index: Index, symbol: str) -> bool:
    """Tell whether a module defines a name or imports it externally."""
    module, _, name = symbol.partition(":")
    if module not in index:
        return False
    item = index[module].imports.get(name)
    return name in index[module].bindings or (item is not None and item.module.partition(".")[0] != "verl")


def _choose_module(suggestions: tuple[Suggestion, ...]) -> str | None:
    """Return the best module if its score suffices, else None."""
    return suggestions[0].place if suggestions and (suggestions[0].score or 0) >= _MODULE_ENOUGH else None
