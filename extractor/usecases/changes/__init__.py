"""Compare the vendored code of two releases: symbols, registries, config keys."""

import ast
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import PurePosixPath

from extractor.pipeline import generate as pipeline
from extractor.pipeline.generate import Generated
from extractor.pipeline.index.syntax import find_first_line, list_bound_names, list_child_statements
from extractor.pipeline.render.registered import list_registrations
from extractor.pipeline.source import open_source
from extractor.usecases.changes.changeset import ChangeKind, Changes, OwnerKey, Place, RegistryChange, SymbolChange
from extractor.usecases.changes.compare import compare, shape
from extractor.usecases.changes.config_keys import compare_project_keys, select_config
from extractor.values import readers, releases
from extractor.values.errors import UsageError
from extractor.values.options import Options
from extractor.values.renames import Renames

__all__ = ["ChangeKind", "Changes", "OwnerKey", "Place", "SymbolChange", "report", "report_releases"]

# By the name of the decorator, or of its folder upstream where the decorator is just called `register`.
_TITLES = {
    "register_adv_est": "advantage estimators",
    "register_policy_loss": "policy losses",
    "reward_manager": "reward managers",
}


def report(old: Generated, new: Generated, old_release: str, new_release: str) -> Changes:
    """Compare what two projects vendor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        symbols = compare_symbols(old, new)
        registries = compare_registries(old, new)
    before, after = (select_config(side.tree) for side in (old, new))
    keys = compare_project_keys(before, after, Renames(old_release, new_release))
    return Changes(old_release, new_release, tuple(symbols), registries, keys)


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
    return report(sides[0], sides[1], old, new)


def find_places(generated: Generated) -> dict[str, Place]:
    """Return all vendored symbols with their places, in upstream's order."""
    found: dict[str, Place] = {}
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
                if (known := found.get(symbol)) is not None:
                    kind, first, text = "value", known.line - 1, known.text + text
                found[symbol] = Place(symbol, kind, module.upstream_path, module.target_path, first + 1, text)
    return found


def compare_symbols(old: Generated, new: Generated) -> list[SymbolChange]:
    """Compare the vendored symbols of two projects, following moved ones."""
    before, after = find_places(old), find_places(new)
    moved = _find_moves(before, after)
    origin = {new_symbol: old_symbol for old_symbol, new_symbol in moved.items()}
    found = []
    for symbol, place in after.items():
        was = before.get(origin.get(symbol, symbol))
        if was is None:
            found.append(SymbolChange(ChangeKind.NEW, None, place))
            continue
        change, details, computing = compare(was.text, place.text)
        if was.kind != place.kind:
            change, details, computing = ChangeKind.BODY, (f"was a {was.kind}, is a {place.kind}",), (place.name,)
        details = details if was.symbol == place.symbol else (f"was {was.symbol}", *details)
        found.append(SymbolChange(change, was, place, details, computing))
    for symbol, place in before.items():
        if symbol not in after and symbol not in moved:
            why = "ours instead of upstream's" if symbol in new.sliced.replaced else ""
            found.append(SymbolChange(ChangeKind.GONE, place, None, (why,) * bool(why)))
    return sorted(found, key=lambda item: (item.place.upstream_path, item.new is None, item.place.line))


def compare_registries(old: Generated, new: Generated) -> tuple[RegistryChange, ...]:
    """Compare what the vendored code of two projects registers."""
    sides: list[set[tuple[str, str]]] = []  # of registry and name
    for side in (old, new):
        sides.append(set())
        folders = {item.target_path: PurePosixPath(item.upstream_path).parent.name for item in side.sliced.modules}
        for item in side.emitted:
            for decorator, name, _ in list_registrations(readers.parse_python(item.text)):
                folder = folders[item.path]
                title = _TITLES.get(decorator) or _TITLES.get(folder) or f"{folder}:{decorator}"
                sides[-1] |= {(title, name)} if decorator.startswith("register") else set()
    gained, lost = sides[1] - sides[0], sides[0] - sides[1]
    return tuple(
        RegistryChange(title, *(tuple(sorted(name for of, name in change if of == title)) for change in (gained, lost)))
        for title in sorted({title for title, _ in sides[0] | sides[1]})
    )


def _find_moves(before: Mapping[str, Place], after: Mapping[str, Place]) -> dict[str, str]:
    """Map old to new symbols that moved or were only renamed."""
    gone = [place for symbol, place in before.items() if symbol not in after and place.kind != "value"]
    came = [place for symbol, place in after.items() if symbol not in before and place.kind != "value"]
    found: dict[str, str] = {}

    def shape_of(place: Place) -> str:  # short definitions look alike by chance
        return shape(place.text) if place.text.count("\n") > 3 else place.symbol

    for key in (lambda place: f"{place.kind} {place.name}", shape_of):
        old_keys, new_keys = Counter(map(key, gone)), Counter(map(key, came))
        by_key = {key(place): place for place in came}
        for place in gone:
            name = key(place)
            if old_keys[name] == new_keys[name] == 1:
                found[place.symbol] = by_key[name].symbol
        gone = [place for place in gone if place.symbol not in found]
        came = [place for place in came if place.symbol not in found.values()]
    return found


def _find_bindings(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield names defined by a top-level statement, with kind; no imports."""
    kinds = {ast.FunctionDef: "function", ast.AsyncFunctionDef: "function", ast.ClassDef: "class"}
    if isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While)):
        seen = {name for child in list_child_statements(node) for name, _ in _find_bindings(child)}
        yield from ((name, "value") for name in sorted(seen))
    elif not isinstance(node, (ast.Import, ast.ImportFrom, ast.AugAssign)):
        kind = kinds.get(type(node), "value")
        yield from ((name, kind) for name in list_bound_names(node) if name not in ("__all__", "logger"))
