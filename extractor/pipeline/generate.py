"""Generate a project's tree from a source and options."""

import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial

from extractor.pipeline.index import Index
from extractor.pipeline.render import render
from extractor.pipeline.render.layers import list_recipe_features
from extractor.pipeline.render.method_names import collect_method_names
from extractor.pipeline.rewrite import CannotRewrite, Emitted, rewrite_module
from extractor.pipeline.slicer import Slice, slice_source
from extractor.pipeline.source import Source
from extractor.values import releases
from extractor.values.errors import UsageError
from extractor.values.manifest import OWN_MANIFEST, Manifest, add_own
from extractor.values.options import ENVIRONMENT, RECIPES, Options
from extractor.values.reachable import find_reachable
from extractor.values.tree import File, FileKind, Tree

ALL = "all"  # in place of a feature: each that the release has for the engine


@dataclass(frozen=True)
class Generated:
    """A project in memory, and what it was made from.

    Attributes:
        tree: All files.
        sliced: The slice behind the vendored files.
        emitted: The vendored Python files, with what was changed in each.
        warnings: What a user should know.
        options, source: What it was made from.
        manifest: The release's, with what the options' own manifest adds.
    """

    tree: Tree
    sliced: Slice
    emitted: tuple[Emitted, ...]
    warnings: tuple[str, ...]
    options: Options
    source: Source
    manifest: Manifest


def complete(options: Options, manifest: Manifest, without: Iterable[str] = (), *, upgrading: bool = False) -> Options:
    """Check options against the release, and add what the algorithm needs.

    Args:
        options: As asked for.
        manifest: The release.
        without: Features that ALL leaves out.
        upgrading: The options are those of a project that is there; hints name `vextract upgrade`.

    Raises:
        UsageError: an option names nothing that exists, or the engine does not have the feature.
    """
    refuse_unknown = partial(_refuse_unknown, manifest=manifest, upgrading=upgrading)
    refuse_unknown("engine", options.engine, manifest.engines)
    refuse_unknown("algorithm", options.algorithm, manifest.algorithms)
    if options.recipe != ENVIRONMENT:
        refuse_unknown("recipe", options.recipe, RECIPES)
    names = [feature.name for feature in manifest.features]
    if ALL in options.features:
        fitting = (item for item in manifest.features if not item.engines or options.engine in item.engines)
        every = {item.name for item in fitting if not item.by_name}
        options = replace(options, features=tuple({*options.features, *every} - {ALL, *without}))
    withheld = {feature.name: feature.withheld for feature in manifest.withheld}
    for feature in options.features:
        if feature in withheld:
            hint = _say_where_offered("feature", feature, upgrading) or f"leave {feature} out"
            problem = f"verl {manifest.release} has no feature {feature!r} here: {withheld[feature]}"
            raise UsageError(problem, hint=hint)
        refuse_unknown("feature", feature, names)
    of_recipe = list_recipe_features(options.recipe)
    for feature in of_recipe:
        if feature not in names:
            raise UsageError(
                f"recipe {options.recipe} needs feature {feature!r}, which verl {manifest.release} has not here",
                hint=_say_where_offered("feature", feature, upgrading),
            )
    of_algorithm = (item.name for item in manifest.features if options.algorithm in item.algorithms)
    chosen = {*options.features, *of_algorithm, *of_recipe}
    needs = {item.name: item.needs for item in manifest.features}
    features = find_reachable(chosen, lambda name: needs[name])
    for item in manifest.features:
        if item.name in features and item.engines and options.engine not in item.engines:
            raise UsageError(
                f"feature {item.name} needs engine {' or '.join(item.engines)}, not {options.engine}",
                hint=f"leave {item.name} out, or choose `{'vextract upgrade ' * upgrading}--engine {item.engines[0]}`",
            )
    return replace(options, features=tuple(sorted(features)))


def list_recipes(manifest: Manifest) -> tuple[str, ...]:
    """Return the recipes whose features the release offers."""
    names = {feature.name for feature in manifest.features}
    return tuple(recipe for recipe in RECIPES if names.issuperset(list_recipe_features(recipe)))


def refuse_needed_features(dropped: Iterable[str], options: Options, manifest: Manifest) -> None:
    """Refuse to drop features that the project needs.

    Args:
        dropped: Names, as in `--without NAME`.
        options: Made complete.
        manifest: The release.

    Raises:
        UsageError: one of them is needed.
    """
    for name in dropped:
        if name not in options.features:
            continue
        others = [item.name for item in manifest.features if item.name in options.features and name in item.needs]
        if others:
            raise UsageError(
                f"--without {name}: feature {others[0]} needs it", hint=f"`--without {others[0]}` as well, or keep it"
            )
        if name in list_recipe_features(options.recipe):
            raise UsageError(
                f"--without {name}: recipe {options.recipe} needs it", hint="choose another --recipe, or keep it"
            )
        raise UsageError(
            f"--without {name}: algorithm {options.algorithm} needs it", hint="choose another --algorithm, or keep it"
        )


def generate(options: Options, source: Source, manifest: Manifest) -> Generated:
    """Make a project's files in memory.

    Args:
        options: Checked by `complete`.
        source: verl, of the manifest's release.
        manifest: What the release offers, without what the options' own manifest adds.
    """
    manifest = add_own(manifest, options.manifest)
    fixes = {fix.id: fix for fix in manifest.fixes}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        found = slice_source(Index(source), manifest, options, collect_method_names(manifest, options))
        try:
            emitted = tuple(
                rewrite_module(module, found, options.package, tuple(map(fixes.__getitem__, module.fixes)))
                for module in found.modules
            )
        except CannotRewrite as error:
            error.details = tuple(f"{OWN_MANIFEST} asks for {root}" for root in _trace_own_roots(found, error.path))
            raise
    files = [
        File(
            path=f"{options.package}/{item.path}",
            kind=FileKind.VENDORED,
            data=item.text.encode(),
            upstream_path=module.upstream_path,
            upstream_sha256=module.upstream_sha256,
            changes=item.changes,
        )
        for module, item in zip(found.modules, emitted, strict=True)
    ]
    files.append(_find_licence(source))
    files.extend(render(manifest, options, found, emitted, source))
    _refuse_shared_paths(files, manifest)
    remarks = (*found.warnings, *(warning for item in emitted for warning in item.warnings))
    return Generated(Tree.of(files), found, emitted, remarks, options, source, manifest)


def _trace_own_roots(found: Slice, path: str) -> list[str]:
    """Return the roots of the project's own manifest that lead to a file."""
    module = next(module.module for module in found.modules if module.upstream_path == path)
    leading = {symbol for symbol in found.edges if symbol.startswith(f"{module}:")}
    reached: set[str] = set()
    while leading:
        reached |= leading
        leading = {found.edges[symbol].origin for symbol in leading if symbol in found.edges} - reached
    return sorted(symbol for symbol in reached & found.edges.keys() if found.edges[symbol].origin == OWN_MANIFEST)


def _refuse_shared_paths(files: list[File], manifest: Manifest) -> None:
    """Refuse two files at one path.

    Raises:
        UsageError: two do, which the manifest's layout decides.
    """
    taken: dict[str, File] = {}
    for file in files:
        other = taken.setdefault(file.path, file)
        if other is not file:
            both = " and ".join(item.upstream_path or "a template of vextract's" for item in (other, file))
            upstream = next(item.upstream_path for item in (other, file) if item.upstream_path)
            raise UsageError(
                f"manifest of verl {manifest.release}: {file.path} would come from {both}",
                hint=f"move `{upstream.removeprefix('verl/')}` in [layout], or replace the other in a layer",
            )


def _find_licence(source: Source) -> File:
    return File("LICENSE.verl", FileKind.VENDORED, source.licence.encode(), "LICENSE")


def _say_where_offered(what: str, name: str, upgrading: bool) -> str:
    """Say which releases offer something; empty if none does."""
    having = [release for release in releases.list_supported() if name in _list_offers(release)[what]]
    others = f"; so {'has' if len(having) == 2 else 'have'} {', '.join(having[:-1])}" if having[:-1] else ""
    if not having:
        return ""
    command = f"vextract upgrade --to {having[-1]}" if upgrading else f"--verl {having[-1]}"
    return f"`{command}` has it{others}"


def _list_offers(release: str) -> dict[str, set[str]]:
    manifest = releases.load(release)
    features = {feature.name for feature in manifest.features}
    engines, algorithms = set(manifest.engines), set(manifest.algorithms)
    return {"engine": engines, "algorithm": algorithms, "recipe": set(RECIPES), "feature": features}


def _refuse_unknown(what: str, name: str, known: Collection[str], manifest: Manifest, upgrading: bool) -> None:
    from extractor.values.nearest import find_nearest

    if name not in known:
        near, elsewhere = find_nearest(name, known), _say_where_offered(what, name, upgrading)
        first = f"{elsewhere}. " if elsewhere else f"did you mean `{near[0]}`? " if near else ""
        raise UsageError(
            f"verl {manifest.release} has no {what} {name!r} here", hint=f"{first}{what}s: {', '.join(sorted(known))}"
        )
