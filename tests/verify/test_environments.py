"""`verify` in environments as people make them: the project itself is installed in its own."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from extractor.usecases.verify import interpreter, project_files, run_verify
from extractor.usecases.verify.closed_imports import check_importable, name_import, read_requirements
from extractor.usecases.verify.report import Check, CheckStatus
from extractor.values.errors import CheckFailed
from tests.verify.projects import small

FILES = {
    # torch would take seconds each time.
    "toy/core.py": "import yaml\n\nfrom toy.other import y\n\nx = yaml.safe_load('1') * y\n",
    "toy/other.py": "y = 1\n",
    "main.py": "x = 1\n",
}


def environment(project: Path, how: tuple[str, ...] | None) -> Path:
    """An environment in the project, with the packages of this one, into which pip installs it so; its own packages."""
    folder = project / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (packages / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    if how is not None:
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "-q"]
        options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
        subprocess.run([*pip, *options, *how, str(project)], check=True)
    return packages


def importable(project: Path) -> Check:
    return check_importable(project_files.read_project(project), interpreter.choose(project, None))


@pytest.mark.slow
@pytest.mark.parametrize("how", [("-e",), pytest.param((), marks=pytest.mark.thorough)])
def test_a_project_that_is_installed_in_its_environment(tmp_path: Path, how: tuple[str, ...]) -> None:
    project = small(tmp_path / "a project, schön", FILES)
    environment(project, how)
    check = importable(project)
    assert check.ok, check.details
    assert interpreter.choose(project, None) == str(project / ".venv/bin/python")
    # What nothing requires is kept out all the same.
    (project / "toy/other.py").write_text("import pytest\ny = 1\n", encoding="utf-8")
    check = importable(project)
    assert check.status is CheckStatus.FAILED
    assert check.details[-1] == "toy.other: ModuleNotFoundError: No module named 'pytest' (toy/other.py:1)"


def test_an_error_in_the_environment_is_not_the_projects(tmp_path: Path) -> None:
    """The environment lies in the project's directory: what breaks in it is shown where the project uses it."""
    project = small(tmp_path / "p", {**FILES, "toy/other.py": "import yaml\ny = 1\n"})
    packages = environment(project, None)
    (packages / "yaml.py").write_text("raise ImportError('two\\nlines')\n", encoding="utf-8")
    check = importable(project)
    assert check.details[-1] == "toy.other: ImportError: two lines (toy/other.py:1)"


def test_which_environment_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = small(tmp_path / "p", FILES)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "UV_PROJECT_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)

    def python_that(answers: int, folder: Path) -> str:
        path = folder / "bin/python"
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\nexit {answers}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    active = python_that(0, tmp_path / "active")
    monkeypatch.setenv("CONDA_PREFIX", str(tmp_path / "active"))
    assert interpreter.choose(project, None) == active
    # An active one without torch is none for the project; one in the project is, and is to be mended.
    python_that(3, tmp_path / "bare")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "bare"))
    assert interpreter.choose(project, None) == active
    own = python_that(3, project / ".venv")
    with pytest.raises(CheckFailed, match="does not have torch") as caught:
        interpreter.choose(project, None)
    assert caught.value.hint == f"install the project into it: cd {project} && make setup"
    Path(own).unlink()
    Path(own).symlink_to(tmp_path / "gone")
    with pytest.raises(CheckFailed, match=r"\.venv/bin/python: cannot be started"):
        interpreter.choose(project, None)
    uvs = python_that(0, project / "uvs")
    monkeypatch.setenv("UV_PROJECT_ENVIRONMENT", "uvs")
    assert interpreter.choose(project, None) == uvs


def test_only_what_is_required_can_be_imported(tmp_path: Path, python: str) -> None:
    check = check_importable(project_files.read_project(small(tmp_path / "p", FILES)), python)
    assert check.status is CheckStatus.OK
    assert "3 vendored modules imported without Ray, verl" in check.summary
    others = {f"toy/{name}s.py": f"import {name}\n" for name in ("ray", "verl", "pytest", "vllm")}
    check = check_importable(project_files.read_project(small(tmp_path / "others", {**FILES, **others})), python)
    assert check.status is CheckStatus.FAILED
    for name in ("ray", "verl", "pytest", "vllm"):
        assert f"toy.{name}s: ModuleNotFoundError: No module named '{name}' (toy/{name}s.py:1)" in check.details


def test_a_named_python_must_exist(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="cannot be started") as caught:
        interpreter.choose(tmp_path, str(tmp_path / "none"))
    assert "--python" in caught.value.hint


def test_a_python_without_torch_fails_with_a_hint(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    bare.chmod(0o755)
    report = run_verify(small(tmp_path / "p", {"toy/core.py": "x = 1\n"}), source=None, python=str(bare))
    failed = {check.name: check for check in report}
    assert failed["importable"].status is CheckStatus.FAILED
    assert "does not have torch" in failed["importable"].summary
    assert failed["parity"].status is CheckStatus.SKIPPED


def test_a_script_that_dies_is_reported_with_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="running this ended with exit code 1 and without a result") as caught:
        interpreter.run_jobs(sys.executable, "none", {"this": {}}, tmp_path, 60)
    assert "KeyError: 'none'" in caught.value.hint


def test_requirements_as_import_names(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["Hydra-Core>=1", "torch"]\noptional-dependencies = {dev = ["pytest"]}\n',
        encoding="utf-8",
    )
    assert read_requirements(tmp_path) == ({"hydra", "torch"}, {"pytest"})
    assert name_import("hydra-core") == "hydra"
    assert name_import("qwen-vl-utils") == "qwen_vl_utils"
    assert read_requirements(tmp_path / "none") == (set(), set())
