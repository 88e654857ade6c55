"""Ask in a terminal for the options that `vextract new` was not given."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import typer

from extractor.cli import output
from extractor.values.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

_SHOWN_IN_THE_QUESTION = 6


class Answers(NamedTuple):
    """The answers, as options of `vextract new`."""

    path: Path
    package: Optional[str]  # noqa: UP045
    verl: Optional[str]  # noqa: UP045
    engine: str
    algorithm: str
    recipe: str


def ask(context: typer.Context, *, json: bool) -> Answers:
    """Ask for the path and for the options not given.

    Raises:
        UsageError: nobody is there to answer.
        typer.Abort: the input has ended.
    """
    if json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "Missing argument 'PATH'",
            hint="name a directory: `vextract new my-project`; in a terminal, `vextract new` asks for it",
        )
    from rich.console import Console

    try:
        answers = _ask(context, Console(stderr=True, highlight=False))
    except EOFError:
        raise typer.Abort from None
    output.note(f"the same without questions: `{command_line(context, answers)}`")
    return answers


def command_line(context: typer.Context, answers: Answers) -> str:
    """Write the command that needs no answers."""
    words = ["vextract", "new", str(answers.path)]
    for name in ("package", "verl", "engine", "algorithm", "recipe"):
        value = getattr(answers, name)
        if value is not None:
            words += [f"--{name}", value]
    for name, flag in (("with_", "--with"), ("without", "--without")):
        if context.params.get(name):
            words += [flag, ",".join(context.params[name])]
    for name, flag in (("from_", "--from"), ("from_run", "--from-verl-run")):
        if context.params.get(name):
            words += [flag, str(context.params[name])]
    return shlex.join(words)


def _ask(context: typer.Context, console: "Console") -> Answers:
    from extractor.values import releases
    from extractor.values.options import RECIPES

    given: dict[str, Any] = context.params
    path, package = _place(console, given["package"])
    verl = given["verl"]
    if given["from_"] is not None or given["from_run"] is not None or (verl and verl not in releases.supported()):
        # The source or the run decides the rest.
        return Answers(path, package, verl, given["engine"], given["algorithm"], given["recipe"])
    verl = verl or _one_of(console, "Release of verl", list(reversed(releases.supported())), releases.default())
    manifest = releases.load(verl)

    def choose(name: str, question: str, names: Sequence[str]) -> str:
        source = context.get_parameter_source(name)
        stated = source is not None and source.name != "DEFAULT"
        return str(given[name]) if stated else _one_of(console, question, names, given[name])

    return Answers(
        path,
        package,
        verl,
        choose("engine", "Rollout engine", manifest.engines),
        choose("algorithm", "Algorithm", manifest.algorithms),
        choose("recipe", "Recipe", RECIPES),
    )


def _place(console: "Console", package: str | None) -> tuple[Path, str | None]:
    """Ask for a usable path, and for a package name if needed."""
    from rich.prompt import Prompt

    from extractor.project import location

    path = Path(Prompt.ask("Directory of the project", console=console, default="my-project"))
    try:
        target = location.check_target(path)
        location.check_package(
            package or location.package_name(target.name), "PATH" if package is None else "--package"
        )
    except UsageError as error:
        output.error(error.message, error.hint)
        if package is None and "--package" in (error.hint or ""):
            suggested = (error.hint or "").rpartition(" ")[2]
            return path, _package(console, suggested)
        return _place(console, package)
    return path, package


def _package(console: "Console", suggested: str) -> str:
    from rich.prompt import Prompt

    from extractor.project import location

    name = Prompt.ask("Name of the Python package", console=console, default=suggested)
    try:
        location.check_package(name, "--package")
    except UsageError as error:
        output.error(error.message, error.hint)
        return _package(console, suggested)
    return name


def _one_of(console: "Console", question: str, names: Sequence[str], default: str) -> str:
    from rich.prompt import Prompt

    few = len(names) <= _SHOWN_IN_THE_QUESTION
    if not few:
        console.print(", ".join(names), style="dim")
    return Prompt.ask(question, console=console, choices=list(names), default=default, show_choices=few)
