"""From a source and options to a project's tree: the pure part of the pipeline, Source to Render."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

from extractor.errors import UsageError
from extractor.index import Index
from extractor.manifest import Manifest
from extractor.options import RECIPES, Options
from extractor.render import render
from extractor.rewrite import Emitted, rewrite_module
from extractor.slicer import Slice, slice_source
from extractor.source import Source
from extractor.tree import File, FileKind, Tree


@dataclass(frozen=True)
class Generated:
    """A project as it would be written, and what is known about how it came to be.

    Attributes:
        tree: All files.
        found: The slice behind the vendored files.
        emitted: The vendored Python files, with what was changed in each.
        warnings: What a user should know.
    """

    tree: Tree
    found: Slice
    emitted: tuple[Emitted, ...]
    warnings: tuple[str, ...]


def complete(options: Options, manifest: Manifest) -> Options:
    """Check options against what the release offers, and switch on what the algorithm needs.

    Raises:
        UsageError: an option names nothing that exists, or the engine does not have the feature.
    """
    _known("engine", options.engine, manifest.engines, manifest)
    _known("algorithm", options.algorithm, manifest.algorithms, manifest)
    _known("recipe", options.recipe, RECIPES, manifest)
    names = [feature.name for feature in manifest.features]
    for feature in options.features:
        _known("feature", feature, names, manifest)
    features = set(options.features)
    for item in manifest.features:
        if options.algorithm in item.algorithms:
            features.add(item.name)
        if item.name in features and item.engines and options.engine not in item.engines:
            raise UsageError(
                f"feature {item.name} needs engine {' or '.join(item.engines)}, not {options.engine}",
                hint=f"drop `--with {item.name}`, or choose `--engine {item.engines[0]}`",
            )
    return replace(options, features=tuple(sorted(features)))


def generate(options: Options, source: Source, manifest: Manifest) -> Generated:
    """Make a project's files in memory.

    Args:
        options: Checked by `complete`.
        source: verl, of the manifest's release.
        manifest: What the release offers.
    """
    fixes = {fix.id: fix for fix in manifest.fixes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        found = slice_source(Index(source), manifest, options)
        emitted = tuple(
            rewrite_module(
                module, found, options.package, manifest.release, tuple(map(fixes.__getitem__, module.fixes))
            )
            for module in found.modules
        )
    upstream = {module.target_path: module for module in found.modules}
    files = [
        File(
            path=f"{options.package}/{item.path}",
            kind=FileKind.VENDORED,
            data=item.text.encode(),
            upstream_path=upstream[item.path].upstream_path,
            upstream_sha256=upstream[item.path].upstream_sha256,
        )
        for item in emitted
    ]
    files.append(_licence(source))
    files.extend(render(manifest, options, found, emitted, source.sha256))
    remarks = (*found.warnings, *(warning for item in emitted for warning in item.warnings))
    return Generated(Tree.of(files), found, emitted, remarks)


def _licence(source: Source) -> File:
    return File("LICENSE.verl", FileKind.VENDORED, source.licence.encode(), "LICENSE")


def _known(what: str, name: str, known: list[str] | tuple[str, ...], manifest: Manifest) -> None:
    from difflib import get_close_matches

    if name not in known:
        near = get_close_matches(name, known, 1)
        first = f"did you mean `{near[0]}`? " if near else ""
        raise UsageError(
            f"verl {manifest.release} has no {what} {name!r} here", hint=f"{first}{what}s: {', '.join(sorted(known))}"
        )
