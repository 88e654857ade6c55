"""Infer a release's manifest from an earlier one."""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from extractor.pipeline.index import Index
from extractor.pipeline.render.method_names import collect_method_names
from extractor.pipeline.rewrite import rewrite_module
from extractor.pipeline.slicer import slice_source
from extractor.pipeline.source import Source
from extractor.usecases.draft.amend import amend
from extractor.usecases.draft.check import check
from extractor.usecases.draft.findings import Finding, Kind
from extractor.values import releases
from extractor.values.errors import VextractError
from extractor.values.manifest import Manifest, parse_manifest
from extractor.values.options import Options

NO_DIGEST = "0" * 64
Step = Callable[[str], None]


@dataclass(frozen=True)
class ManifestFit:
    """Says how far a manifest holds for another release.

    Attributes:
        base: The release whose manifest it is.
        old: Its source.
        new: The source of the other release.
        before: The manifest in full, as TOML gives it.
        data: The same with what does not hold put right or taken out, for the other release.
        findings: What does not hold.
        left: What still cannot be followed or rewritten with the amended manifest.
        manifest: The amended manifest.
    """

    base: str
    old: Source = field(repr=False)
    new: Source = field(repr=False)
    before: dict[str, Any] = field(repr=False)
    data: dict[str, Any] = field(repr=False)
    findings: tuple[Finding, ...]
    left: tuple[Finding, ...]
    manifest: Manifest = field(repr=False)

    @property
    def release(self) -> str:
        """Return the other release."""
        return self.new.release

    @property
    def holds(self) -> bool:
        """Return True where the manifest holds as it is."""
        return not self.findings and not self.left


def fit(base: str, old: Source, new: Source, progress: Step) -> ManifestFit:
    """Hold a release against an earlier one's manifest.

    Args:
        base: The release whose manifest is tried.
        new: The source of the other release.
    """
    before = releases.merge_predecessors(base)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        progress("roots, replacements and fixes")
        findings = check(releases.load(base), old, new)
        data = amend(before, findings)
        data["release"] = new.release
        data["source"] = _rewrite_source(new)
        for key in ("renamed_keys", "follows"):
            data.pop(key, None)
        manifest = replace(
            parse_manifest(data, f"verl-{new.release}.toml (inferred)"),
            borrowed_from=base,
            former_keys=releases.load(base).former_keys,
        )
        left = _try_slicing(manifest, new, progress)
    return ManifestFit(base, old, new, before, data, findings, left, manifest)


def list_choices(manifest: Manifest) -> list[Options]:
    """Return options for each engine: with no features and with all."""
    found = []
    for engine in manifest.engines:
        every = sorted(item.name for item in manifest.features if not item.engines or engine in item.engines)
        found += [Options("trial", manifest.release, engine, features=names) for names in ((), tuple(every))]
    return found


def _try_slicing(manifest: Manifest, source: Source, progress: Step) -> tuple[Finding, ...]:
    """Slice and rewrite each choice of options; return what fails."""
    index = Index(source)
    fixes = {fix.id: fix for fix in manifest.fixes}
    done: set[object] = set()
    findings = []
    for options in list_choices(manifest):
        progress(f"engine {options.engine}{', all features' if options.features else ''}")
        found = slice_source(index, manifest, options, collect_method_names(manifest, options), lenient=True)
        for place, wanted in found.dead_imports:
            findings.append(Finding(Kind.IMPORT, place, wanted, "is imported, and the source does not ship it"))
        counts = Counter(module.target_path for module in found.modules)
        for path in sorted(path for path, count in counts.items() if count > 1):
            origins = [item.upstream_path.removeprefix("verl/") for item in found.modules if item.target_path == path]
            findings.append(Finding(Kind.LAYOUT, "layout", path, f"would come from {' and from '.join(origins)}"))
        for module in [module for module in found.modules if module not in done]:
            done.add(module)
            try:
                rewrite_module(module, found, options.package, tuple(fixes[name] for name in module.fixes))
            except VextractError as error:
                findings.append(Finding(Kind.REWRITE, module.upstream_path, error.message, error.hint))
    return tuple({(item.where, item.subject): item for item in reversed(findings)}.values())[::-1]


def _rewrite_source(source: Source) -> dict[str, str]:
    if source.kind == "wheel":
        return {"wheel": source.filename, "wheel_sha256": source.sha256}
    return {"wheel": f"verl-{source.release}-py3-none-any.whl", "wheel_sha256": NO_DIGEST}
