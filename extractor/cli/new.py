"""`vextract new`: make a project."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extractor.cli import from_run, options, output, screen
from extractor.cli.options import argument, option
from extractor.values.errors import UsageError
from extractor.values.shell import quote_for_shell

if TYPE_CHECKING:
    from extractor.usecases.new import NewProject, NewRequest

NewPath = Annotated[
    Path | None,
    argument("PATH", "Directory of the project; it must be empty or not exist.", show_default=False),
]
Release = Annotated[str | None, option("--verl RELEASE", "Release of verl; the newest supported one by default.")]
Without = Annotated[list[str] | None, options.make_features_option("--without", "Leave a feature out")]
OwnManifest = Annotated[
    Path | None,
    option("--manifest FILE", "Start with this vextract.toml: symbols of verl to vendor besides the features."),
]
Environment = Annotated[
    str | None,
    option(
        "--env ADAPTER:NAME",
        "An environment of another package: gym:FrozenLake-v1, reasoning_gym:chain_sum, textarena:Mastermind-v0,"
        " verifiers:wordle, openenv:http://HOST:PORT, or openenv:COMMAND with {port} in it. It replaces"
        " --recipe.",
    ),
]
Experimental = Annotated[
    bool,
    option(
        "--experimental",
        "Try an unsupported release with the manifest of the one before it. Parts and fixes that do not fit are left"
        " out; nothing is tested.",
    ),
]


@screen.answers
@from_run.takes_run
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
    verbose: options.Verbose = False,
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
    return _answer(path, target, _make(request, path, target, dry_run=dry_run, verbose=verbose), dry_run)


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


def _make(request: "NewRequest", path: Path, target: Path, *, dry_run: bool, verbose: bool) -> "NewProject":
    from extractor.usecases import new

    with output.show_progress(f"making {path}") as step:
        made = new.make_in_memory(request, step)
        if not dry_run:
            step("writing it")
            new.write(target, made)
    if made.fit is not None:
        lines = [f"  {item}" for item in made.fit.findings]
        screen.show([], [screen.Section(lines)], verbose=verbose, aside=True)
    for text in made.warnings:
        output.print_warning(text)
    for feature in made.manifest.features:
        if feature.name in request.options.features:
            output.print_note(f"with {feature.name}: {feature.summary}")
    return made


def _answer(path: Path, target: Path, made: "NewProject", dry_run: bool) -> screen.Answer:
    aside = from_run.describe(made.run) if made.run is not None else None
    files = [item.path for item in made.tree]
    data = {"path": target, "written": not dry_run, "files": files, "run": aside and aside.data}
    data |= output.pick(made, "options source sizes warnings")
    if dry_run:
        lines = [f"add  {file.kind.value:8}  {file.path}" for file in made.tree]
        head = [f"would make {path}: {_describe_size(made)}; nothing was written"]
        return screen.Answer(data, head, [screen.Section(lines)], aside=aside)
    package = "" if made.options.package == path.name else f", package {made.options.package}"
    head = [f"made {path}{package}: {_describe_size(made)}"]
    tail = ["next:", f"  cd {quote_for_shell(path)}", "  make setup", "  make train"]
    return screen.Answer(data, head, tail=tail, aside=aside)


def _describe_size(made: "NewProject") -> str:
    (files, theirs), (more, ours), (_, tests) = made.sizes.values()
    share = f"{theirs / max(made.source.lines, 1):.0%} of verl {made.source.release}"
    return (
        f"{files + more} files, {theirs + ours:,} lines of Python: {theirs:,} of verl's ({share}) and {ours:,} around"
        f" it; {tests:,} of tests"
    )
