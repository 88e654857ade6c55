"""Settings that follow others stay so."""

from pathlib import Path

from extractor.importers.runs.imported_project import keep_references
from tests.importers.conftest import imported, put

KEYS = ["data.max_response_length", "actor_rollout_ref.rollout.response_length", "trainer.total_epochs"]
PROJECT = dict.fromkeys(KEYS, 1)


def test_what_follows_in_the_project_is_not_written() -> None:
    settings = {"data.max_response_length": 1024, "actor_rollout_ref.rollout.response_length": 1024}
    written, expected = keep_references(settings, {"data.max_response_length": 1024}, PROJECT, [KEYS[1]], {})
    assert written == {"data.max_response_length": 1024}
    assert expected == {"actor_rollout_ref.rollout.response_length": 1024}


def test_what_the_run_says_itself_is_written_as_it_says_it() -> None:
    settings = {KEYS[1]: 2048, KEYS[2]: 3}
    stated = {KEYS[1]: "${data.max_response_length}", KEYS[2]: "${of.nothing.here}"}
    written, expected = keep_references(settings, stated, PROJECT, [KEYS[1]], {})
    assert written == {KEYS[1]: "${data.max_response_length}", KEYS[2]: 3}
    assert expected == {KEYS[1]: 2048}
    assert keep_references(settings, settings, PROJECT, [KEYS[1]], {}) == (settings, {})


def test_what_a_setting_follows_is_as_the_run_has_it() -> None:
    stated = {"trainer.default_local_dir": "out/${trainer.project_name}"}
    settings = {"trainer.default_local_dir": "out/verl_examples"}
    project = {"trainer.default_local_dir": "out", "trainer.project_name": "toy"}
    wanted = {**settings, "trainer.project_name": "verl_examples"}
    written, expected = keep_references(settings, stated, project, [], wanted)
    assert written == {**stated, "trainer.project_name": "verl_examples"}
    assert expected == settings


def test_what_the_sizes_of_a_toy_model_change_back_follows_as_before(tmp_path: Path) -> None:
    run = put(tmp_path, {"run.sh": "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo\n"}) / "run.sh"
    written = imported(tmp_path / "made", run, "--run-verl", "0.4.1").recipe
    assert "max_prompt_length: 512" in written
    assert " prompt_length" not in written
    assert " response_length" not in written
