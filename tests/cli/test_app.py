"""Errors, exit codes and hints."""

import os
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from extractor import __version__
from extractor.cli import app, output
from extractor.cli.options import FEATURES
from extractor.values import releases
from tests.lifecycle.worlds import OLD, OLD_TREE, create
from tests.project.support import REPOSITORY


def test_help_and_version(run) -> None:
    shown = run("--help", code=0).out
    assert shown.startswith("Usage: vextract [OPTIONS] COMMAND [ARGS]...\n")
    assert run(code=0).out == shown == run("-h", code=0).out
    listed = re.findall(r"^  (\w+)  +[A-Z]", shown.partition("Commands:")[2], re.MULTILINE)
    assert listed == [info.name for info in app.app.registered_commands] != []
    assert run("--version").out == f"vextract {__version__}\n"
    known = sorted(feature.name for feature in releases.load(releases.find_default()).features)
    assert FEATURES.split(", ") == known
    for command in ("new", "upgrade", "changes"):
        assert all(name in run(command, "--help").out for name in known)


WRONG = (
    (["nwe"], "No such command 'nwe'", "did you mean `vextract new`?"),
    (["zzz"], "No such command 'zzz'", "commands: "),
    (["new"], "Missing argument 'PATH'", "name a directory: `vextract new my-project`"),
    (["new", "x", "--engin", "hf"], "No such option", "did you mean `--engine`? (`vextract new --help`)"),
    (["--nope"], "No such option", "see `vextract --help`"),
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
    with monkeypatch.context() as patch:
        patch.setenv("VEXTRACT_DEBUG", "1")
        assert "Traceback" in run("versions").err
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


def test_a_reader_that_leaves_early() -> None:
    command = f"{sys.executable} -m extractor versions | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout.strip() in ("0", "141"), done.stderr) == (True, "")


PARSERS, MODELS = ("libcst", "jinja2", "rich", "yaml"), ("torch", "transformers", "numpy", "verl", "ray")


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["new", "--help"], (*MODELS, *PARSERS, "tomlkit")),
        (["status", "toy"], (*MODELS, *PARSERS)),
        pytest.param(["new", "x", "--dry-run", "-v"], MODELS, marks=pytest.mark.network),
    ],
)
def test_nothing_heavy_is_imported(tmp_path: Path, arguments: list[str], absent: tuple[str, ...]) -> None:
    """Nor anything of a project to make one: extraction reads source, it runs none."""
    create(tmp_path / "toy", OLD_TREE, OLD)
    program = (
        f"import sys\nfor name in {absent!r}: sys.modules[name] = None\n"
        f"from extractor.cli import main\nmain({arguments!r})"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    assert subprocess.check_output([sys.executable, "-c", program], cwd=tmp_path, env=environment)
