"""Register the commands, and turn errors into text and exit codes."""

import os
import re
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from extractor import __version__
from extractor.cli import output
from extractor.cli.options import option
from extractor.values.errors import VextractError

INTERRUPTED = 130
USAGE = 2
BUG = 70

app = typer.Typer(
    name="vextract",
    help="Vendor the core of verl into a standalone, Ray-free training project.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order of the help: the module and the name of each.
_COMMANDS = (
    "new.new adopt.adopt adopt.graft files.sync files.status files.diff upgrade.outdated upgrade.upgrade upgrade.add"
    " upgrade.remove upgrade.merge contents.verify contents.sbom contents.explain contents.graph releases.changes"
    " contents.export runs.report runs.plan runs.attack releases.versions"
)
for _module, _, _name in (_command.partition(".") for _command in _COMMANDS.split()):
    app.command(_name)(getattr(import_module(f"extractor.cli.{_module}"), _name))

# Typer has carried its own copy of click since 0.25 or so: take the class from wherever its errors come.
_ClickException: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


@app.callback(invoke_without_command=True)
def _top(
    context: typer.Context,
    version: Annotated[bool, option("--version", "Print the version and exit.")] = False,
) -> None:
    if version:
        output.print_data(f"vextract {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        output.print_data(context.get_help(), styled=True)


_command: Any = typer.main.get_command(app)  # as click has it


def run(arguments: list[str]) -> int:
    """Run a command line; return its exit code. Only SystemExit escapes."""
    debug = os.environ.get("VEXTRACT_DEBUG", "") not in ("", "0")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        result = _command.main(args=arguments, prog_name="vextract", standalone_mode=False)
        code = result if isinstance(result, int) else 0
        if code == INTERRUPTED:
            output.print_error("interrupted", None)
        return code
    except (KeyboardInterrupt, typer.Abort):
        output.print_error("interrupted", None)
        return INTERRUPTED
    except _ClickException as error:
        output.print_error(*_explain_usage(error, list(getattr(_command, "commands", {}))))
        return USAGE
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc(file=sys.stderr)
        return _describe(error, debug)


def _describe(error: Exception, debug: bool) -> int:
    """Print an error and return its exit code."""
    if isinstance(error, VextractError):
        for line in error.details:
            output.print_note(f"  {line}")
        output.print_error(error.message, error.hint)
        return error.code
    if isinstance(error, OSError):
        what = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror or str(error)
        output.print_error(what, "look at what lies there, its permissions and the free space")
        return USAGE
    if isinstance(error, (RecursionError, MemoryError)):
        problem = "is nested too deep" if isinstance(error, RecursionError) else "does not fit into memory"
        output.print_error(f"a file that was read {problem}", "VEXTRACT_DEBUG=1 shows where")
        return USAGE
    what = f"{type(error).__name__}: {error}".strip().splitlines()[0]
    hint = "please report it in vextract's issue tracker, with the command"
    hint += "" if debug else ", and the traceback that it prints under VEXTRACT_DEBUG=1"
    output.print_error(f"this is a bug in vextract: {what}", hint)
    return BUG


def _explain_usage(error: Any, commands: list[str]) -> tuple[str, str]:
    """Return message and hint for an invalid command line."""
    from extractor.values.nearest import find_nearest

    text = str(error.format_message())
    message = re.split(r"\s*\(?(?:Did you mean|Possible options)", text)[0].strip().rstrip(".")
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "vextract")
    if missing := re.match(r"No such command '(.*)'", message):
        near = find_nearest(missing.group(1), commands)
        return message, f"did you mean `vextract {near[0]}`?" if near else f"commands: {', '.join(sorted(commands))}"
    unknown = re.match(r"No such option:? '?(-\S+?)'?$", message)
    if unknown and context is not None:
        known = [name for item in context.command.get_params(context) for name in item.opts if name.startswith("--")]
        if near := find_nearest(unknown.group(1), known):
            return message, f"did you mean `{near[0]}`? (`{path} --help`)"
    return message, f"see `{path} --help`"
