"""The part of a project that is ours, from Jinja: entry point, trainer, configuration, hooks, shims, README, tests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jinja2 import StrictUndefined
from jinja2.exceptions import TemplateError
from jinja2.sandbox import SandboxedEnvironment
from packaging.version import Version

from extractor import __version__
from extractor.pipeline.render.pins import checked_pins_for
from extractor.pipeline.render.unread import compared_values, readers, shipped_values, unread_settings
from extractor.pipeline.rewrite import Emitted
from extractor.pipeline.slicer import Slice
from extractor.pipeline.source import Source
from extractor.values import resources
from extractor.values.errors import InternalError
from extractor.values.manifest import Fix, Manifest
from extractor.values.options import Options
from extractor.values.tree import File, FileKind

PACKAGE = "__package__"
# One file per algorithm; a project gets those that its release has.
_PRESETS = "config/preset/"
# Engines that share a layer with others: what talks to a server is the same whichever server it is.
_ENGINE_LAYERS = {"vllm": ("server", "vllm"), "sglang": ("server", "sglang")}
# Templates that releases up to some one need instead; an empty FILE.absent says that they have no FILE.
_UNTIL = "until"
_ABSENT = ".absent"
_MARK = "vextract:template"
_MARKER = re.compile(r"vextract:(template|hook)\b")


@dataclass(frozen=True)
class VendoredNote:
    """What NOTICE says about one vendored file."""

    path: str
    upstream_path: str
    changes: tuple[str, ...]


def render(
    manifest: Manifest, options: Options, found: Slice, emitted: Iterable[Emitted], source: Source
) -> list[File]:
    """Render every template of a project.

    Args:
        manifest: The release.
        options: The project's choices; they decide which layers of templates apply.
        found: The slice; its stubs and replacements decide which shims are needed.
        emitted: The vendored files, named in NOTICE.
        source: Where it came from: its digest and its notice are shown.

    Returns:
        Template and hook files, with an `__init__.py` for every package that upstream leaves without code.
    """
    vendored = tuple(emitted)
    layers = _layers(manifest, options)
    context = _context(manifest, options, found, vendored, source)
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    texts: dict[str, str] = {}
    for layer in layers:
        _stand_over(texts, _layer(layer, environment, context, options.package))
    for path in [path for path in texts if path.startswith(_PRESETS)]:
        if PurePosixPath(path).stem not in manifest.algorithms:
            del texts[path]
    shims: dict[str, str] = {}
    _stand_over(shims, _layer("shims", environment, context, options.package))
    texts.update(_needed_shims(shims, found, vendored, options.package, texts.values()))
    code = {item.path: item.text for item in vendored}
    settings = _settings(texts | {f"{options.package}/{path}": text for path, text in code.items()}, manifest, options)
    _stand_over(texts, _layer("settings", environment, {**context, **settings}, options.package))
    texts.update(_package_files(options.package, {*texts, *(f"{options.package}/{item.path}" for item in vendored)}))
    return [File(path, _kind(path, text), text.encode()) for path, text in sorted(texts.items())]


def config_files(manifest: Manifest, options: Options) -> dict[str, str]:
    """Render a project's `config/` alone, for which no source of verl is needed.

    Args:
        manifest: The release.
        options: The project's choices, completed.

    Returns:
        Path in the project to text.
    """
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    context = _choices(manifest, options)
    texts: dict[str, str] = {}
    for layer in _layers(manifest, options):
        _stand_over(texts, _layer(layer, environment, context, options.package, "config"))
    return {
        path: text
        for path, text in sorted(texts.items())
        if not path.startswith(_PRESETS) or PurePosixPath(path).stem in manifest.algorithms
    }


def templates_of(manifest: Manifest, options: Options) -> dict[str, tuple[str, ...]]:
    """Return the templates behind each file of a project, below templates/; of several the last one is the file's."""
    found: dict[str, tuple[str, ...]] = {}
    for layer in (*_layers(manifest, options), "settings", "shims"):
        for path, template, text in _templates(layer, options.package):
            found[path] = (*found.get(path, ()), f"{layer}/{template}")
            if text is None:
                del found[path]
    return found


def applied_fixes(manifest: Manifest, found: Slice) -> tuple[Fix, ...]:
    """Return the named fixes that this project's vendored files carry, in the manifest's order."""
    in_modules = {fix_id for module in found.modules for fix_id in module.fixes}
    reached = {f"{target.module}:{target.name}" for target in found.replaced.values()}
    return tuple(
        fix
        for fix in manifest.fixes
        if (fix.edits and fix.id in in_modules) or (fix.replaced and reached & set(fix.replaced.values()))
    )


def _choices(manifest: Manifest, options: Options) -> dict[str, object]:
    """Return what the templates of the config may name."""
    layers = _layers(manifest, options)
    return {
        **{name: getattr(options, name) for name in ("package", "engine", "algorithm", "recipe")},
        **{key: _values_in_presets(key, manifest, layers) for key in ("adv_estimator", "loss_mode")},
    }


def _context(
    manifest: Manifest, options: Options, found: Slice, vendored: tuple[Emitted, ...], source: Source
) -> dict[str, object]:
    upstream = {module.target_path: module.upstream_path for module in found.modules}
    return {
        **_choices(manifest, options),
        "verl_version": options.verl,
        "verl_sha256": source.sha256,
        "verl_notice": source.notice,
        "borrowed_from": manifest.borrowed_from,
        "features": list(options.features),
        "requirements": list(manifest.requirements_for(options)),
        "dev_requirements": list(manifest.requirements.dev),
        "pins": list(checked_pins_for(manifest, options)),
        "former_keys": list(manifest.former_keys.items()),
        "vextract_version": __version__,
        "stubs": list(found.stubs),
        "fixes": list(applied_fixes(manifest, found)),
        "vendored": [
            VendoredNote(f"{options.package}/{item.path}", upstream[item.path], item.changes) for item in vendored
        ],
    }


def _settings(files: Mapping[str, str], manifest: Manifest, options: Options) -> dict[str, object]:
    """Note about the config what is needed for the checks at the start of a run."""
    unread = unread_settings(files, options.package)
    algorithms = files.get(f"{options.package}/training/core_algos.py", "")
    estimators = [name for name in compared_values(algorithms, "kl_penalty") if name not in ("full", "+")]
    straight_through = 'kl_penalty.endswith("+")' in algorithms
    return {
        "settings": list(shipped_values(files)),
        "unread": [(key, [_literal(value) for value in values]) for key, values in unread.items()],
        "readers": [(key, ", ".join(parts)) for key in unread if (parts := readers(key, manifest.engines))],
        "agg_modes": compared_values(algorithms, "loss_agg_mode"),
        "kl_estimators": [*estimators, *(f"{name}+" for name in estimators if straight_through)],
    }


def _literal(value: object) -> str:
    """Write a value of a config as Python text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _values_in_presets(key: str, manifest: Manifest, layers: tuple[str, ...]) -> list[str]:
    """Read the values that the presets of a release set a key to; sorted."""
    texts: dict[str, str] = {}
    for layer in layers:
        for name in manifest.algorithms:
            path = resources.templates() / layer / _PRESETS / f"{name}.yaml"
            if path.is_file():
                texts[name] = path.read_text(encoding="utf-8")
    return sorted({value for text in texts.values() for value in re.findall(rf"^ *{key}: (\w+)", text, re.MULTILINE)})


def _layers(manifest: Manifest, options: Options) -> tuple[str, ...]:
    """Return the layers of templates, a later one's file replacing an earlier one's of the same path.

    The layers hold what the newest release needs. What older ones need instead stands over the part that it belongs
    to, in `until/V/PART` for the releases up to V: what a recipe replaces stays the recipe's.
    """
    engine = [f"engine/{name}" for name in _ENGINE_LAYERS.get(options.engine, (options.engine,))]
    # An inferred manifest has the roles of the one that it was inferred from, and these are what the templates call.
    until = _until(manifest.borrowed_from or manifest.release)
    parts = ("base", f"recipe/{options.recipe}", *engine, *(f"feature/{name}" for name in options.features))
    return tuple(layer for part in parts for layer in (part, *(f"{_UNTIL}/{release}/{part}" for release in until)))


def _until(release: str) -> list[str]:
    """Return the releases V of the folders `until/V` that hold templates for a release, the newest first."""
    folder = resources.templates() / _UNTIL
    known = sorted((item.name for item in folder.iterdir()), key=Version, reverse=True) if folder.is_dir() else []
    return [name for name in known if Version(name) >= Version(release)]


def _stand_over(texts: dict[str, str], layer: Iterable[tuple[str, str | None]]) -> None:
    """Put a layer's files over those of the layers before it."""
    for path, text in layer:
        if text is None:
            texts.pop(path, None)
        else:
            texts[path] = text


def _layer(
    layer: str, environment: SandboxedEnvironment, context: Mapping[str, object], package: str, below: str = ""
) -> Iterator[tuple[str, str | None]]:
    """Render the files of a layer, or of a directory in it; None stands for a file that is left out."""
    for path, template, text in _templates(layer, package, below):
        if text is not None:
            text = text.replace(_MARK, f"{_MARK} {layer}/{template}", 1)
            if template.suffix == ".jinja":
                try:
                    text = environment.from_string(text).render(context)
                except TemplateError as error:
                    raise InternalError(
                        f"template {layer}/{template}: {error}", hint="report this as a bug in vextract"
                    ) from error
        yield path, text


def _templates(layer: str, package: str, below: str = "") -> Iterator[tuple[str, PurePosixPath, str | None]]:
    """Return the files of a layer: the path in the project, the path in the layer, and the text; None: left out."""
    root = resources.templates() / layer
    if not (root / below).is_dir():
        return
    for template, text in sorted(_files(root / below, PurePosixPath(below))):
        absent = template.suffix == _ABSENT
        relative = template.with_suffix("") if absent else template
        relative = relative.with_suffix("") if relative.suffix == ".jinja" else relative
        path = "/".join(package if part == PACKAGE else part for part in relative.parts)
        yield (f"{package}/shims/{path}" if layer == "shims" else path), template, None if absent else text


def _files(folder: Path, relative: PurePosixPath) -> Iterator[tuple[PurePosixPath, str]]:
    for child in folder.iterdir():
        if child.name == "__pycache__" or child.name.endswith(".pyc"):
            continue
        if child.is_dir():
            yield from _files(child, relative / child.name)
        else:
            yield relative / child.name, child.read_text(encoding="utf-8")


def _needed_shims(
    shims: Mapping[str, str], found: Slice, vendored: tuple[Emitted, ...], package: str, ours: Iterable[str]
) -> dict[str, str]:
    """Return the shims that vendored files or templates import, and those that these import in turn."""
    pattern = re.compile(rf"(?:{re.escape(package)}|\.+)\.?shims\.(\w+) import")
    texts = [item.text for item in vendored] + list(ours)
    needed: dict[str, str] = {}
    pending = {"__init__"}.union(*(pattern.findall(text) for text in texts))
    while pending:
        name = pending.pop()
        path = f"{package}/shims/{name}.py"
        if path in needed:
            continue
        if path not in shims:
            raise InternalError(f"no template for the shim {name}", hint="report this as a bug in vextract")
        needed[path] = shims[path]
        pending.update(re.findall(r"from \.(\w+) import", shims[path]))
    return needed


def _package_files(package: str, paths: set[str]) -> Iterator[tuple[str, str]]:
    folders = {
        str(parent)
        for path in paths
        if path.endswith(".py") and path.startswith(f"{package}/")
        for parent in PurePosixPath(path).parents
        if str(parent) != "."
    }
    for folder in sorted(folders):
        path = f"{folder}/__init__.py"
        if path not in paths:
            name = folder.replace("/", ".")
            yield path, f'# vextract:template - edit freely\n"""The package {name}."""\n'


def _kind(path: str, text: str) -> FileKind:
    found = _MARKER.search("\n".join(text.splitlines()[:2]))
    if found is None:
        raise InternalError(f"template {path} does not say its kind", hint="report this as a bug in vextract")
    return FileKind(found.group(1))
