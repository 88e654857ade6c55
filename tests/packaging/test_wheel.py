"""What the wheel holds, and that it works where nothing of the checkout is."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest

from tests.project.support import REPOSITORY, files_of

pytestmark = [pytest.mark.network, pytest.mark.slow]
HEAVY = {"torch", "transformers", "numpy", "verl", "ray", "pandas", "vllm"}


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(REPOSITORY)]
    subprocess.run(build, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` directory of an environment that holds the wheel, and what it requires."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(pip, check=True, cwd=folder)
    return folder / "bin"


def tracked(folder: str) -> set[str]:
    """The files below a directory of the repository, caches left out."""
    found = (path for path in (REPOSITORY / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(REPOSITORY).as_posix() for path in found}


def run(*command: object, cwd: Path, **environment: str) -> str:
    """Run a command in an environment without what leads to this checkout; return what it prints."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.check_output([*map(str, command)], cwd=cwd, env={**clean, **environment}, text=True)


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_what_it_holds_and_says(wheel: Path) -> None:
    """Templates and manifests; whose it is and under which licence; and it requires only light packages."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if "dist-info" not in name}
        (licence,) = [name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE")]
        assert archive.read(licence) == (REPOSITORY / "LICENSE").read_bytes()
    assert names == tracked("extractor") | {f"extractor/{path}" for path in tracked("templates") | tracked("manifests")}
    assert "extractor/py.typed" in names
    metadata = metadata_of(wheel)
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
    assert metadata["Author"] == "The vextract authors"
    assert metadata.get_all("Project-URL") == ["Upstream (verl), https://github.com/volcengine/verl"]
    required = {re.split(r"[ (<>=]", line)[0] for line in metadata.get_all("Requires-Dist")}
    assert "typer" in required
    assert HEAVY.isdisjoint(required)


@pytest.mark.thorough
def test_an_installed_vextract_makes_the_same_project(installed: Path, tmp_path: Path) -> None:
    """Neither the checkout nor anything heavy is in that environment."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    run(installed / "vextract", "new", "toy", cwd=there)
    run(sys.executable, "-m", "extractor", "new", "toy", cwd=here, PYTHONPATH=str(REPOSITORY))
    assert files_of(there / "toy") == files_of(here / "toy")
    program = (
        "import extractor, importlib.util as u; print(extractor.__file__, u.find_spec('torch'), u.find_spec('verl'))"
    )
    file, torch, verl = run(installed / "python", "-c", program, cwd=tmp_path).split()
    assert Path(file).is_relative_to(installed.parent)
    assert (torch, verl) == ("None", "None")


def test_the_index_shows_a_readme_whose_links_lead_somewhere(wheel: Path) -> None:
    """Without an address links are words; with one, each leads to a file that is there."""
    sys.path.insert(0, str(REPOSITORY))
    from hatch_build import on_the_index

    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert metadata_of(wheel).get_payload().strip() == on_the_index(readme, "").strip()
    local = re.compile(r"\]\((?![a-z]+:)")
    assert local.search(readme)
    shown = on_the_index(readme, "https://example.org/x")
    assert not local.search(on_the_index(readme, "") + shown)
    led = re.findall(r"\]\(https://example\.org/x/(?:raw|blob)/HEAD/([^)#]+)", shown)
    assert len(led) > 30
    assert [path for path in led if not (REPOSITORY / path).is_file()] == []
