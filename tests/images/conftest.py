"""Projects with images, and the environment that they need."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import running
from tests.project.support import Configuration, Maker

Run = Callable[..., subprocess.CompletedProcess[str]]
HERE = Path(__file__).resolve().parent
VISION = Path(sys.prefix) / "vision"


@pytest.fixture(scope="session")
def run() -> Run:
    """Runs Python in a project, with torchvision at hand."""
    if not (VISION / "torchvision").is_dir():
        pytest.skip("no torchvision: make .venv/.vision")
    seeing = {"PYTHONPATH": os.pathsep.join([str(HERE / "operators"), str(VISION)])}

    def python(root: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
        return running.python(root, *map(str, arguments), timeout=500, **seeing)

    return python


@pytest.fixture(scope="session")
def model(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny model of a family, with its processor."""
    root, known = tmp_path_factory.mktemp("seeing"), dict[str, Path]()

    def made(kind: str) -> Path:
        if kind not in known:
            known[kind] = root / kind
            code = "import sys, models; from pathlib import Path; models.save_model(sys.argv[1], Path(sys.argv[2]))"
            done = run(HERE, "-c", code, kind, known[kind])
            assert done.returncode == 0, done.stderr[-3000:]
        return known[kind]

    return made


@pytest.fixture(scope="session")
def project(made: Maker) -> Callable[..., Path]:
    """A project of a release and an engine, shared by all tests."""
    features = ("critic", "dynamic_bsz", "export_model", "multimodal", "remove_padding")
    return lambda release, engine="hf": made(Configuration(release, engine, features=features)).root
