"""`vextract new`."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from extractor import __version__
from extractor.pipeline.source import Source
from extractor.project import base, location, lock
from extractor.usecases.upgrade.choices import UpgradeRequest, choose_options
from extractor.values import releases
from extractor.values.errors import UsageError
from extractor.values.options import Options
from extractor.values.tree import FileKind
from tests.project.support import REPOSITORY, files_of


@pytest.mark.usefixtures("verl")
def test_new(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("new", "toy", code=0)
    assert result.err == ""
    lines = result.out.splitlines()
    size = re.fullmatch(
        rf"made toy: \d+ files, ([\d,]+) lines of Python: ([\d,]+) of verl's \(\d+% of verl {releases.find_default()}\)"
        r" and ([\d,]+) around it; [\d,]+ of tests",
        lines[0],
    )
    whole, theirs, ours = (int(number.replace(",", "")) for number in size.groups())
    found = files_of(tmp_path / "toy")
    code = [data for path, data in found.items() if path.endswith(".py") and "tests" not in path.split("/")]
    assert whole == theirs + ours == sum(data.count(b"\n") for data in code)
    # README rounds them.
    said = re.search(r"([\d,]+) lines of ([\d,]+)", (REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert [int(number.replace(",", "")) for number in said.groups()] == pytest.approx([theirs, whole], rel=0.02)
    assert lines[1:] == ["next:", "  cd toy", "  make setup", "  make train"]
    assert os.listdir(tmp_path) == ["toy"]
    locked = lock.read(tmp_path / "toy")
    assert (locked.vextract, locked.options.features) == (__version__, ())
    assert {file.kind for file in locked.files} == set(FileKind)
    base.read(tmp_path / "toy", locked)
    assert found.keys() == {*(file.path for file in locked.files), lock.NAME, base.PATH}
    # Neither the hash seed, nor the directory, the locale, the clock or the file mode mask matters.
    settings = {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONPATH": str(REPOSITORY)}
    (tmp_path / "there").mkdir()
    command = [sys.executable, "-m", "extractor", "new", "toy"]
    subprocess.run(command, cwd=tmp_path / "there", env={**os.environ, **settings}, check=True, capture_output=True)
    assert files_of(tmp_path / "there/toy") == found


@pytest.mark.usefixtures("verl")
def test_what_it_says_to_type_can_be_typed(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the project's name: here a shell would take it for an option, or for two words."""
    monkeypatch.chdir(tmp_path)
    for name in ("./-dash", "two words"):
        command = run("new", name, "--package", "toy").out.splitlines()[2]
        done = subprocess.run(["bash", "-ec", f"{command}; pwd"], capture_output=True, text=True)
        assert done.stdout.endswith(f"/{name.removeprefix('./')}\n")
    assert "`vextract sync ./-dash`" in run("new", "./-dash").err


@pytest.mark.usefixtures("verl")
def test_dry_run(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run("new", tmp_path / "toy", "--with", "tools", "--dry-run", code=0)
    assert "with tools: tools that the model calls" in result.err
    assert result.out.splitlines()[0].endswith("nothing was written")
    assert "add  vendored  LICENSE.verl\n" in result.out
    whole = run("new", tmp_path / "toy", "--dry-run", "-v").out
    assert "add  vendored  toy/vendored/algorithms/core_algos.py\n" in whole
    assert json.loads(run("new", tmp_path / "toy", "--dry-run", "--json").out)["written"] is False
    assert os.listdir(tmp_path) == []

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("extractor.project.disk.write_new", full)
    assert "No space left" in run("new", tmp_path / "a/b/toy", code=2).err
    assert os.listdir(tmp_path) == [], "directories above go again where nothing was made"


@pytest.mark.usefixtures("verl")
def test_features_in_one_go_and_a_place_that_is_not_there_yet(run, tmp_path: Path) -> None:
    """Directories are made, with names of any kind; the package takes its name from the last."""
    target = tmp_path / "d\u00e9j\u00e0 vu/My Proj"
    report = json.loads(run("new", target, "--with", "qlora, mfu,", "--with", "scorers", "--json", code=0).out)
    assert lock.read(target).options.features == ("export_model", "lora", "mfu", "qlora", "scorers")
    assert "\nbitsandbytes==" in (target / "requirements.lock").read_text(encoding="utf-8")
    assert (report["path"], report["written"]) == (str(target), True)
    assert (report["options"]["verl"], report["source"]["kind"]) == (releases.find_default(), "wheel")
    assert "my_proj/vendored/algorithms/core_algos.py" in report["files"]
    assert report["sizes"]["vendored"][1] > 0
    # All but those that have to be named.
    shown = json.loads(run("new", tmp_path / "all", "--with", "all", "--without", "plots", "--dry-run", "--json").out)
    offered = {item.name for item in releases.load(releases.find_default()).features}
    environments = {name for name in offered if name.startswith("env_")}
    assert offered - {*shown["options"]["features"]} == {"code_scorers", "plots"} | environments


WRONG = (
    (["--engine", "vlm"], "no engine 'vlm'", "did you mean `vllm`?"),
    (["--verl", "v0.9.1"], "verl v0.9.1 is not supported", "did you mean 0.9.1?"),
    (["--verl", "latest"], "verl latest is not supported", "supported: "),
    (["--with", "critc"], "no feature 'critc'", "did you mean `critic`?"),
    (["--with", "sequence_parallel"], "'sequence_parallel' here: it changes", "leave sequence_parallel out"),
    (["--with", "tools", "--verl", "0.7.1"], "verl 0.7.1 has no feature 'tools' here", "`--verl 0.9.1` has it"),
    (["--with", "lora", "--without", "lora"], "contradict", "drop one"),
    (["--with", "qlora", "--without", "lora"], "feature qlora needs it", "`--without qlora` as well"),
    (["--algorithm", "ppo", "--without", "critic"], "algorithm ppo needs it", "choose another --algorithm"),
    (["--package", "torch"], "--package: 'torch' cannot be", "pass --package my_torch"),
)


def test_wrong_options(run, tmp_path: Path) -> None:
    for arguments, message, hint in WRONG:
        result = run("new", tmp_path / "toy", *arguments, code=2)
        assert message in result.err
        assert f"hint: {hint}" in result.err
    assert os.listdir(tmp_path) == []
    with pytest.raises(UsageError, match=r"verl 0\.8\.0 has no feature 'agents' here: ") as caught:
        choose_options(Options("toy", "0.8.0"), UpgradeRequest(added=("agents",)))
    assert caught.value.hint.startswith("`vextract upgrade --to 0.9.1` has it")
    # What only the newer release needs for a feature comes and goes with it.
    back, _ = choose_options(Options("toy", "0.9.1", features=("critic", "shared_passes")), UpgradeRequest("0.6.1"))
    assert back.features == ("critic",)


def test_from_a_checkout(run, tmp_path: Path, verl_0_5_0: Source) -> None:
    """The release follows from it; its notice is passed on, as Apache-2.0 asks, section 4 (d)."""
    verl_0_5_0.materialise(tmp_path / "checkout")
    (tmp_path / "checkout/LICENSE").write_text(verl_0_5_0.licence)
    (tmp_path / "checkout/Notice.txt").write_text("Made by its makers.\nAll of them.\n")
    run("new", tmp_path / "toy", "--from", tmp_path / "checkout", "--offline", code=0)
    locked = lock.read(tmp_path / "toy")
    assert (locked.source_kind, locked.options.verl) == ("checkout", "0.5.0")
    assert locked.source_sha256 != verl_0_5_0.sha256
    assert "\n  Made by its makers.\n  All of them.\n" in (tmp_path / "toy/NOTICE").read_text()
    result = run("new", tmp_path / "other", "--from", tmp_path / "checkout", "--verl", "0.6.1", code=3)
    assert "verl 0.5.0, not 0.6.1" in result.err


def refused(path: Path, problem: str) -> str:
    """Check that a project may not go there; return the hint."""
    with pytest.raises(UsageError, match=problem) as caught:
        location.check_target(path)
    return caught.value.hint


def test_where_a_project_may_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links are followed, and directories that are not there are not made yet."""
    for folder in ("full/.git", "project", "empty"):
        (tmp_path / folder).mkdir(parents=True)
    for file in ("file", f"project/{lock.NAME}"):
        (tmp_path / file).write_text("")
    refused(tmp_path / "full", r"not empty \(it has \.git\)")
    refused(tmp_path / "file", "exists and is no directory")
    assert "vextract sync" in refused(tmp_path / "project", "already a vextract project")
    refused(tmp_path / "project/sub/toy", "inside another vextract project")
    refused(tmp_path / "file/b/c/toy", f"{tmp_path / 'file'} is no directory")
    with monkeypatch.context() as patched:
        patched.setattr("os.access", lambda path, mode: False)
        refused(tmp_path / "toy", "is not writable")
    assert location.check_target(tmp_path / "a/b/toy") == tmp_path / "a/b/toy"
    assert not (tmp_path / "a").exists()
    (tmp_path / "toy").symlink_to(tmp_path / "empty")
    assert location.check_target(tmp_path / "toy") == tmp_path / "empty"
    monkeypatch.chdir(tmp_path / "empty")
    assert refused(Path(), "the current directory") == "cd .. && vextract new empty"


DIRECTORIES = {"my_project": "my_project", "My-Proj.": "my_proj", ".hidden": "hidden"}
BAD_NAMES = (
    ("", "not a Python identifier", "myproj"),
    ("caf\u00e9", "not ASCII", "myproj"),
    ("class", "a keyword of Python", "my_class"),
    ("JSON", "standard library", "my_json"),
    ("verl", "may import", "my_verl"),
    ("config", "of the project itself", "my_config"),
    ("_private", "underscore", "private"),
)


def test_names_of_packages() -> None:
    for directory, package in DIRECTORIES.items():
        assert location.name_package(directory) == package
    for name, problem, suggestion in BAD_NAMES:
        with pytest.raises(UsageError, match=problem) as caught:
            location.check_package(name, "PATH")
        assert caught.value.hint == f"pass --package {suggestion}"
        location.check_package(suggestion, "PATH")
