# vextract:template - edit freely
"""A program that trains, whose flags are short names of settings. The training is main.py's."""

import inspect
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

import typer

from ..errors import ConfigError
from ..settings import CONFIG_DIRECTORY
from ..settings.flags import CommandLine, parse
from ..switches import SWEEP
from .names.flags import Flags
from .names.short_names import table

MAIN = Path(__file__).resolve().parents[2] / "main.py"


def train(
    preset: str, description: str, arguments: Sequence[str], kind: type[Any] = Flags, program: str | None = None
) -> None:
    """Translate flags into settings, and run main.py with them. Ends the process, with main.py's exit code.

    Args:
        preset: grpo or ppo.
        description: of the program, for --help.
        arguments: of its command line: flags, settings as main.py takes them, and Hydra's flags.
        kind: has the flags; derives from `ShortNames`.
        program: the module's name; None: that of the preset.
    """

    def run(**given: Any) -> None:
        further = given.pop("settings") or []
        try:
            flags = kind(**given)
            words = flags.overrides(preset, further)
        except ConfigError as error:
            _refuse(error)
        os.environ.update(flags.environment())
        _run_main([*_flags_of(asked), *words])

    try:
        asked = parse(arguments, CONFIG_DIRECTORY)
    except ConfigError as error:
        _refuse(error)
    run.__signature__ = inspect.Signature(_parameters(preset, kind))  # type: ignore[attr-defined]
    run.__annotations__ = {}
    run.__doc__ = description
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    both = {"help_option_names": ["-h", "--help"], "token_normalize_func": lambda name: name.replace("_", "-")}
    app.command(context_settings=both)(run)
    app(asked.overrides, prog_name=f"python -m {__name__.partition('.')[0]}.{program or f'train_{preset}'}")


def _parameters(preset: str, kind: type[Any]) -> list[inspect.Parameter]:
    """Return what typer makes flags of."""
    hints = get_type_hints(kind)
    shown: dict[str, tuple[Any, Any]] = {
        name: (hints[name], typer.Option(None, f"--{name.replace('_', '-')}", help=str(short)))
        for name, short in table(kind, preset).items()
    }
    shown["settings"] = (
        list[str] | None,
        typer.Argument(None, metavar="[KEY=VALUE]...", help="any settings, as for main.py"),
    )
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in shown.items()
    ]


def _flags_of(asked: CommandLine) -> list[str]:
    found = [*(["--cfg"] if asked.cfg else []), *asked.flags]
    if SWEEP:
        found += ["--multirun"] if asked.multirun else []
    return found


def _run_main(words: Sequence[str]) -> None:
    """Run main.py in this process. The run's records say so too: they hold the command that does the same."""
    sys.argv = [str(MAIN), *words]
    sys.orig_argv = [sys.executable, MAIN.name, *words]
    runpy.run_path(str(MAIN), run_name="__main__")


def _refuse(error: ConfigError) -> NoReturn:
    if os.environ.get("RANK", "0") == "0":
        print(f"error: {error}", file=sys.stderr)
    sys.exit(2)
