"""What a command imports before it does anything."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lifecycle.worlds import OLD, OLD_TREE, create
from tests.project.support import REPOSITORY

HEAVY = {"torch", "transformers", "numpy", "verl", "libcst", "jinja2", "tomlkit", "rich", "yaml"}


@pytest.mark.parametrize(("arguments", "reads"), [(["new", "--help"], set()), (["status", "toy"], {"tomlkit"})])
def test_nothing_heavy_is_imported(tmp_path: Path, arguments: list[str], reads: set[str]) -> None:
    create(tmp_path / "toy", OLD_TREE, OLD)
    program = (
        "import json, sys\nfrom extractor.cli import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\nprint(json.dumps(sorted(sys.modules)))"
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    shown, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    assert shown
    assert HEAVY & {*json.loads(modules)} <= reads


def test_no_annotation_of_a_command_is_compiled_from_text() -> None:
    from extractor.cli.app import app

    commands = [info.callback for info in app.registered_commands if info.callback is not None]
    assert len(commands) > 10
    for command in commands:
        texts = [name for name, annotation in command.__annotations__.items() if isinstance(annotation, str)]
        assert not texts, f"{command.__module__}: {texts}"


@pytest.mark.usefixtures("verl")
def test_nothing_of_a_generated_project_is_imported_to_make_one() -> None:
    """torch and verl are no requirements: extraction reads source, it runs none."""
    program = (
        "import sys\nfor name in ('torch', 'transformers', 'numpy', 'verl', 'ray'): sys.modules[name] = None\n"
        "from extractor.cli import main\nmain(['new', 'toy', '--dry-run', '-v'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "toy/vendored/algorithms/core_algos.py" in done.stdout
