"""Compare the vendored code of two releases: symbols, registries, config keys."""

import warnings
from collections.abc import Set as AbstractSet

from extractor.pipeline import generate as pipeline
from extractor.pipeline.generate import Generated
from extractor.pipeline.source import Source, open_source
from extractor.usecases.changes.changeset import ChangeKind, Changes, KeyChanges, OwnerKey, Place, SymbolChange
from extractor.usecases.changes.config_keys import compare_project_keys, select_config
from extractor.usecases.changes.symbols import compare_registries, compare_symbols
from extractor.values import releases
from extractor.values.errors import UsageError
from extractor.values.options import Options
from extractor.values.renames import Renames

__all__ = ["ChangeKind", "Changes", "KeyChanges", "OwnerKey", "Place", "SymbolChange", "report", "report_releases"]


def report(old: Generated, new: Generated, old_source: Source, new_source: Source) -> Changes:
    """Compare what two projects vendor.

    Args:
        old_source: verl, as the old one was made from it.
        new_source: verl, for the new one.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        symbols = compare_symbols(old, new, old_source, new_source)
        registries = compare_registries(old, new)
    renames = Renames(old_source.release, new_source.release)
    old_files, new_files = (select_config(side.tree) for side in (old, new))
    return Changes(
        old=old_source.release,
        new=new_source.release,
        symbols=tuple(symbols),
        registries=registries,
        project_keys=compare_project_keys(old_files, new_files, renames),
    )


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
        source = open_source(manifest.pin, offline=offline)
        sides.append((pipeline.generate(options, source, manifest), source))
    (before, old_source), (after, new_source) = sides
    return report(before, after, old_source, new_source)
