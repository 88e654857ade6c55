"""Errors, exit codes and hints; what `--help` costs."""

import os
import subprocess
import sys
from unittest.mock import Mock

import pytest

from extractor import __version__
from extractor.cli import output
from extractor.cli.options import FEATURES
from extractor.values import releases

HELP = """\
Usage: vextract [OPTIONS] COMMAND [ARGS]...

  Vendor the core of verl into a standalone, Ray-free training project.

Options:
  --version             Print the version and exit.
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  -h, --help            Show this message and exit.

Commands:
  new       Make a project: the core of verl, without Ray.
  adopt     Make a project from a copy of verl, with your edits in it.
  graft     Take one method of a fork into a project, as a hook.
  sync      Restore missing vendored files, byte for byte.
  status    Show what is edited, missing, conflicted or orphaned.
  diff      Show your edits against what was emitted.
  outdated  Show what the newest verl would change of yours, as Markdown.
  upgrade   Move to another verl, other options or newer templates.
  add       Add features, or more of verl, to a project.
  remove    Remove features, or more of verl, from a project.
  merge     Merge a Git branch, also one at another release.
  verify    Check a project against upstream.
  sbom      Write a project's bill of materials, as SPDX 2.3 in JSON.
  explain   Say why a file or a symbol is here.
  changes   Compare two releases, as far as a project uses them.
  export    Write the experiment for full verl on Ray.
  report    Make one HTML page about one or several runs.
  plan      Plan the memory of a run, phase by phase, before anything is...
  attack    Try known hacks against a project's reward, and print what...
  versions  List the supported releases of verl.
"""


def test_help_and_version(run) -> None:
    for arguments in ((), ("--help",), ("-h",)):
        result = run(*arguments, code=0)
        assert result.err == ""
        assert result.out.replace("[COMMAND]", "COMMAND").rstrip() == HELP.rstrip()
    assert run("--version").out == f"vextract {__version__}\n"
    known = sorted(feature.name for feature in releases.load(releases.find_default()).features)
    assert FEATURES.split(", ") == known
    for command in ("new", "upgrade", "changes"):
        assert all(name in run(command, "--help").out for name in known)


WRONG = (
    (["nwe"], "No such command 'nwe'", "did you mean `vextract new`?"),
    (["zzz"], "No such command 'zzz'", "commands: "),
    (["new"], "Missing argument 'PATH'", "name a directory: `vextract new my-project`"),
    (["new", "--json"], "Missing argument 'PATH'", "name a directory: `vextract new my-project`"),
    (["new", "x", "--engin", "hf"], "No such option", "did you mean `--engine`? (`vextract new --help`)"),
    (["--nope"], "No such option", "see `vextract --help`"),
    (["versions", "a", "b"], "Got unexpected extra argument", "see `vextract versions --help`"),
    (["new", "x", "--verl"], "requires an argument", "see `vextract"),
    (["sync", "/nowhere"], "/nowhere: no such directory", "pass the directory of a project"),
)


def test_usage_errors(run) -> None:
    for arguments, message, hint in WRONG:
        result = run(*arguments, code=2)
        assert result.out == ""
        first, second = result.err.splitlines()
        assert first.startswith("error: ")
        assert message in first
        assert second.startswith(f"hint: {hint}")


def test_bug(run, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Mock(side_effect=ZeroDivisionError("division by zero\nand more"))
    monkeypatch.setattr("extractor.values.releases.list_supported", broken)
    result = run("versions", code=70)
    assert result.err.splitlines() == [
        "error: this is a bug in vextract: ZeroDivisionError: division by zero",
        "hint: please report it in vextract's issue tracker, with the command, and the traceback that it prints under"
        " VEXTRACT_DEBUG=1",
    ]
    monkeypatch.setenv("VEXTRACT_DEBUG", "1")
    assert "Traceback" in run("versions").err
    monkeypatch.setenv("VEXTRACT_DEBUG", "0")
    assert "Traceback" not in run("versions").err


def test_interrupted(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extractor.values.releases.list_supported", Mock(side_effect=KeyboardInterrupt))
    assert run("versions", code=130).err.strip() == "error: interrupted"


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    output.print_error("x", "y")
    assert capsys.readouterr().err == "error: x\nhint: y\n"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    output.print_error("x", "y")
    assert capsys.readouterr().err == "\x1b[1;31merror:\x1b[0m x\n\x1b[36mhint:\x1b[0m y\n"
    monkeypatch.setenv("NO_COLOR", "1")
    output.print_error("x", "y")
    assert capsys.readouterr().err == "error: x\nhint: y\n"


def test_completion_as_bash_asks_for_it() -> None:
    asked = {"_VEXTRACT_COMPLETE": "complete_bash", "COMP_WORDS": "vextract upg", "COMP_CWORD": "1"}
    command = [sys.executable, "-m", "extractor"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["upgrade"], "")


def test_a_reader_that_leaves_early() -> None:
    command = f"{sys.executable} -m extractor versions | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("0", "141")
    assert done.stderr == ""
