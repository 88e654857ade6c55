"""Render the part of a project that is ours."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from pathlib import PurePosixPath
from typing import cast

from jinja2 import StrictUndefined
from jinja2 import Template as JinjaTemplate
from jinja2.exceptions import TemplateError
from jinja2.sandbox import SandboxedEnvironment

from extractor import __version__
from extractor.pipeline.render.absent import map_absent_modules, map_absent_presets, map_absent_settings
from extractor.pipeline.render.fold import SWITCHES, fold, read_constants
from extractor.pipeline.render.layers import PACKAGE, Template, list_engine_modes, list_layers, map_files
from extractor.pipeline.render.long_imports import wrap_imports
from extractor.pipeline.render.pins import list_checked_pins
from extractor.pipeline.render.schema import (
    group_names,
    map_aliases,
    reads_of,
    select_schema,
    write_shipped,
)
from extractor.pipeline.render.shims import select_shims
from extractor.pipeline.render.unread import collect_values, find_compared_values, find_unread_settings, name_readers
from extractor.pipeline.rewrite import Emitted
from extractor.pipeline.slicer import Slice
from extractor.pipeline.source import Source
from extractor.values import resources
from extractor.values.configtree.rename import rename_keys
from extractor.values.configtree.yaml_text import UnsupportedYaml
from extractor.values.errors import InternalError
from extractor.values.manifest import Fix, Manifest
from extractor.values.moved_modules import FORMER_NAMES, map_former_modules
from extractor.values.options import Options
from extractor.values.renamed_config_keys import KeyRenames
from extractor.values.tree import File, FileKind

# One file per algorithm; a project gets those that its release has.
PRESETS = "config/preset/"
# Up to 0.7.0 this mean sums the responses of a micro-batch.
_NOTES = {
    "seq-mean-token-sum-norm": (
        "loss_agg_mode=seq-mean-token-sum-norm sums the responses of a micro-batch in this release of verl; later ones "
        "average them. The gradient grows with ppo_micro_batch_size_per_gpu, and grad_clip cuts it off"
    )
}
# Losses that choose tokens within a micro-batch.
_BY_PASS = ("clip_cov", "kl_cov")
_CHOOSES = (
    "the loss {} chooses tokens within a micro-batch, as in verl: what is learned depends on the size of micro-batches"
)
# Up to 0.7.1.
_MEAN_OF_MEANS = (
    "loss_agg_mode=token-mean averages each micro-batch in this release of verl: one with few tokens weighs as much as "
    "one with many, and the gradient depends on ppo_micro_batch_size_per_gpu"
)
_MARK = "vextract:template"
# The project's package in modules that name it in full: tests are Python as they stand in templates/, too.
_NAMED = re.compile(rf"(?<=\bfrom ){PACKAGE}(?=[. ])|(?<=\bimport ){PACKAGE}\b|(?<=[\"']){PACKAGE}(?=[./\"'])")
# Config files whose keys start at the top of the config: they are written with the newest release's names.
_GLOBAL = re.compile(r"config/(preset|recipe|objective|scale|reward)/[^/]+\.yaml")
# Those of them that set what others have.
_SETS = re.compile(r"config/(preset|recipe|objective|scale)/")
_MARKER = re.compile(r"vextract:(template|hook)\b")


def render(
    manifest: Manifest, options: Options, found: Slice, emitted: Iterable[Emitted], source: Source
) -> list[File]:
    """Render every template of a project.

    Args:
        manifest: The release.
        options: The project's choices; they decide which layers of templates apply.
        found: The slice; what it leaves out is stood in for.
        emitted: The vendored files, named in NOTICE.
        source: Where it came from: its digest and its notice are shown.

    Returns:
        Template and hook files, with an `__init__.py` for every package that upstream leaves without code.
    """
    vendored = tuple(emitted)
    context = _make_context(manifest, options, found, vendored, source)
    texts = _render_layers(list_layers(manifest, options), manifest, context)
    ours = [*texts.values(), *(item.text for item in vendored)]
    texts.update(select_shims(_render_layers(["shims"], manifest, context), options.package, ours, _list_commands()))
    code = {item.path: item.text for item in vendored}
    settings = _collect_settings(
        texts | {f"{options.package}/{path}": text for path, text in code.items()}, manifest, options
    )
    absent = {
        "project": {"verl": options.verl, "vextract": __version__, "engine": options.engine, "recipe": options.recipe},
        "absent_modules": map_absent_modules(manifest, options, texts),
        "absent_settings": map_settings_to_features(manifest, options),
        "absent_presets": map_absent_presets(manifest, options.features),
    }
    if FORMER_NAMES in options.features:
        absent["former_modules"] = dict(sorted(map_former_modules().items()))
    texts.update(_render_layers(["settings"], manifest, {**context, "shipped": write_shipped({**settings, **absent})}))
    texts.update(
        _select_package_files(options.package, {*texts, *(f"{options.package}/{item.path}" for item in vendored)})
    )
    python = {path: wrap_imports(text) for path, text in texts.items() if path.endswith(".py")}
    return [File(path, _choose_kind(path, text), text.encode()) for path, text in sorted((texts | python).items())]


def render_config(manifest: Manifest, options: Options, *, sections_only: bool = False) -> dict[str, str]:
    """Render a project's `config/` alone; no source of verl is needed.

    Args:
        manifest: The release.
        options: The project's choices, completed.
        sections_only: Leave out presets, recipes and the like, which set what other files have.

    Returns:
        Path in the project to text, sorted.
    """
    layers, choices = list_layers(manifest, options), _collect_choices(manifest, options)
    return dict(sorted(_render_layers(layers, manifest, choices, "config", sections_only=sections_only).items()))


def map_settings_to_features(manifest: Manifest, options: Options) -> dict[str, str]:
    """Map settings that a project lacks to features that add them."""
    return map_absent_settings(manifest, options, partial(render_config, sections_only=True))


def map_templates(manifest: Manifest, options: Options) -> dict[str, tuple[str, ...]]:
    """Map each project file to its templates; the last wins."""
    layers = (*list_layers(manifest, options), "settings", "shims")
    return {path: tuple(item.path for item in found) for path, found in map_files(layers, options.package).items()}


def list_applied_fixes(manifest: Manifest, found: Slice) -> tuple[Fix, ...]:
    """Return the named fixes in a project's vendored files, in order."""
    in_modules = {fix_id for module in found.modules for fix_id in module.fixes}
    reached = {f"{target.module}:{target.name}" for target in found.replaced.values()}
    return tuple(
        fix
        for fix in manifest.fixes
        if (fix.edits and fix.id in in_modules) or (fix.replaced and reached & set(fix.replaced.values()))
    )


def _collect_choices(manifest: Manifest, options: Options) -> dict[str, object]:
    """Return what the templates of the config may name."""
    layers = list_layers(manifest, options)
    return {
        **{name: getattr(options, name) for name in ("package", "engine", "algorithm", "recipe")},
        "features": list(options.features),
        "modes": list_engine_modes(options.engine),
        **{
            key: list(_collect_preset_values(key, manifest.algorithms, layers))
            for key in ("adv_estimator", "loss_mode")
        },
    }


def _make_context(
    manifest: Manifest, options: Options, found: Slice, vendored: tuple[Emitted, ...], source: Source
) -> dict[str, object]:
    upstream = {module.target_path: module.upstream_path for module in found.modules}
    return {
        **_collect_choices(manifest, options),
        "verl_version": options.verl,
        "verl_sha256": source.sha256,
        "verl_notice": source.notice,
        "borrowed_from": manifest.borrowed_from,
        "requirements": list(manifest.list_requirements(options)),
        "dev_requirements": list(manifest.requirements.dev),
        "pins": list(list_checked_pins(manifest, options)),
        "former_keys": list(manifest.former_keys.items()),
        "vextract_version": __version__,
        "stubs": list(found.stubs),
        "withheld": [feature.name for feature in manifest.withheld],
        "fixes": list(list_applied_fixes(manifest, found)),
        "vendored": [
            {"path": f"{options.package}/{item.path}", "upstream_path": upstream[item.path], "changes": item.changes}
            for item in vendored
        ],
    }


def _collect_settings(files: Mapping[str, str], manifest: Manifest, options: Options) -> dict[str, object]:
    """Collect what the checks at the start of a run need."""
    shipped = collect_values(files)
    unread = find_unread_settings(files, shipped, options.package)
    algorithms = files.get(f"{options.package}/vendored/algorithms/core_algos.py", "")
    estimators = [name for name in find_compared_values(algorithms, "kl_penalty") if name not in ("full", "+")]
    straight_through = 'kl_penalty.endswith("+")' in algorithms
    custom = re.compile(rf"{re.escape(options.package)}/custom/(\w+)\.py")
    values: dict[str, Sequence[str]] = {
        "agg_modes": find_compared_values(algorithms, "loss_agg_mode"),
        "engine": (options.engine,),
        "kl_estimators": [*estimators, *(f"{name}+" for name in estimators if straight_through)],
        "modes": list_engine_modes(options.engine),
    }
    hooks = {match[1]: text for path, text in files.items() if (match := custom.fullmatch(path))}
    return {
        # The engine that rollouts come from, and how: in the trainer's process (sync), or over HTTP (async).
        "engine": options.engine,
        "modes": list_engine_modes(options.engine),
        "features": options.features,
        # The hooks that register something: those that came with the project, and those that an upgrade has brought.
        "hooks": sorted(name for name, text in hooks.items() if "\n@register" in text),
        # What is to be said of a loss or a mean: always, and where a batch is cut into passes.
        "notes": _NOTES if "torch.sum(seq_losses) / " in algorithms else {},
        "notes_on_passes": {
            **{name: _CHOOSES.format(name) for name in _BY_PASS},
            **({"token-mean": _MEAN_OF_MEANS} if f"{options.package}/vendored/workers/dp_actor.py" in files else {}),
        },
        # Which settings each estimator and loss reads, where not all do.
        "reads": reads_of(shipped, algorithms),
        # What settings were called in earlier releases, and are called in other libraries.
        "former_keys": dict(manifest.former_keys),
        "aliases": map_aliases(shipped),
        "schema": select_schema(shipped, unread, name_readers(unread, manifest.engines), values),
        "settings": group_names(shipped),
    }


def _collect_preset_values(key: str, algorithms: tuple[str, ...], layers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the values that presets set a key to, sorted."""
    texts = {name: text for layer in layers for name, text in _read_presets(layer).items() if name in algorithms}
    found = {value for text in texts.values() for value in re.findall(rf"^ *{key}: (\w+)", text, re.MULTILINE)}
    return tuple(sorted(found))


@cache
def _read_presets(layer: str) -> Mapping[str, str]:
    """Read the presets that a layer has, by name."""
    files = sorted((resources.find_templates() / layer / PRESETS).glob("*.yaml"))
    return {file.stem: file.read_text(encoding="utf-8") for file in files}


def _render_layers(
    layers: Sequence[str],
    manifest: Manifest,
    context: Mapping[str, object],
    below: str = "",
    *,
    sections_only: bool = False,
) -> dict[str, str]:
    """Render the files of some layers, by project path."""
    names = lru_cache(lambda release: KeyRenames(release, manifest.borrowed_from or manifest.release))
    texts: dict[str, str] = {}
    absent = map_absent_presets(manifest, cast("list[str]", context["features"]))
    offered = [name for name in manifest.algorithms if name not in absent]
    for path, templates in map_files(layers, str(context["package"]), below).items():
        if path.startswith(PRESETS) and PurePosixPath(path).stem not in offered:
            continue
        if (sections_only and _SETS.match(path)) or path == f"{context['package']}/{SWITCHES}.py":
            continue
        template = templates[-1]
        try:
            texts[path] = _render_text(path, template, names, context)
        except (TemplateError, UnsupportedYaml) as error:
            raise InternalError(
                f"template {template.path}: {error}", hint="report this as a bug in vextract"
            ) from error
    return texts


@cache
def _make_constants(names: tuple[str, ...]) -> dict[str, bool]:
    """Return the value of each constant for these features and this engine."""
    text = (resources.find_templates() / "base" / PACKAGE / f"{SWITCHES}.py").read_text(encoding="utf-8")
    return {name: name.lower() in names for name in read_constants(text)}


@cache
def _compile_template(text: str) -> JinjaTemplate:
    environment = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    return environment.from_string(text)


@cache
def _fold_module(text: str, constants: tuple[tuple[str, bool], ...]) -> str:
    """Fold a module; results are cached across projects."""
    return fold(text, dict(constants))


def _render_text(
    path: str,
    template: Template,
    names: Callable[[str], KeyRenames],
    context: Mapping[str, object],
) -> str:
    """Render a template with its name and the release's config keys."""
    text = (template.text or "").replace(_MARK, f"{_MARK} {template.name}", 1)
    if template.path.endswith(".jinja"):
        text = _compile_template(text).render(context)
    if path.endswith(".py"):
        text = _NAMED.sub(str(context["package"]), text)
        constants = _make_constants((*cast("list[str]", context["features"]), str(context["engine"])))
        text = _fold_module(text, tuple((name, value) for name, value in constants.items() if name in text))
    if _GLOBAL.match(path):
        text = rename_keys(text, names(template.release))
    return text


def _list_commands() -> Iterator[str]:
    """Yield the code of the commands that run inside a project."""
    for name in sorted(item.name for item in (resources.find_templates() / "command").iterdir()):
        yield from (templates[-1].text or "" for templates in map_files([f"command/{name}"], "").values())


def _select_package_files(package: str, paths: set[str]) -> Iterator[tuple[str, str]]:
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
            yield path, ""


def _choose_kind(path: str, text: str) -> FileKind:
    found = _MARKER.search("\n".join(text.splitlines()[:2]))
    if not text:  # a package's file, which has nothing in it
        return FileKind.TEMPLATE
    if found is None:
        raise InternalError(
            f"template {path} does not say its kind",
            hint="begin it with a comment: `# vextract:template - edit freely`, or `# vextract:hook`",
        )
    return FileKind(found.group(1))
