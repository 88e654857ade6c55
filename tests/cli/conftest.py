"""Running command lines in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from extractor.cli.app import run as run_command
from extractor.pipeline import generate
from extractor.pipeline.generate import Generated
from extractor.pipeline.source import Source
from extractor.values.manifest import Manifest
from extractor.values.options import Options
from tests.project.support import Configuration, make

_made: dict[tuple[Options, str], Generated] = {}
_real = generate.generate


@dataclass(frozen=True)
class Result:
    """What a command line did."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _generate_each_project_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generating takes seconds, and equal options and sources give equal projects."""

    def remembered(options: Options, source: Source, manifest: Manifest) -> Generated:
        key = (options, source.sha256)
        if key not in _made:
            _made[key] = _real(options, source, manifest)
        return _made[key]

    monkeypatch.setattr(generate, "generate", remembered)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run `vextract` with these arguments."""

    def runner(*arguments: object) -> Result:
        capsys.readouterr()
        code = run_command([str(item) for item in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return runner


@pytest.fixture(scope="session")
def _pristine(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make(Configuration("0.6.1"), tmp_path_factory.mktemp("pristine") / "toy")
    _made[made.options, made.source.sha256] = made.generated
    return made.root


@pytest.fixture
def project(_pristine: Path, tmp_path: Path) -> Path:
    """A new project with verl 0.6.1, the hf engine and the package `toy`."""
    return Path(shutil.copytree(_pristine, tmp_path / "toy"))
