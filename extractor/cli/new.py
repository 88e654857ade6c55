"""`vextract new`: make a project."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import completion, output, screen
from extractor.cli.options import Algorithm, DryRun, Engine, From, Json, Offline, Recipe, Verbose, With, features
from extractor.cli.options import release as release_option
from extractor.values.shell import in_shell

if TYPE_CHECKING:
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
        typer.Option("--experimental", help="For an unsupported release: leave out what does not fit."),
    ] = False,
    from_run: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--from-verl-run",
            metavar="FILE",
            help="Take the experiment from a run of verl, EasyR1 or TRL: a launch script, overrides, a config, the"
            " output of Hydra, or a checkpoint of verl to go on from.",
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
    started_in: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--cwd",
            metavar="DIR",
            help="Directory that the run is started in; by default the one below which the paths that it names exist.",
        ),
    ] = None,
    keep_unknown: Annotated[
        bool,
        typer.Option("--keep-unknown", help="Put settings of the run that no release has into a file of their own."),
    ] = False,
    offline: Offline = False,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Make a project: the core of verl, without Ray."""
    from extractor.cli import from_run as runs
    from extractor.cli import questions, unsupported
    from extractor.pipeline.source import release_of
    from extractor.project import location
    from extractor.usecases import new
    from extractor.values import releases
    from extractor.values.options import Options

    _check_about_a_run(from_run, variables, config_dir, run_verl, started_in, keep_unknown)
    if path is None:
        path, package, verl, engine, algorithm, recipe = questions.ask(context, json=json)
    target = location.check_target(path)
    name = package if package is not None else location.package_name(target.name)
    location.check_package(name, "PATH" if package is None else "--package")
    release = verl or (release_of(from_) if from_ is not None else releases.default())
    request = None
    if from_run is not None:
        from extractor.usecases.fromrun.carry_over import Request

        request = Request(
            from_run, tuple(variables or ()), tuple(config_dir or ()), run_verl, started_in, offline, keep_unknown
        )
    wanted = new.Wanted(
        Options(name, release, engine, algorithm, tuple(sorted(set(with_ or ()))), recipe),
        chosen=frozenset(item for item in ("engine", "algorithm", "recipe") if _given(context, item)),
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
    if json:
        run = {} if made.run is None else {"run": runs.report(made.run)}
        output.data_json({**_report(target, made, dry_run), **run})
        return
    if made.run is not None:
        runs.show(made.run, verbose=verbose, below=6)
    if dry_run:
        _show_files(f"would make {path}: {_size(made)}; nothing was written", made.tree, verbose)
    else:
        _show_made(path, made.options, _size(made))


def _check_about_a_run(run: Path | None, *settings: object) -> None:
    from extractor.values.errors import UsageError

    if run is None and any(settings):
        raise UsageError(
            "--set, --config-dir, --cwd, --keep-unknown and --run-verl belong to a run",
            hint="pass --from-verl-run FILE as well",
        )


def _show_files(head: str, tree: "Tree", verbose: bool) -> None:
    files = [f"add  {file.kind.value:8}  {file.path}" for file in tree]
    screen.show([head], [screen.Section(files, prefix="add  ")], verbose=verbose)


def _show_made(path: Path, options: "Options", size: str) -> None:
    """Say what was made and how to go on."""
    named = "" if options.package == path.name else f", package {options.package}"
    output.data(f"made {path}{named}: {size}")
    output.data(f"next:\n  cd {in_shell(path)}\n  make setup\n  make train")


def _given(context: typer.Context, name: str) -> bool:
    """Tell whether an option stands on the command line."""
    where = context.get_parameter_source(name)
    return where is not None and where.name != "DEFAULT"


def _size(made: "NewProject") -> str:
    files, lines = made.vendored
    return f"{files} files, {lines:,} lines: {lines / max(made.source.lines, 1):.0%} of verl {made.source.release}"


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
        "files": {kind.value: [file.path for file in made.generated.tree if file.kind is kind] for kind in FileKind},
        "warnings": list(made.warnings),
    }
