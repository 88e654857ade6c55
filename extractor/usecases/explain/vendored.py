"""Explain a vendored file or symbol: the chain from a root, and its changes."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from extractor.pipeline.generate import Generated
from extractor.pipeline.index.syntax import bound_names, first_line
from extractor.pipeline.render import list_applied_fixes
from extractor.pipeline.rewrite.apply_fixes import touches
from extractor.pipeline.rewrite.changes import methods_dropped
from extractor.pipeline.slicer import STUBS, Edge, KeptModule
from extractor.usecases.explain.explanation import TEMPLATE, VENDORED, Explanation
from extractor.values import readers
from extractor.values.manifest import Manifest
from extractor.values.modules import module_name
from extractor.values.options import Options


def of_vendored(generated: Generated, manifest: Manifest, options: Options, name: str) -> tuple[Explanation, ...]:
    """Explain a vendored file or symbol.

    Args:
        generated: The project as its lock would make it again.
        manifest: The release.
        options: The project's options.
        name: A path in the project or in verl, a module, "module:symbol", or just a symbol's name.

    Returns:
        One explanation for each thing of that name; none where nothing vendored is called that.
    """
    found = generated.found
    files = [module for module in found.modules if name in _names_of(module, options.package)]
    if files:
        return tuple(_explain_file(generated, manifest, options, module) for module in files)
    symbols = _symbols(generated, options, name)
    if symbols:
        return tuple(_explain_symbol(generated, manifest, options, symbol) for symbol in symbols)
    return tuple(_explain_left_out(generated, options, symbol) for symbol in _left_out(generated, options, name))


def known_names(generated: Generated, options: Options) -> set[str]:
    """Return what a vendored thing may be called: its symbols and its files."""
    known = {symbol.partition(":")[2] for symbol in (*generated.found.edges, *_dropped(generated))}
    known.update(f"{options.package}/{module.target_path}" for module in generated.found.modules)
    return known


def _symbols(generated: Generated, options: Options, name: str) -> list[str]:
    """Return upstream's names of the symbols that are meant; of methods that go by the last part alone, all."""
    found = _called(generated, options, name, generated.found.edges)
    return found or [symbol for symbol in generated.found.edges if _method_of(symbol) == name]


def _left_out(generated: Generated, options: Options, name: str) -> list[str]:
    """Return the methods of that name that were dropped."""
    dropped = _dropped(generated)
    return _called(generated, options, name, dropped) or [symbol for symbol in dropped if _method_of(symbol) == name]


def _dropped(generated: Generated) -> list[str]:
    return [f"{holder}.{name}" for holder, names in generated.found.dropped.items() for name in names]


def _method_of(symbol: str) -> str:
    """Return the name of a method, "run" of "module:Class.run"; of any other symbol nothing."""
    return symbol.partition(":")[2].partition(".")[2]


def _called(generated: Generated, options: Options, name: str, symbols: Iterable[str]) -> list[str]:
    """Return the symbols that are meant: by name, by "module:name", dotted, or by their place here."""
    modules = {module.module: module for module in generated.found.modules}
    local = name.replace(":", ".").replace("/", ".").removeprefix(f"{options.package}.")
    found = []
    for symbol in symbols:
        module, _, item = symbol.partition(":")
        known = {symbol, item, f"{module}.{item}"}
        if module in modules:
            known.add(f"{module_name(modules[module].target_path)}.{item}")
        if name in known or local in known:
            found.append(symbol)
    return found


def _explain_left_out(generated: Generated, options: Options, symbol: str) -> Explanation:
    module = next(item for item in generated.found.modules if item.module == symbol.partition(":")[0])
    return Explanation(
        subject=symbol,
        path=f"{options.package}/{module.target_path}",
        whose=VENDORED,
        upstream_path=module.upstream_path,
        release=options.verl,
        upstream_sha256=module.upstream_sha256,
        note="left out of its class: no code of the project uses its name\n"
        "use it in your own code and run `vextract upgrade`: it comes",
    )


def _explain_symbol(generated: Generated, manifest: Manifest, options: Options, symbol: str) -> Explanation:
    found = generated.found
    upstream = symbol.partition(":")[0]
    chain = _chain(generated, symbol)
    if symbol in found.replaced:
        target = found.replaced[symbol]
        return Explanation(
            subject=symbol,
            path=f"{options.package}/{target.module.replace('.', '/')}.py",
            whose=TEMPLATE,
            upstream_path=manifest_path(symbol),
            release=options.verl,
            chain=chain,
            note=_replacement_note(generated, manifest, symbol),
        )
    module = next(item for item in found.modules if item.module == upstream)
    name = symbol.partition(":")[2]
    text = _text_of(module.source, name)
    here = next((_text_of(item.text, name) for item in generated.emitted if item.path == module.target_path), text)
    return Explanation(
        subject=symbol,
        path=f"{options.package}/{module.target_path}",
        whose=VENDORED,
        upstream_path=module.upstream_path,
        release=options.verl,
        upstream_sha256=module.upstream_sha256,
        chain=chain,
        changes=("nothing: its text is upstream's",) if text == here else _changes(generated, module, name),
        fixes=_fixes(generated, manifest, module, text),
    )


def _explain_file(generated: Generated, manifest: Manifest, options: Options, module: KeptModule) -> Explanation:
    symbols = tuple(symbol for symbol in generated.found.edges if symbol.startswith(f"{module.module}:"))
    chains = sorted((_chain(generated, symbol) for symbol in symbols), key=len)
    effects = [place for place in generated.found.effects if place.startswith(f"{module.upstream_path}:")]
    return Explanation(
        subject=f"{options.package}/{module.target_path}",
        path=f"{options.package}/{module.target_path}",
        whose=VENDORED,
        upstream_path=module.upstream_path,
        release=options.verl,
        upstream_sha256=module.upstream_sha256,
        chain=chains[0] if chains else (),
        symbols=tuple(symbol.partition(":")[2] for symbol in symbols if not _method_of(symbol)),
        changes=_changes(generated, module),
        fixes=_fixes(generated, manifest, module),
        note="".join(f"module-level effect kept: {place}\n" for place in effects).strip(),
    )


def _chain(generated: Generated, symbol: str) -> tuple[Edge, ...]:
    chain: list[Edge] = []
    seen = set()
    while symbol in generated.found.edges and symbol not in seen:
        seen.add(symbol)
        edge = generated.found.edges[symbol]
        chain.append(edge)
        symbol = edge.origin
    return tuple(chain)


def _changes(generated: Generated, module: KeptModule, symbol: str | None = None) -> tuple[str, ...]:
    """Return what was done to a file, or to one symbol in it, apart from its named fixes."""
    done = next((item.changes for item in generated.emitted if item.path == module.target_path), ())
    if symbol is None:
        return tuple(change for change in done if not change.startswith("fix "))
    methods = [f"{symbol}.{name}" for name in generated.found.dropped.get(f"{module.module}:{symbol}", ())]
    return (*methods_dropped(methods), *(change for change in done if not change.startswith(("fix ", "dropped "))))


def _fixes(generated: Generated, manifest: Manifest, module: KeptModule, text: str | None = None) -> tuple[str, ...]:
    """Return the named fixes of a file, or those that touch one symbol's text in it."""
    applied = [fix for fix in list_applied_fixes(manifest, generated.found) if fix.module == module.module]
    return tuple(f"{fix.id}: {fix.why}" for fix in applied if text is None or touches(fix, text))


def _text_of(source: str, name: str) -> str:
    """Return the text of a definition, "f" or "Class"; of "Class.method" that of a class with this method alone."""
    top, _, member = name.partition(".")
    lines = readers.split_lines(source)
    found = []
    for node in readers.python(source).body:
        if top not in bound_names(node):
            continue
        if member and isinstance(node, ast.ClassDef):
            found.append(f"class {top}:\n")
            for item in node.body:
                if getattr(item, "name", "") == member:
                    found += lines[first_line(item) : item.end_lineno]
        else:
            found += lines[first_line(node) : node.end_lineno]
    return "".join(found)


def _replacement_note(generated: Generated, manifest: Manifest, symbol: str) -> str:
    if generated.found.replaced[symbol].module == STUBS:
        stub = next(item for item in generated.found.stubs if item.name == symbol.partition(":")[2])
        if why := next((item.withheld for item in manifest.withheld if item.name == stub.feature), None):
            return f"a stub: no project has the feature `{stub.feature}`: {why}"
        return f"a stub: the feature `{stub.feature}` is not in this project (`vextract add {stub.feature}`)"
    for item in manifest.replacements:
        if item.symbol == symbol:
            return f"ours instead of upstream's: {item.why}"
    for fix in manifest.fixes:
        if symbol in fix.replaced:
            return f"ours instead of upstream's, fix {fix.id}: {fix.why}"
    for feature in manifest.features:
        if symbol in feature.replaced:
            return f"ours instead of upstream's while the feature `{feature.name}` is off"
    return "ours instead of upstream's"


def _names_of(module: KeptModule, package: str) -> set[str]:
    dotted = module_name(module.target_path)
    return {
        module.module,
        module.upstream_path,
        module.upstream_path.removeprefix("verl/"),
        module.target_path,
        module.target_path.rpartition("/")[2],
        f"{package}/{module.target_path}",
        dotted,
        f"{package}.{dotted}",
    }


def manifest_path(symbol: str) -> str:
    """Return the upstream file of "verl.utils.fs:copy_to_local", as far as its module's name tells."""
    return symbol.partition(":")[0].replace(".", "/") + ".py"
