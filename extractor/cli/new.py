"""`vextract new`: make a project."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extractor.cli import options, output, screen
from extractor.cli.options import argument, option
from extractor.values.errors import UsageError
from extractor.values.shell import quote_for_shell

if TYPE_CHECKING:
    from extractor.importers.runs.imported_project import ImportedProject
    from extractor.importers.runs.run_request import RunRequest
    from extractor.usecases.new import NewProject, NewRequest

_LONGEST = 120  # of a value in a report

NewPath = Annotated[Path | None, argument("PATH", "Directory of the project, new or empty.", show_default=False)]
Release = Annotated[str | None, option("--verl RELEASE", "Release of verl; the newest supported one by default.")]
Without = Annotated[list[str] | None, options.make_features_option("--without", "Leave a feature out")]
OwnManifest = Annotated[Path | None, option("--manifest FILE", "A vextract.toml: more symbols of verl to vendor.")]
Environment = Annotated[
    str | None,
    option(
        "--env ADAPTER:NAME",
        "Instead of --recipe: gym:FrozenLake-v1, reasoning_gym:chain_sum, textarena:Mastermind-v0, verifiers:wordle,"
        " openenv:http://HOST:PORT, or openenv:COMMAND with {port} in it.",
    ),
]
Experimental = Annotated[
    bool, option("--experimental", "Try an unsupported release, untested, without parts and fixes that do not fit.")
]


def _read_run(
    offline: bool,
    from_verl_run: Annotated[
        Path | None,
        option(
            "--from-verl-run FILE",
            "Take the experiment from a run of verl, EasyR1 or TRL: a launch script, a config, or what Hydra wrote.",
        ),
    ] = None,
    run_verl: Annotated[str | None, option("--run-verl RELEASE", "Release of the run; detected by default.")] = None,
    variables: Annotated[
        list[str] | None,
        option("--set VAR=VALUE", "A variable or argument (1=VALUE) of the run's script; repeatable."),
    ] = None,
    config_dir: Annotated[list[Path] | None, option("--config-dir DIR", "Configs that the run names.")] = None,
    started_in: Annotated[
        Path | None, option("--cwd DIR", "Where the run is started; by default where the paths that it names exist.")
    ] = None,
    keep_unknown: Annotated[bool, option("--keep-unknown", "Keep settings that no release has in a file.")] = False,
) -> "RunRequest | None":
    """Return what the command line says of a run, or None.

    Raises:
        UsageError: it names none, and says something about it; or a directory that is not there.
    """
    if from_verl_run is None:
        if run_verl or variables or config_dir or started_in or keep_unknown:
            raise UsageError(
                "--set, --config-dir, --cwd, --keep-unknown and --run-verl belong to a run",
                hint="pass --from-verl-run FILE as well",
            )
        return None
    folders = config_dir or ()
    for flag, folder in [("--cwd", started_in), *(("--config-dir", item) for item in folders)]:
        if folder is not None and not folder.is_dir():
            raise UsageError(f"{flag} {folder}: no such directory", hint="check its path")
    from extractor.importers.runs.run_request import RunRequest

    return RunRequest(
        from_verl_run, tuple(variables or ()), tuple(folders), run_verl, started_in, offline, keep_unknown
    )


def takes_run(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a run in place of its parameter `run`."""
    _, *of_run = inspect.signature(_read_run).parameters.values()

    def with_run(**given: Any) -> Any:
        said = {item.name: given.pop(item.name) for item in of_run}
        return command(**given, run=_read_run(given["offline"], **said))

    own = inspect.signature(command).parameters.items()
    shown = [item for name, parameter in own for item in (of_run if name == "run" else [parameter])]
    return options.declare(command, with_run, shown)


@screen.answers
@takes_run
def new(
    context: typer.Context,
    path: NewPath = None,
    engine: options.Engine = "hf",
    verl: Release = None,
    algorithm: options.Algorithm = "grpo",
    recipe: options.Recipe = "toy",
    env: Environment = None,
    with_: options.With = None,
    without: Without = None,
    agent: options.Agent = None,
    package: options.Package = None,
    manifest: OwnManifest = None,
    from_: options.From = None,
    experimental: Experimental = False,
    run: Any = None,
    offline: options.Offline = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> screen.Answer:
    """Make a project: the core of verl, without Ray."""
    from extractor.pipeline.source import detect_release
    from extractor.project import location
    from extractor.usecases.new import NewRequest
    from extractor.values import releases
    from extractor.values.manifest import read_own_manifest
    from extractor.values.options import Options

    if env is not None and (options.is_given(context, "recipe") or run is not None):
        raise UsageError("--env goes with neither --recipe nor --from-verl-run", hint="drop one of the two")
    if path is None:
        path, engine, algorithm, recipe = _ask(engine, algorithm, recipe, json=json)
    target = location.check_target(path)
    name = package if package is not None else location.name_package(target.name)
    location.check_package(name, "PATH" if package is None else "--package")
    own = read_own_manifest(manifest, missing=False) if manifest is not None else ""
    release = verl or (detect_release(from_) if from_ is not None else releases.find_default())
    chosen = {*(with_ or ()), *(["agents"] if agent is not None else [])}
    request = NewRequest(
        Options(name, release, engine, algorithm, tuple(sorted(chosen)), recipe, manifest=own),
        chosen=frozenset(item for item in ("engine", "algorithm", "recipe") if options.is_given(context, item)),
        without=tuple(without or ()),
        origin=from_,
        run=run,
        agent=agent,
        environment=env or "",
        experimental=experimental,
        offline=offline,
    )
    return _answer(path, target, _make(request, path, target, dry_run=dry_run), dry_run)


def _ask(engine: str, algorithm: str, recipe: str, *, json: bool) -> tuple[Path, str, str, str]:
    """Ask in a terminal for the path and the main options.

    Raises:
        UsageError: nobody is there to answer.
        typer.Abort: the input has ended.
    """
    from rich.console import Console
    from rich.prompt import Prompt

    from extractor.values import releases
    from extractor.values.options import RECIPES

    if json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("Missing argument 'PATH'", hint="name a directory: `vextract new my-project`")
    console, newest = Console(stderr=True, highlight=False), releases.load(releases.find_default())
    try:
        path = Path(Prompt.ask("Directory of the project", console=console, default="my-project"))
        engine = Prompt.ask("Rollout engine", console=console, default=engine, choices=list(newest.engines))
        algorithm = Prompt.ask("Algorithm", console=console, default=algorithm, choices=list(newest.algorithms))
        recipe = Prompt.ask("Recipe", console=console, default=recipe, choices=list(RECIPES))
    except EOFError:
        raise typer.Abort from None
    line = f"vextract new {quote_for_shell(path)} --engine {engine} --algorithm {algorithm} --recipe {recipe}"
    output.print_note(f"the same without questions: `{line}`")
    return path, engine, algorithm, recipe


def _make(request: "NewRequest", path: Path, target: Path, *, dry_run: bool) -> "NewProject":
    from extractor.pipeline.plan import plan_new
    from extractor.usecases import new

    with output.show_progress(f"making {path}") as step:
        made = new.make_in_memory(request, step)
        if not dry_run:
            step("writing it")
            new.write(target, plan_new(made.tree), made.generated)
    for item in () if made.fit is None else made.fit.findings:
        output.print_note(f"  {item}")
    for text in made.warnings:
        output.print_warning(text)
    for feature in made.generated.manifest.features:
        if feature.name in request.options.features:
            output.print_note(f"with {feature.name}: {feature.summary}")
    return made


def _answer(path: Path, target: Path, made: "NewProject", dry_run: bool) -> screen.Answer:
    aside = describe_run(made.run) if made.run is not None else None
    files = [item.path for item in made.tree]
    data = {"path": target, "written": not dry_run, "files": files, "run": aside and aside.data}
    data |= output.pick(made.generated, "options source") | output.pick(made, "sizes warnings")
    if dry_run:
        lines = [f"add  {file.kind.value:8}  {file.path}" for file in made.tree]
        head = [f"would make {path}: {_describe_size(made)}; nothing was written"]
        return screen.Answer(data, head, [screen.Section(lines)], aside=aside)
    name = made.generated.options.package
    package = "" if name == path.name else f", package {name}"
    head = [f"made {path}{package}: {_describe_size(made)}"]
    tail = ["next:", f"  cd {quote_for_shell(path)}", "  make setup", "  make train"]
    return screen.Answer(data, head, tail=tail, aside=aside)


def _describe_size(made: "NewProject") -> str:
    (files, theirs), (more, own), (_, tests) = made.sizes.values()
    source = made.generated.source
    share = f"{theirs / max(source.lines, 1):.0%} of verl {source.release}"
    return (
        f"{files + more} files, {theirs + own:,} lines of Python: {theirs:,} of verl's ({share}) and {own:,} around"
        f" it; {tests:,} of tests"
    )


def describe_run(settled: "ImportedProject") -> screen.Answer:
    """Say what is not as it was in the run."""
    from extractor.importers.runs.placeholders import make_readable
    from extractor.importers.runs.report import FILE, FIRST, KEPT, TITLES

    lines: dict[str, list[str]] = {what: [] for what in TITLES}
    for item in settled.remarks:
        said = " ".join(make_readable(str(item.value)).split())
        said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]}..."
        lines.setdefault(item.what, []).append(f"  {item.key}{f'={said}' if item.value != '' else ''}: {item.why}")
    rest = sum(item.what not in FIRST for item in settled.remarks)
    remarks = [item for item in settled.remarks if item.what != KEPT]
    return screen.Answer(
        {**output.pick(settled, "release settings"), **output.pick(settled.run, "file notes"), "remarks": remarks},
        [make_readable(settled.headline)],
        [screen.Section(lines[what], f"{title}:", rest=what not in FIRST) for what, title in TITLES.items()],
        more=[f"{rest} more, lowered, of no use here, or as the project has them: {FILE}"] if rest else [],
        warnings=list(map(make_readable, settled.run.notes)),
    )
