"""List the inherited entries of a manifest that match nothing in its release."""

from __future__ import annotations

from collections.abc import Iterator

from extractor.pipeline.index import Index
from extractor.pipeline.slicer.definitions import Definitions
from extractor.pipeline.source import Source
from extractor.usecases.draft.check import binds, holds, matched
from extractor.values.manifest import Manifest
from extractor.values.options import Options


def unmatched(manifest: Manifest, source: Source) -> tuple[str, ...]:
    """Return the entries that match nothing in the source, each as the manifest's key and what it says.

    Args:
        manifest: Of a release.
        source: That release.
    """
    return tuple(dict.fromkeys(_unmatched(manifest, source)))


def _unmatched(manifest: Manifest, source: Source) -> Iterator[str]:
    index = Index(source)
    names = Definitions(index, manifest, Options("p", manifest.release))
    yield from (f"layout: {path}" for path in manifest.layout if not holds(path, source.files))
    for role in manifest.roles:
        for symbol in role.symbols:
            module, _, name = symbol.partition(":")
            if module not in index or (name != "*" and names.define(module, name).kind == "missing"):
                yield f"roles.{role.name}: {symbol}"
        yield from (f"roles.{role.name}: {module}" for module in role.modules if module not in index)
    for feature in (*manifest.features, *manifest.withheld):
        for pattern in (*feature.cut, *feature.replaced):
            if not matched(pattern, index, index.names):
                yield f"features.{feature.name}: {pattern}"
    for item in manifest.replacements:
        if not binds(index, item.symbol):
            yield f"replacements: {item.symbol}"
    for fix in manifest.fixes:
        if fix.module not in index:
            yield f"fixes.{fix.id}: {fix.module}"
        yield from (f"fixes.{fix.id}: {symbol}" for symbol in fix.replaced if not binds(index, symbol))
