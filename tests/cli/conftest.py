"""Running command lines in this process."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from extractor.cli.app import run as run_command
from extractor.project import lock
from tests.project.support import Configuration, make


@dataclass(frozen=True)
class Result:
    """What a command line did."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run `vextract` with these arguments; an exit code that is named has to be the one that it ends with."""

    def runner(*arguments: object, code: int | None = None) -> Result:
        capsys.readouterr()
        ended = run_command([str(item) for item in arguments])
        captured = capsys.readouterr()
        assert code in (None, ended), captured.out + captured.err
        return Result(ended, captured.out, captured.err)

    return runner


def relock(project: Path, **changes: object) -> None:
    """Make a lock say something else, with a checksum that fits."""
    (project / lock.NAME).write_bytes(lock.dump(replace(lock.read(project), **changes)))


@pytest.fixture(scope="session")
def _pristine(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(Configuration("0.6.1"), tmp_path_factory.mktemp("pristine") / "toy").root


@pytest.fixture
def project(_pristine: Path, tmp_path: Path) -> Path:
    """A new project with verl 0.6.1, the hf engine and the package `toy`."""
    return Path(shutil.copytree(_pristine, tmp_path / "toy"))
