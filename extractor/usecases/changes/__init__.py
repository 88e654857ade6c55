"""Compare the vendored code of two releases: symbols and config keys."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from extractor.pipeline import generate as pipeline
from extractor.pipeline.generate import Generated
from extractor.pipeline.index.syntax import find_first_line, list_bound_names, list_child_statements
from extractor.pipeline.source import open_source
from extractor.usecases.changes.changeset import ChangeKind, Changes, OwnerKey, Place, SymbolChange
from extractor.usecases.changes.compare import compare
from extractor.usecases.changes.config_keys import compare_project_keys, select_config
from extractor.values import readers, releases
from extractor.values.errors import UsageError
from extractor.values.options import Options
from extractor.values.renamed_config_keys import KeyRenames

__all__ = ["ChangeKind", "Changes", "OwnerKey", "Place", "SymbolChange", "report", "report_releases"]


def report(old: Generated, new: Generated) -> Changes:
    """Compare what two projects vendor, following moved symbols."""
    before, after = find_places(old), find_places(new)
    moved = _find_moves(before, after)
    origin = {new_symbol: old_symbol for old_symbol, new_symbol in moved.items()}
    changes = []
    for symbol, place in after.items():
        was = before.get(origin.get(symbol, symbol))
        if was is None:
            changes.append(SymbolChange(ChangeKind.NEW, None, place))
            continue
        change, details, computing = compare(was.text, place.text)
        if was.kind != place.kind:
            change, details, computing = ChangeKind.BODY, (f"was a {was.kind}, is a {place.kind}",), (place.name,)
        details = details if was.symbol == place.symbol else (f"was {was.symbol}", *details)
        changes.append(SymbolChange(change, was, place, details, computing))
    for symbol, place in before.items():
        if symbol not in after and symbol not in moved:
            why = "ours instead of upstream's" if symbol in new.sliced.replaced else ""
            changes.append(SymbolChange(ChangeKind.GONE, place, None, (why,) * bool(why)))
    changes.sort(key=lambda item: (item.place.upstream_path, item.new is None, item.place.line))
    both = old.options.verl, new.options.verl
    keys = compare_project_keys(select_config(old.tree), select_config(new.tree), KeyRenames(*both))
    return Changes(*both, tuple(changes), keys)


def report_releases(
    old: str,
    new: str,
    engine: str,
    algorithm: str,
    features: AbstractSet[str],
    *,
    offline: bool,
) -> Changes:
    """Compare generated projects of two releases.

    Raises:
        UsageError: neither release has a feature.
    """
    manifests = releases.load(old), releases.load(new)
    known = {feature.name for manifest in manifests for feature in manifest.features}
    for name in sorted(features - known):
        raise UsageError(f"neither release has a feature {name!r} here", hint=f"features: {', '.join(sorted(known))}")
    sides = []
    for manifest in manifests:
        chosen = tuple(sorted(features & {feature.name for feature in manifest.features}))
        options = pipeline.complete(Options("myproj", manifest.release, engine, algorithm, chosen), manifest)
        sides.append(pipeline.generate(options, open_source(manifest.pin, offline=offline), manifest))
    return report(sides[0], sides[1])


def find_places(generated: Generated) -> dict[str, Place]:
    """Return all vendored symbols with their places, in upstream's order."""
    places: dict[str, Place] = {}
    for module in generated.sliced.modules:
        substituted = {item.statement for item in module.substitutes}
        lines = readers.split_lines(module.source)
        body = module.body
        for index in module.kept:
            if index in substituted:
                continue
            for name, kind in _find_bindings(body[index]):
                symbol, first = f"{module.module}:{name}", find_first_line(body[index])
                text = "".join(lines[first : body[index].end_lineno])
                # A second definition of a name (a version check, say) belongs to the first.
                if (known := places.get(symbol)) is not None:
                    kind, first, text = "value", known.line - 1, known.text + text
                places[symbol] = Place(symbol, kind, module.upstream_path, module.target_path, first + 1, text)
    return places


def _find_moves(before: Mapping[str, Place], after: Mapping[str, Place]) -> dict[str, str]:
    """Map old to new symbols that moved to another module under their name."""
    sides = [
        [(place.kind, place.name, symbol) for symbol, place in side.items() if symbol not in other]
        for side, other in ((before, after), (after, before))
    ]
    counts = [Counter((kind, name) for kind, name, _ in side) for side in sides]
    came = {(kind, name): symbol for kind, name, symbol in sides[1]}
    return {
        symbol: came[kind, name]
        for kind, name, symbol in sides[0]
        if kind != "value" and counts[0][kind, name] == counts[1][kind, name] == 1
    }


def _find_bindings(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield names defined by a top-level statement, with kind; no imports."""
    kinds = {ast.FunctionDef: "function", ast.AsyncFunctionDef: "function", ast.ClassDef: "class"}
    if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
        seen = {name for child in list_child_statements(node) for name, _ in _find_bindings(child)}
        yield from ((name, "value") for name in sorted(seen))
    elif not isinstance(node, (ast.Import, ast.ImportFrom, ast.AugAssign)):
        kind = kinds.get(type(node), "value")
        yield from ((name, kind) for name in list_bound_names(node) if name not in ("__all__", "logger"))
