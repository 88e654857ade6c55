"""Run the pipeline with a manifest, and list what it cannot follow or rewrite."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator

from extractor.pipeline.index import Index
from extractor.pipeline.render.words import collect_method_names
from extractor.pipeline.rewrite import rewrite_module
from extractor.pipeline.slicer import Slice, slice_source
from extractor.pipeline.source import Source
from extractor.usecases.draft.findings import Finding, Kind, Suggestion
from extractor.usecases.draft.similar import Catalogue
from extractor.values.errors import VextractError
from extractor.values.manifest import Manifest
from extractor.values.options import Options


def choices(manifest: Manifest) -> tuple[Options, ...]:
    """Return projects that reach as much as possible: each engine without and with all features that it can have."""
    found = []
    for engine in manifest.engines:
        every = sorted(item.name for item in manifest.features if not item.engines or engine in item.engines)
        found += [Options("trial", manifest.release, engine, features=names) for names in ((), tuple(every))]
    return tuple(found)


def trial(manifest: Manifest, source: Source, progress: Callable[[str], None]) -> tuple[Finding, ...]:
    """Slice and rewrite for every choice.

    Args:
        manifest: One whose roots exist.
        source: The release.
        progress: Told what is going on.
    """
    index = Index(source)
    fixes = {fix.id: fix for fix in manifest.fixes}
    done: set[object] = set()
    findings: dict[tuple[str, str], Finding] = {}
    catalogue = Catalogue(index)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        for options in choices(manifest):
            progress(f"engine {options.engine}{', all features' if options.features else ''}")
            found = slice_source(index, manifest, options, collect_method_names(manifest, options), lenient=True)
            for item in (*_dead(found, catalogue), *_twice(found)):
                findings.setdefault((item.where, item.subject), item)
            for module in found.modules:
                if module in done:
                    continue
                done.add(module)
                try:
                    chosen = tuple(fixes[name] for name in module.fixes)
                    rewrite_module(module, found, options.package, chosen)
                except VextractError as error:
                    finding = Finding(Kind.REWRITE, module.upstream_path, error.message, error.hint)
                    findings.setdefault((finding.where, finding.subject), finding)
    return tuple(findings.values())


def _dead(found: Slice, catalogue: Catalogue) -> Iterator[Finding]:
    for place, wanted in found.dead_imports:
        name = wanted.rpartition(".")[2]
        similar = tuple(
            Suggestion(item.place, None, item.why) for item in catalogue.suggestions(name, None) if name[:1] != "_"
        )
        yield Finding(Kind.IMPORT, place, wanted, "is imported, and the source does not ship it", similar)


def _twice(found: Slice) -> Iterator[Finding]:
    """Files of upstream's that would go to one place."""
    counts = Counter(module.target_path for module in found.modules)
    for path, count in sorted(counts.items()):
        if count > 1:
            paths = [
                module.upstream_path.removeprefix("verl/") for module in found.modules if module.target_path == path
            ]
            yield Finding(Kind.LAYOUT, "layout", path, f"would come from {' and from '.join(paths)}")
