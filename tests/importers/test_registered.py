"""What a project chooses by name, in an export: the release has it, an adapter hands it over, or the export says no."""

import json
from pathlib import Path

import pytest

from extractor.importers.config.release import ReleaseConfig
from extractor.importers.export.rewards import ManagerInterface, VerlInterface
from tests.importers.conftest import imported, put, vextract
from tests.importers.test_easyr1 import script
from tests.releases import ALL, NEWEST, source_of

pytestmark = pytest.mark.thorough  # files of runs that people bring: test_round_trip has one of each kind

INTERFACES = {
    "0.6.0": ManagerInterface.REGISTERED,
    "0.6.1": ManagerInterface.REGISTERED,
    "0.7.0": ManagerInterface.CLASS,
    "0.7.1": ManagerInterface.LOOP,
    "0.8.0": ManagerInterface.LOOP,
    "0.9.0": ManagerInterface.LOOP,
    "0.9.1": ManagerInterface.LOOP,
}
LATER = [release for release in ALL if release in INTERFACES]
KINDS = ("0.6.1", "0.7.0", NEWEST[-1])  # one of each

MANAGER = """from ..rewards.manager import TextRewardManager

try:
    from ..vendored.workers.reward_manager.registry import register
except ImportError:
    from verl.workers.reward_manager.registry import register


@register("by_width")
class ByWidth(TextRewardManager):
    score = staticmethod(lambda data_source, solution_str, ground_truth, extra_info=None, width=1: float(width))

    def _arguments(self, data, texts):
        width = data.batch["prompts"].shape[-1]
        return [{**arguments, "width": width} for arguments in super()._arguments(data, texts)]
"""


def made(folder: Path, *options: str | Path) -> Path:
    done = vextract("new", folder / "mine", "--offline", *options)
    assert done.code == 0, done.err
    return folder / "mine"


def test_how_a_release_takes_managers() -> None:
    for release in LATER:
        interface = VerlInterface.of(ReleaseConfig.of(source_of(release)))
        assert interface.manager is INTERFACES[release]
        loops = {"gdpo", "remote"} if release != "0.7.0" else set()
        expected = loops if interface.manager is ManagerInterface.LOOP else {"batch", "prime"}
        assert interface.managers == {"naive", "dapo"} | expected, release


@pytest.mark.parametrize("release", KINDS)
def test_a_manager_under_a_name_of_its_own(release: str, tmp_path: Path) -> None:
    loading = pytest.importorskip("tests.importers.test_loading")
    project = made(tmp_path, "--verl", release)
    (project / "mine/custom/width.py").write_text(MANAGER)
    hooks = project / "mine/custom/__init__.py"
    hooks.write_text(hooks.read_text() + "from . import width  # noqa: F401\n")
    key = (
        "reward.reward_manager.name" if INTERFACES[release] is ManagerInterface.LOOP else "reward_model.reward_manager"
    )
    there = loading.under_verl(project, release, tmp_path, ("", ""), f"{key}=by_width")
    here = loading.in_project(project, tmp_path, ("", ""), f"{key}=by_width")
    assert "ProjectRewardManager" in there["rewards"].pop("manager")
    assert there["rewards"] == here["rewards"]
    assert here["rewards"]["scores"] == [3.0] * 4


@pytest.mark.parametrize("release", KINDS)
def test_a_run_of_easyr1(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loading = pytest.importorskip("tests.importers.test_loading")
    words = "data.format_prompt=./own.jinja data.answer_key=result data.prompt_key=problem"
    run = script(tmp_path / "theirs", words)
    put(tmp_path, {"theirs/own.jinja": "{{ content | trim }} Think.\n"})
    rows = put(tmp_path, {"rows.jsonl": '{"problem": "37=", "result": 48}\n' * 3}) / "rows.jsonl"
    project = made(tmp_path, "--verl", release, "--from-verl-run", run)
    monkeypatch.chdir(project)
    settings = [f"data.{split}_files={rows}" for split in ("train", "val")] + ["actor_rollout_ref.model.path=null"]
    there = loading.under_verl(project, release, tmp_path, ("", ""), *settings)
    here = loading.in_project(project, tmp_path, ("", ""), *settings)
    assert "ProjectRewardManager" in there["rewards"].pop("manager")
    assert "EasyR1Prompts" in there["prompts"].pop("class")
    assert (there["rewards"], there["prompts"]) == (here["rewards"], here["prompts"])
    assert here["rewards"]["scores"] == [0.5, 0.5, 0.5, 0.0]  # by how long they are
    assert here["prompts"]["ground_truth"] == ["48"] * 3


def test_a_run_of_another_library_sets_what_its_release_reads(tmp_path: Path) -> None:
    run = script(tmp_path / "theirs")
    for release in ALL:
        project = imported(tmp_path / release, run, "--package", "mine", "--verl", release)
        keys = project.read("mine/settings/reward_keys.py")
        key = next(line.partition('"')[2].rstrip('"') for line in keys.splitlines() if line.startswith("MANAGER ="))
        assert project.settings[key] == "easyr1", release
        assert project.settings.get("reward_manager.name", "easyr1") == "easyr1"


def test_what_a_release_has_not(tmp_path: Path) -> None:
    for release, key, name, said in (
        ("0.9.1", "reward.reward_manager.name", "nobody", "it has dapo, gdpo, naive, remote"),
        ("0.5.0", "reward_model.reward_manager", "naive", "vextract upgrade --to 0.6.0; then export that"),
        ("0.9.1", "reward.reward_manager.name", "prime", "reward.reward_manager.name=naive"),
        ("0.6.1", "reward_model.reward_manager", "prime", "reward_model.reward_manager=prime"),
    ):
        project = made(tmp_path / f"{release}-{name}", "--verl", release, "--with", "reward_managers")
        (project / "mine/custom/width.py").write_text(MANAGER)
        done = vextract("export", project, "-o", project.parent / "out", "--json", "--set", f"{key}={name}")
        assert done.code == (0 if name == "prime" else 2), done.err
        assert said in done.out + done.err


def test_both_names_of_0_7_0_say_the_same(tmp_path: Path) -> None:
    project = made(tmp_path, "--verl", "0.7.0", "--with", "reward_managers")
    words = ("--set", "reward_model.reward_manager=dapo")
    done = vextract("export", project, "-o", tmp_path / "out", "--json", *words)
    found = [item for item in json.loads(done.out)["overrides"] if "manager" in item]
    assert found == ["reward_manager.name=dapo", "reward_model.reward_manager=dapo"]
