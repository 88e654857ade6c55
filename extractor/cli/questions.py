"""Ask in a terminal for the options that `vextract new` was not given."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from extractor.cli import output
from extractor.cli.options import is_given
from extractor.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

ASKED = ("path", "package", "verl", "engine", "algorithm", "recipe")
_FLAGS = {"with_": "--with", "without": "--without", "from_": "--from", "from_verl_run": "--from-verl-run"}


def ask(context: typer.Context, *, json: bool) -> dict[str, Any]:
    """Ask for the path and for the options not given; return them by name.

    Raises:
        UsageError: nobody is there to answer.
        typer.Abort: the input has ended.
    """
    if json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "Missing argument 'PATH'",
            hint="name a directory: `vextract new my-project`; in a terminal, `vextract new` asks for it",
        )
    try:
        answers = _ask(context)
    except EOFError:
        raise typer.Abort from None
    words = ["vextract", "new", str(answers["path"])]
    for name in ASKED[1:]:
        words += [f"--{name}", answers[name]] if answers[name] is not None else []
    for name, flag in _FLAGS.items():
        if value := context.params.get(name):
            words += [flag, ",".join(value) if isinstance(value, list) else str(value)]
    output.note(f"the same without questions: `{shlex.join(words)}`")
    return answers


def _ask(context: typer.Context) -> dict[str, Any]:
    from extractor.values import releases
    from extractor.values.options import RECIPES

    given = context.params
    answers = {name: given[name] for name in ASKED[1:]}
    answers["path"], answers["package"] = _ask_place(given["package"])
    verl = given["verl"]
    if given["from_"] is not None or given["from_verl_run"] is not None or (verl and verl not in releases.supported()):
        return answers  # the source or the run decides the rest
    answers["verl"] = verl or _choose("Release of verl", list(reversed(releases.supported())), releases.default())
    manifest = releases.load(answers["verl"])
    for name, question, names in (
        ("engine", "Rollout engine", manifest.engines),
        ("algorithm", "Algorithm", manifest.algorithms),
        ("recipe", "Recipe", RECIPES),
    ):
        if not is_given(context, name):
            answers[name] = _choose(question, names, given[name])
    return answers


def _ask_place(package: str | None) -> tuple[Path, str | None]:
    """Ask for a usable path, and for a package name if its own is none."""
    from extractor.project import location

    while True:
        path = Path(_prompt("Directory of the project", default="my-project"))
        try:
            target = location.check_target(path)
            name, asked = package or location.package_name(target.name), "PATH" if package is None else "--package"
            while True:
                try:
                    location.check_package(name, asked)
                    return path, package or (name if asked == "--package" else None)
                except UsageError as error:
                    if package is not None or "--package" not in (error.hint or ""):
                        raise
                    output.error(error.message, error.hint)
                    name = _prompt("Name of the Python package", default=(error.hint or "").rpartition(" ")[2])
                    asked = "--package"
        except UsageError as error:
            output.error(error.message, error.hint)


def _choose(question: str, names: "Sequence[str]", default: str) -> str:
    return _prompt(question, default=default, choices=list(names))


def _prompt(question: str, **how: Any) -> str:
    from rich.console import Console
    from rich.prompt import Prompt

    return Prompt.ask(question, console=Console(stderr=True, highlight=False), **how)
