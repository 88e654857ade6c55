"""What a project chooses by name, in an export: the release has it, an adapter hands it over, or the export says no."""

import json
from pathlib import Path

import pytest

from extractor.importers.config.release import ReleaseConfig
from extractor.importers.export.rewards import ManagerInterface, VerlInterface
from tests.importers.conftest import imported, make, vextract
from tests.importers.test_easyr1 import script
from tests.releases import ALL, source_of

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


def test_how_a_release_takes_managers() -> None:
    for release in LATER:
        interface = VerlInterface.of(ReleaseConfig.of(source_of(release)))
        assert interface.manager is INTERFACES[release]
        loops = {"gdpo", "remote"} if release != "0.7.0" else set()
        expected = loops if interface.manager is ManagerInterface.LOOP else {"batch", "prime"}
        assert interface.managers == {"naive", "dapo"} | expected, release


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
        project = make(tmp_path / f"{release}-{name}", release, "--with", "reward_managers")
        done = vextract("export", project, "-o", project.parent / "out", "--json", "--set", f"{key}={name}")
        assert done.code == (0 if name == "prime" else 2), done.err
        assert said in done.out + done.err


def test_both_names_of_0_7_0_say_the_same(tmp_path: Path) -> None:
    project = make(tmp_path, "0.7.0", "--with", "reward_managers")
    words = ("--set", "reward_model.reward_manager=dapo")
    done = vextract("export", project, "-o", tmp_path / "out", "--json", *words)
    found = [item for item in json.loads(done.out)["overrides"] if "manager" in item]
    assert found == ["reward_manager.name=dapo", "reward_model.reward_manager=dapo"]
