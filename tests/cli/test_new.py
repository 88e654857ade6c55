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
    assert lines[0].startswith("made toy: ")
    size = re.fullmatch(
        rf"made toy: \d+ files, ([\d,]+) lines of Python: ([\d,]+) of verl's \(\d+% of verl {releases.find_default()}\)"
        r" and ([\d,]+) around it; [\d,]+ of tests",
        lines[0],
    )
    whole, theirs, ours = (int(number.replace(",", "")) for number in size.groups())
    code = [
        path for path in (tmp_path / "toy").rglob("*.py") if "tests" not in path.relative_to(tmp_path / "toy").parts
    ]
    assert whole == theirs + ours == sum(path.read_bytes().count(b"\n") for path in code)
    # README rounds them.
    said = re.search(r"([\d,]+) lines of ([\d,]+)", (REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert [int(number.replace(",", "")) for number in said.groups()] == pytest.approx([theirs, whole], rel=0.02)
    assert lines[1:] == ["next:", "  cd toy", "  make setup", "  make train"]
    assert os.listdir(tmp_path) == ["toy"]
    locked = lock.read(tmp_path / "toy")
    assert locked.vextract == __version__
    assert locked.options.features == ()
    assert {file.kind for file in locked.files} == set(FileKind)
    base.read(tmp_path / "toy", locked)
    on_disk = {
        path.relative_to(tmp_path / "toy").as_posix() for path in (tmp_path / "toy").rglob("*") if path.is_file()
    }
    assert on_disk == {*(file.path for file in locked.files), lock.NAME, base.PATH}


@pytest.mark.usefixtures("verl")
def test_what_it_says_to_type_can_be_typed(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the project's name: here a shell would take it for an option, or for two words."""
    monkeypatch.chdir(tmp_path)
    command = run("new", "./-dash").out.splitlines()[2]
    assert subprocess.run(["bash", "-ec", f"{command}; pwd"], capture_output=True, text=True).stdout.endswith(
        "/-dash\n"
    )
    assert "`vextract sync ./-dash`" in run("new", "./-dash").err
    (tmp_path / "-dash").rename(tmp_path / "two words")
    (command,) = [line for line in run("export", "two words").out.splitlines() if "cd " in line]
    assert subprocess.run(["bash", "-ec", command]).returncode == 0


@pytest.mark.usefixtures("verl")
def test_dry_run(run, tmp_path: Path) -> None:
    result = run("new", tmp_path / "toy", "--with", "tools", "--dry-run", code=0)
    assert "with tools: tools that the model calls" in result.err
    assert result.out.splitlines()[0].endswith("nothing was written")
    assert "add  vendored  LICENSE.verl\n" in result.out
    assert "more (-v shows all)\n" in result.out
    whole = run("new", tmp_path / "toy", "--dry-run", "-v").out
    assert "add  vendored  toy/vendored/algorithms/core_algos.py\n" in whole
    assert json.loads(run("new", tmp_path / "toy", "--dry-run", "--json").out)["written"] is False
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("verl")
def test_a_place_that_is_not_there_yet(run, tmp_path: Path) -> None:
    """Directories are made, with names of any kind; the package takes its name from the last."""
    target = tmp_path / "d\u00e9j\u00e0 vu/My Proj"
    result = run("new", target, code=0)
    assert f"made {target}, package my_proj: " in result.out
    assert f"  cd '{target}'\n" in result.out
    assert (target / "my_proj/vendored/algorithms/core_algos.py").exists()


@pytest.mark.usefixtures("verl")
def test_directories_above_go_again_where_nothing_was_made(run, tmp_path: Path, monkeypatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("extractor.project.disk.write_new", full)
    result = run("new", tmp_path / "a/b/toy", code=2)
    assert "No space left" in result.err
    assert os.listdir(tmp_path) == []


@pytest.mark.usefixtures("verl")
def test_equal_commands_give_equal_bytes(run, tmp_path: Path) -> None:
    """Neither the hash seed, nor the directory, the locale, the clock or the file mode mask matters."""
    settings = {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "Asia/Tokyo", "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "extractor", "new", "toy"]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, **settings}, check=True, capture_output=True)
    run("new", tmp_path / "here/toy", code=0)  # in this process, whose seed is a random one
    assert files_of(tmp_path / "here/toy") == files_of(tmp_path / "toy")


@pytest.mark.usefixtures("verl")
def test_features_may_be_named_in_one_go_and_bring_what_they_need(run, tmp_path: Path) -> None:
    result = run(
        "new", tmp_path / "my-project", "--with", "qlora, mfu,", "--with", "scorers", "--package", "toy", "--json"
    )
    report, locked = json.loads(result.out), lock.read(tmp_path / "my-project")
    assert locked.options.features == ("export_model", "lora", "mfu", "qlora", "scorers")
    assert "\nbitsandbytes==" in (tmp_path / "my-project" / "requirements.lock").read_text(encoding="utf-8")
    assert (report["path"], report["written"]) == (str(tmp_path / "my-project"), True)
    assert (report["options"]["verl"], report["source"]["kind"]) == (releases.find_default(), "wheel")
    vendored = [path for path in report["files"] if path.startswith("toy/vendored/") and path.endswith(".py")]
    assert "toy/vendored/algorithms/core_algos.py" in vendored
    files, lines = report["sizes"]["vendored"]
    assert files <= len(vendored)
    assert lines > 0


@pytest.mark.usefixtures("verl")
def test_all_features_that_the_engine_has(run, tmp_path: Path) -> None:
    """But for those that have to be named."""
    run("new", tmp_path / "toy", "--with", "all", "--without", "plots", code=0)
    made = lock.read(tmp_path / "toy").options.features
    offered = {item.name for item in releases.load(releases.find_default()).features}
    environments = {name for name in offered if name.startswith("env_")}
    assert offered - {*made} == {"code_scorers", "plots"} | environments


WRONG = (
    (["--engine", "vlm"], "no engine 'vlm'", "did you mean `vllm`?"),
    (["--algorithm", "grop"], "no algorithm 'grop'", "did you mean `grpo`?"),
    (["--algorithm", "GRPO"], "no algorithm 'GRPO'", "did you mean `grpo`?"),
    (["--verl", "v0.9.1"], "verl v0.9.1 is not supported", "did you mean 0.9.1?"),
    (["--verl", "0.9"], "verl 0.9 is not supported", "did you mean 0.9.1?"),
    (["--with", "critc"], "no feature 'critc'", "did you mean `critic`?"),
    (["--with", "sequence_parallel"], "'sequence_parallel' here: it changes", "leave sequence_parallel out"),
    (["--with", "tools", "--verl", "0.7.1"], "verl 0.7.1 has no feature 'tools' here", "`--verl 0.9.1` has it"),
    (["--agent", "a:b", "--verl", "0.8.0"], "verl 0.8.0 has no feature 'agents' here", "`--verl 0.9.1` has it"),
    (["--without", "critc"], "no feature 'critc'", "did you mean `critic`?"),
    (["--with", "lora", "--without", "lora"], "contradict", "drop one"),
    (["--with", "qlora", "--without", "lora"], "feature qlora needs it", "`--without qlora` as well"),
    (["--algorithm", "ppo", "--without", "critic"], "algorithm ppo needs it", "choose another --algorithm"),
    (["--verl", "0.1.0"], "verl 0.1.0 is not supported", "did you mean "),
    (["--verl", "latest"], "verl latest is not supported", "supported: "),
    (["--package", "torch"], "--package: 'torch' cannot be", "pass --package my_torch"),
)


def test_wrong_options(run, tmp_path: Path) -> None:
    for arguments, message, hint in WRONG:
        result = run("new", tmp_path / "toy", *arguments, code=2)
        assert message in result.err
        assert f"hint: {hint}" in result.err
    for name in ("class", "2fast", "torch", "json-", "caf\u00e9", "---"):  # what names no package
        assert "hint: pass --package " in run("new", tmp_path / name, code=2).err
    assert os.listdir(tmp_path) == []
    with pytest.raises(UsageError, match=r"verl 0\.8\.0 has no feature 'agents' here: ") as caught:
        choose_options(Options("toy", "0.8.0"), UpgradeRequest(added=("agents",)))
    assert caught.value.hint.startswith("`vextract upgrade --to 0.9.1` has it")


def test_no_source(run, empty_cache, monkeypatch, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for arguments, message in (
        (["--from", "nothing.whl", "--verl", "0.6.1"], "no such file"),
        (["--from", "nothing.whl"], "no such file"),
        (["--from", "."], "not a source of verl"),
        (["--offline"], "is not in the cache"),
    ):
        result = run("new", "toy", *arguments, code=3)
        assert message in result.err
        assert "hint: " in result.err
    assert os.listdir(work) == []


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


def test_where_no_project_may_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "full/.git").mkdir(parents=True)
    (tmp_path / "file").write_text("")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / lock.NAME).write_text("")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "full", r"not empty \(it has \.git\)")
    refused(tmp_path / "file", "exists and is no directory")
    assert "vextract sync" in refused(tmp_path / "project", "already a vextract project")
    refused(tmp_path / "project/sub/toy", "inside another vextract project")
    for place in ("file/toy", "file/b/c/toy"):
        refused(tmp_path / place, f"{tmp_path / 'file'} is no directory")
    with monkeypatch.context() as patched:
        patched.setattr("os.access", lambda path, mode: False)
        refused(tmp_path / "toy", "is not writable")
    with monkeypatch.context() as patched:
        patched.setattr("os.path.ismount", lambda path: True)
        refused(tmp_path / "empty", "a mount point")
    monkeypatch.chdir(tmp_path / "empty")
    assert refused(Path(), "the current directory") == "cd .. && vextract new empty"


def test_where_a_project_may_go(tmp_path: Path) -> None:
    """Links are followed, and directories that are not there are not made yet."""
    assert location.check_target(tmp_path / "a/b/toy") == tmp_path / "a/b/toy"
    assert os.listdir(tmp_path) == []
    (tmp_path / "real").mkdir()
    (tmp_path / "toy").symlink_to(tmp_path / "real")
    assert location.check_target(tmp_path / "toy") == tmp_path / "real"
    assert location.check_target(tmp_path / "real/../new") == tmp_path / "new"


DIRECTORIES = {
    **{name: name for name in ("toy", "my_project", "Experiment2")},
    "my-proj": "my_proj",
    "a.b": "a_b",
    "My Proj": "my_proj",
    "a--b": "a_b",
    ".hidden": "hidden",
}
BAD_NAMES = (
    ("my-proj", "not a Python identifier", "my_proj"),
    ("2fast", "not a Python identifier", "p2fast"),
    ("", "not a Python identifier", "myproj"),
    ("a b", "not a Python identifier", "a_b"),
    ("caf\u00e9", "not ASCII", "myproj"),
    ("class", "a keyword of Python", "my_class"),
    ("match", "a keyword of Python", "my_match"),
    ("json", "standard library", "my_json"),
    ("JSON", "standard library", "my_json"),
    ("torch", "may import", "my_torch"),
    ("verl", "may import", "my_verl"),
    ("ray", "may import", "my_ray"),
    ("tests", "of the project itself", "my_tests"),
    ("config", "of the project itself", "my_config"),
    ("custom", "of the project itself", "my_custom"),
    ("_private", "underscore", "private"),
)


def test_names_of_packages() -> None:
    for directory, package in DIRECTORIES.items():
        assert location.name_package(directory) == package
        location.check_package(package, "PATH")
    for name, problem, suggestion in BAD_NAMES:
        with pytest.raises(UsageError, match=problem) as caught:
            location.check_package(name, "PATH")
        assert caught.value.hint == f"pass --package {suggestion}"
        location.check_package(suggestion, "PATH")
