"""List what a project lacks, and which feature brings it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from extractor.pipeline.render.layers import PACKAGE, layers_of_feature, map_files
from extractor.pipeline.render.unread import MAIN, collect_values
from extractor.values import releases
from extractor.values.manifest import Manifest
from extractor.values.modules import name_module
from extractor.values.options import Options

Configs = Callable[[Manifest, Options], Mapping[str, str]]


def map_absent_modules(manifest: Manifest, options: Options, present: Mapping[str, object]) -> dict[str, str]:
    """Map the modules that a project lacks to their features.

    Args:
        manifest: The release.
        options: The project's.
        present: Its files, by path.
    """
    found: dict[str, str] = {}
    for feature in manifest.features:
        if feature.name not in options.features:
            for path in map_files(layers_of_feature(manifest, feature.name), PACKAGE):
                folder, _, below = path.partition("/")
                if folder == PACKAGE and below.endswith(".py") and f"{options.package}/{below}" not in present:
                    found.setdefault(name_module(below), feature.name)
    return dict(sorted(found.items()))


def map_absent_presets(manifest: Manifest, features: Collection[str]) -> dict[str, str]:
    """Map presets that a project lacks to the features they need."""
    lacking = (feature for feature in manifest.features if feature.name not in features)
    return dict(sorted((name, feature.name) for feature in lacking for name in feature.algorithms))


def map_absent_settings(manifest: Manifest, options: Options, configs: Configs) -> dict[str, str]:
    """Map settings that a project lacks to features and first releases.

    Args:
        manifest: The release.
        options: The project's.
        configs: Renders the config files of a release and options.
    """
    newest = releases.load(releases.find_default())
    offered = _list_names(manifest)
    found: dict[str, str] = {}
    for where, names in ((manifest, offered), (newest, _list_names(newest) - offered)):
        plain = replace(options, verl=where.release, features=tuple(set(options.features) & _list_names(where)))
        needs = {name: _collect_needed(name, where) for name in names}
        # What a feature needs comes before it: settings of both are the other's.
        lacking = sorted(names - {*options.features}, key=lambda name: (len(needs[name]), name))
        without = configs(where, plain) if lacking else {}
        for name in lacking:
            having = configs(where, replace(plain, features=(*plain.features, *sorted(needs[name]), name)))
            later = "" if name in offered else f", with verl {_find_first_with(name)} or later"
            for key in _find_new_settings(without, having):
                found.setdefault(key, f"{name}{later}")
    return dict(sorted(found.items()))


def _find_new_settings(without: Mapping[str, str], having: Mapping[str, str]) -> list[str]:
    """Return the settings that only the second config has."""
    changed = {path for path, text in having.items() if without.get(path) != text}
    if not changed:
        return []
    # Which file is in which section stands in the main one.
    after = collect_values({path: text for path, text in having.items() if path in changed | {MAIN}})
    return sorted(after.keys() - collect_values(without).keys())


def _collect_needed(name: str, manifest: Manifest) -> set[str]:
    """Return the features that a feature needs, directly or not."""
    direct = next(feature.needs for feature in manifest.features if feature.name == name)
    return {*direct}.union(*(_collect_needed(each, manifest) for each in direct))


def _list_names(manifest: Manifest) -> set[str]:
    return {feature.name for feature in manifest.features}


def _find_first_with(feature: str) -> str:
    return next(release for release in releases.list_supported() if feature in _list_names(releases.load(release)))
