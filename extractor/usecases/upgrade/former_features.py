"""Find features whose files were part of every project before."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import yaml

from extractor.pipeline.render import layers, map_settings_to_features
from extractor.project.lock import Lock
from extractor.usecases.owner_code import find_owner_files
from extractor.values.configtree import flatten
from extractor.values.configtree.compose import read_yaml
from extractor.values.manifest import Manifest
from extractor.values.modules import name_module
from extractor.values.moved_modules import FORMER_NAMES, map_former_modules, rename_project_path
from extractor.values.options import Options
from extractor.values.tree import FileKind

_IMPORT = re.compile(r"^ *(?:from|import) .*", re.MULTILINE)


def find_former_features(
    project: Path, old: Lock, base: Mapping[str, bytes], options: Options, manifest: Manifest
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Find uses in hooks, the owner's files and edited files.

    Args:
        base: What was emitted, by path, for all but hooks.
        options: Those after the upgrade.
        manifest: The release after it.

    Returns:
        Feature -> the owner's file that uses it; and the features that nothing uses.
    """
    package = old.options.package
    places = {file.path: rename_project_path(file.path, package) for file in old.files}
    elsewhere = layers.map_files(layers.list_layers(manifest, options), package).keys()  # a shared file tells nothing
    former: dict[str, tuple[str, ...]] = {}
    for feature in manifest.features:
        if feature.name not in (*options.features, *old.options.features):
            every = layers.layers_of_feature(manifest, feature.name)
            own = [layer for layer in every if layer.endswith(f"feature/{feature.name}")]
            of_feature = layers.map_files(own, package).keys() - elsewhere
            files = tuple(path for path, place in places.items() if place in of_feature)
            was_there = any(path.startswith(f"{package}/") for path in files)
            parts = (place.partition(":") for place in layers.read_former_places(feature.name))
            was_within = any(name.encode() in base.get(f"{package}/{path}", b"") for path, _, name in parts)
            if was_there or was_within or feature.name == FORMER_NAMES:
                former[feature.name] = files
    if not former:
        return {}, ()
    settings = map_settings_to_features(manifest, options) if former.keys() != {FORMER_NAMES} else {}
    texts = dict(_list_owner_texts(project, old, base))
    hooks = {file.path for file in old.files if file.kind is FileKind.HOOK}
    used: dict[str, str] = {}
    for name, files in former.items():
        named = sorted({name for path in files for name in (path, places[path])})
        modules = [name_module(path.removeprefix(f"{package}/")) for path in named if path.startswith(f"{package}/")]
        keys = [key for key, feature in settings.items() if feature == name]
        pattern = _make_pattern(modules, keys, layers.read_words(name), package)
        if name == FORMER_NAMES:
            pattern = _match_former_imports(package)
        others = {path: text for path, text in texts.items() if path not in hooks.intersection(files)}
        using = next((path for path, text in others.items() if path in files or pattern.search(text)), None)
        if using is not None:
            used[name] = using
    return used, tuple(sorted(former.keys() - used.keys() - {FORMER_NAMES}))


def _make_pattern(modules: list[str], keys: list[str], words: tuple[str, ...], package: str) -> re.Pattern[str]:
    """Match mentions of a module, a setting or a word."""
    patterns = [rf"(?<![\w-]){re.escape(word)}(?![\w-])" for word in words]
    for key in keys:
        section, _, leaf = key.rpartition(".")
        patterns.append(rf"\b{re.escape(section.rpartition('.')[2])}\.{leaf}\b" if section else rf"\b{leaf}\b")
        patterns.append(rf"(?m:^\s*{leaf}:\s)")
    for module in modules:
        above, _, leaf = f"{package}.{module}".rpartition(".")
        patterns.append(rf"\b{above.rpartition('.')[2]}(?:\.| import (?:[^\n]*\b)?){leaf}\b")
        patterns.append(rf"from \.+(?:{module}| import (?:[^\n]*\b)?{leaf})\b")
    return re.compile("|".join(patterns))


def _match_former_imports(package: str) -> re.Pattern[str]:
    """Build a pattern for imports of modules under former names."""
    patterns = []
    for module in map_former_modules():
        above, _, leaf = module.rpartition(".")
        patterns.append(rf"(?:\b{package}\.|from \.\.+){re.escape(module)}\b")
        if above:
            patterns.append(rf"from (?:{package}\.|\.\.+){re.escape(above)} import [^\n]*\b{leaf}\b")
    return re.compile("|".join(patterns))


def _list_owner_texts(project: Path, old: Lock, base: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield owner's files, edited hooks, and added lines of other files.

    Of a hook as it was emitted only the imports count: nobody has chosen its words.
    """
    paths = {file.path: file.kind for file in old.files}
    emitted = {file.path: file.sha256 for file in old.files}
    scripts = (path.name for path in project.iterdir() if path.suffix in (".py", ".sh", ".ipynb") and path.is_file())
    for path in sorted({*paths, *find_owner_files(project, old), *scripts}):
        try:
            text = (project / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if path.startswith("examples/") and emitted.get(path) == sha256(text.encode()).hexdigest():
            continue  # an example as it came
        if path not in paths:
            yield path, "\n".join(_read_lines(path, text))
        elif paths[path] is FileKind.HOOK:
            is_edited = sha256(text.encode()).hexdigest() != emitted[path]
            yield path, text if is_edited else "\n".join(_IMPORT.findall(text))
        elif text.encode() != base[path]:
            lines, before = (_read_lines(path, version) for version in (text, base[path].decode("utf-8", "replace")))
            known = set(before)
            yield path, "\n".join(line for line in lines if line not in known)


def _read_lines(path: str, text: str) -> list[str]:
    """Return a text's lines, or a YAML file's flattened settings."""
    if path.endswith(".yaml"):
        with contextlib.suppress(yaml.YAMLError):
            if isinstance(config := read_yaml(text), Mapping):
                return [f"{key}: {value}" for key, value in flatten(config).items()]
    return text.splitlines()
