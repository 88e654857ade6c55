"""`vextract new`: make a project."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional, cast

import typer

from extractor.cli import output, screen
from extractor.cli.options import (
    Algorithm,
    ConfigDirs,
    DryRun,
    Engine,
    From,
    FromRun,
    Json,
    KeepUnknown,
    Offline,
    Recipe,
    RunVerl,
    StartedIn,
    Variables,
    Verbose,
    With,
    features,
    is_given,
)
from extractor.cli.options import release as release_option
from extractor.values.shell import in_shell

if TYPE_CHECKING:
    from extractor.importers.runs.imported_project import ImportedProject
    from extractor.usecases.new import NewProject
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
        typer.Option(
            "--experimental",
            help="Try an unsupported release with the manifest of the one before it: what is gone and fixes that no"
            " longer fit are left out, and nothing is tested. Where the project's own code needs what is gone,"
            " nothing is made.",
        ),
    ] = False,
    from_run: FromRun = None,
    run_verl: RunVerl = None,
    variables: Variables = None,
    config_dir: ConfigDirs = None,
    started_in: StartedIn = None,
    keep_unknown: KeepUnknown = False,
    offline: Offline = False,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Make a project: the core of verl, without Ray."""
    from extractor.cli import from_run as runs
    from extractor.cli import questions, unsupported
    from extractor.pipeline.source import detect_release
    from extractor.project import location
    from extractor.usecases import new
    from extractor.values import releases
    from extractor.values.options import Options

    request = runs.request(from_run, variables, config_dir, run_verl, started_in, offline, keep_unknown)
    if path is None:
        path, package, verl, engine, algorithm, recipe = questions.ask(context, json=json)
    target = location.check_target(path)
    name = package if package is not None else location.package_name(target.name)
    location.check_package(name, "PATH" if package is None else "--package")
    release = verl or (detect_release(from_) if from_ is not None else releases.default())
    wanted = new.NewRequest(
        Options(name, release, engine, algorithm, tuple(sorted(set(with_ or ()))), recipe),
        chosen=frozenset(item for item in ("engine", "algorithm", "recipe") if is_given(context, item)),
        without=tuple(without or ()),
        origin=from_,
        run=request,
        experimental=experimental,
        offline=offline,
    )
    with unsupported.shown(verbose=verbose, json=json), output.steps(f"making {path}") as step:
        made = new.work_out(wanted, step)
        if not dry_run:
            step("writing it")
            new.write(target, made)
    if made.fit is not None:
        unsupported.show_left_out(made.fit, verbose=verbose)
    for text in made.warnings:
        output.warning(text)
    for feature in made.manifest.features:
        if feature.name in (with_ or ()):
            output.note(f"with {feature.name}: {feature.summary}")
    settled = cast("ImportedProject | None", made.run)
    if json:
        run = {} if settled is None else {"run": runs.report(settled)}
        output.data_json({**_report(target, made, dry_run), **run})
        return
    if settled is not None:
        runs.show(settled, verbose=verbose, below=6)
    if dry_run:
        _show_files(f"would make {path}: {_size(made)}; nothing was written", made.tree, verbose)
    else:
        _show_made(path, made.options, _size(made))


def _show_files(head: str, tree: "Tree", verbose: bool) -> None:
    files = [f"add  {file.kind.value:8}  {file.path}" for file in tree]
    screen.show([head], [screen.Section(files, prefix="add  ")], verbose=verbose)


def _show_made(path: Path, options: "Options", size: str) -> None:
    """Say what was made and how to go on."""
    named = "" if options.package == path.name else f", package {options.package}"
    output.data(f"made {path}{named}: {size}")
    output.data(f"next:\n  cd {in_shell(path)}\n  make setup\n  make train")


def _size(made: "NewProject") -> str:
    (files, theirs), (more, ours), (_, tests) = made.vendored, made.ours, made.tests
    share = f"{theirs / max(made.source.lines, 1):.0%} of verl {made.source.release}"
    return (
        f"{files + more} files, {theirs + ours:,} lines of Python: {theirs:,} of verl's ({share}) and {ours:,} around"
        f" it; {tests:,} of tests"
    )


def _report(target: Path, made: "NewProject", dry_run: bool) -> dict[str, object]:
    from extractor.values.tree import FileKind

    options, source = made.options, made.source
    files, lines = made.vendored
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
        "ours": dict(zip(("files", "lines"), made.ours, strict=True)),
        "tests": dict(zip(("files", "lines"), made.tests, strict=True)),
        "files": {kind.value: [file.path for file in made.generated.tree if file.kind is kind] for kind in FileKind},
        "warnings": list(made.warnings),
    }
