"""`vextract new`: make a project."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import completion, output, screen
from extractor.cli.options import Algorithm, DryRun, Engine, From, Json, Offline, Recipe, Verbose, With, features
from extractor.cli.options import release as release_option

if TYPE_CHECKING:
    from extractor.pipeline.generate import Generated
    from extractor.pipeline.source import Source
    from extractor.values.manifest import Manifest
    from extractor.values.options import Options
    from extractor.values.tree import Tree


def command(
    context: typer.Context,
    path: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(
            show_default=False,
            help="Directory of the project; it must be empty or not exist. Without it, in a terminal, this and the main"
            " options are asked for.",
        ),
    ] = None,
    engine: Engine = "hf",
    verl: Annotated[
        Optional[str],  # noqa: UP045
        release_option("Release of verl; the newest supported one by default."),
    ] = None,
    algorithm: Algorithm = "grpo",
    recipe: Recipe = "toy",
    with_: With = None,
    without: Annotated[Optional[list[str]], features("--without", "Leave a feature out")] = None,  # noqa: UP045
    package: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME", help="Name of the Python package; by default the last part of PATH, my_proj for my-proj."
        ),
    ] = None,
    from_: From = None,
    experimental: Annotated[
        bool,
        typer.Option("--experimental", help="For an unsupported release: leave out what does not fit."),
    ] = False,
    from_run: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--from-verl-run",
            metavar="FILE",
            help="Take the experiment from a run of verl: a launch script, overrides, or a resolved config.",
        ),
    ] = None,
    run_verl: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--run-verl",
            metavar="RELEASE",
            help="Release that the run is for; detected by default.",
            autocompletion=completion.releases,
        ),
    ] = None,
    variables: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--set", metavar="VAR=VALUE", help="A variable of the run's script; repeatable."),
    ] = None,
    config_dir: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option("--config-dir", metavar="DIR", help="Directory of configs that the run names; repeatable."),
    ] = None,
    offline: Offline = False,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Make a project: the core of verl, without Ray."""
    from extractor.cli import from_run as runs
    from extractor.cli import questions, unsupported
    from extractor.pipeline.source import open_source, release_of
    from extractor.project import location
    from extractor.values import releases
    from extractor.values.options import Options

    _check_about_a_run(from_run, variables, config_dir, run_verl)
    if path is None:
        path, package, verl, engine, algorithm, recipe = questions.ask(context, json=json)
    target = location.check_target(path)
    name = package if package is not None else location.package_name(target.name)
    location.check_package(name, "PATH" if package is None else "--package")
    release = verl or (release_of(from_) if from_ is not None else releases.default())
    unknown = releases.is_unknown(release)
    if unknown:
        manifest, source = unsupported.infer(
            release, from_, offline=offline, experimental=experimental, verbose=verbose, json=json
        )
    else:
        manifest = releases.load(release)
    found = None
    if from_run is not None:
        request = runs.Request(from_run, tuple(variables or ()), tuple(config_dir or ()), run_verl, offline)
        found = runs.read(request, release, manifest, engine if _given(context, "engine") else None)
    asked = Options(name, release, engine, algorithm, tuple(sorted(set(with_ or ()))), recipe)
    if found is not None:
        given = {item for item in ("algorithm", "recipe") if _given(context, item)}
        asked = runs.options(asked, found, given, tuple(without or ()))
    options = _options(asked, tuple(without or ()), manifest)
    if not unknown:
        with output.progress(f"reading verl {release}"):
            source = open_source(manifest.pin, from_, offline=offline)
    with output.progress("choosing and rewriting what the project needs"):
        from extractor.pipeline.generate import generate

        generated = generate(options, source, manifest)
    if unknown:
        unsupported.check_project(generated, options, source, manifest)
    settled = None if found is None else runs.settle(generated.tree, options, found, release)
    tree = generated.tree if settled is None else settled.tree
    if not dry_run:
        with output.progress(f"writing {path}"):
            _write(target, generated, tree, options, source, manifest)
    for text in generated.warnings:
        output.warning(text)
    if json:
        run = {} if settled is None else {"run": runs.report(settled)}
        output.data_json({**_report(target, generated, options, source, dry_run), **run})
        return
    if settled is not None:
        runs.show(settled, verbose=verbose, below=6)
    if dry_run:
        _show_files(f"would make {path}: {_size(generated, source)}; nothing was written", tree, verbose)
    else:
        _show_made(path, options, _size(generated, source))


def _check_about_a_run(run: Path | None, *settings: object) -> None:
    from extractor.values.errors import UsageError

    if run is None and any(settings):
        raise UsageError("--set, --config-dir and --run-verl belong to a run", hint="pass --from-verl-run FILE as well")


def _show_files(head: str, tree: Tree, verbose: bool) -> None:
    files = [f"add  {file.kind.value:8}  {file.path}" for file in tree]
    screen.show([head], [screen.Section(files, prefix="add  ")], verbose=verbose)


def _show_made(path: Path, options: Options, size: str) -> None:
    """Say what was made and how to go on."""
    named = "" if options.package == path.name else f", package {options.package}"
    output.data(f"made {path}{named}: {size}")
    output.data(f"next:\n  cd {quote(str(path))}\n  make setup\n  make train")


def _given(context: typer.Context, name: str) -> bool:
    """Tell whether an option stands on the command line."""
    where = context.get_parameter_source(name)
    return where is not None and where.name != "DEFAULT"


def _options(asked: Options, left_out: tuple[str, ...], manifest: Manifest) -> Options:
    from extractor.pipeline.generate import complete
    from extractor.values.errors import UsageError

    for feature in asked.features:
        if feature in left_out:
            raise UsageError(f"--with {feature} and --without {feature} contradict", hint="drop one of the two")
    for feature in left_out:
        complete(replace(asked, features=(feature,)), manifest)
    options = complete(asked, manifest)
    for feature in left_out:
        if feature in options.features:
            raise UsageError(
                f"--without {feature}: algorithm {asked.algorithm} needs it",
                hint="choose another --algorithm, or keep it",
            )
    return options


def _write(
    target: Path, generated: Generated, tree: Tree, options: Options, source: Source, manifest: Manifest
) -> None:
    """Write a project; what `tree` has otherwise than `generated` counts as its owner's edits."""
    from extractor import __version__
    from extractor.pipeline import apply
    from extractor.pipeline.plan import plan_new
    from extractor.project import base, lock

    emitted = generated.tree
    locked = lock.Lock.of(
        emitted,
        options,
        vextract=__version__,
        source_kind=source.kind,
        source_sha256=source.sha256,
        borrowed_from=manifest.borrowed_from,
    )
    apply.create(target, plan_new(tree), lock_data=lock.dump(locked), base_data=base.dump(base.of_tree(emitted)))


def _lines(generated: Generated) -> tuple[int, int]:
    """Files and lines of the vendored code."""
    from extractor.values.tree import FileKind

    found = [file for file in generated.tree if file.kind is FileKind.VENDORED and file.path.endswith(".py")]
    return len(found), sum(file.data.count(b"\n") for file in found)


def _size(generated: Generated, source: Source) -> str:
    files, lines = _lines(generated)
    return f"{files} files, {lines:,} lines: {lines / max(source.lines, 1):.0%} of verl {source.release}"


def _report(target: Path, generated: Generated, options: Options, source: Source, dry_run: bool) -> dict[str, object]:
    from extractor.values.tree import FileKind

    files, lines = _lines(generated)
    return {
        "path": str(target),
        "written": not dry_run,
        "options": {
            "package": options.package,
            "verl": options.verl,
            "engine": options.engine,
            "algorithm": options.algorithm,
            "features": list(options.features),
            "recipe": options.recipe,
        },
        "source": {"kind": source.kind, "sha256": source.sha256, "lines": source.lines},
        "vendored": {"files": files, "lines": lines},
        "files": {kind.value: [file.path for file in generated.tree if file.kind is kind] for kind in FileKind},
        "warnings": list(generated.warnings),
    }
