"""Runs of forks whose own loop plays turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.importers.runs.multiturn_fork_keys import with_verls_names
from extractor.importers.runs.reading import read_run
from tests.importers.conftest import vextract

PLAIN = "actor_rollout_ref.rollout.multi_turn"


def overrides(folder: Path, words: str, config: str | None = None) -> dict[str, object]:
    """What verl is told, of a launch in a checkout with such a config."""
    if config is not None:
        (folder / "verl/trainer/config").mkdir(parents=True)
        (folder / "verl/trainer/config/ppo_trainer.yaml").write_text(config)
        (folder / "verl/trainer/main_ppo.py").write_text("")
    (folder / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b {words}\n")
    read = read_run(folder / "run.sh", {}, {}, started_in=folder)
    run = with_verls_names(read)
    left, told = ({item.key for item in items} for items in (run.overrides, run.remarks))
    assert {item.key for item in read.overrides} <= left | told, "nothing that is said goes without a word"
    return {item.key.removeprefix("actor_rollout_ref.rollout."): item.value for item in run.overrides[1:]}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (  # as Search-R1 has it: one more turn answers, and the lengths are of a turn
            "max_turns=2 actor_rollout_ref.rollout.n_agent=5 data.max_start_length=20 data.max_prompt_length=90 "
            "data.max_response_length=30 data.shuffle_train_dataloader=False algorithm.no_think_rl=false",
            {
                "n": 5,
                "multi_turn.enable": True,
                "multi_turn.max_assistant_turns": 3,
                "data.max_prompt_length": 20,
                "data.max_response_length": 90,
                "data.shuffle": False,
            },
        ),
        ("max_turns=2 do_search=false actor_rollout_ref.rollout.n_agent=5", {"n": 5}),
        ("actor_rollout_ref.rollout.n_agent=1 actor_rollout_ref.rollout.n=4", {"n": 4}),
        ("+actor_rollout_ref.agent.enable_agent=False +actor_rollout_ref.agent.max_turns=3", {}),
        ("+actor_rollout_ref.agent.max_turns=3", {"multi_turn.enable": True, "multi_turn.max_assistant_turns": 4}),
        ("+actor_rollout_ref.rollout.agent.max_turns=3", {}),
        (
            "+actor_rollout_ref.rollout.agent.activate_agent=True +actor_rollout_ref.rollout.agent.max_turns=3",
            {"multi_turn.enable": True, "multi_turn.max_assistant_turns": 3},
        ),
        ("actor_rollout_ref.rollout.n=3", {"n": 3}),
    ],
)
def test_what_verl_calls_it(tmp_path: Path, words: str, found: dict[str, object]) -> None:
    assert overrides(tmp_path, words) == found


def test_what_only_the_config_of_the_checkout_says(tmp_path: Path) -> None:
    config = "actor_rollout_ref: {rollout: {n: 1, n_agent: 1}}\nmax_turns: 10\ndo_search: true\n"
    found = overrides(tmp_path, "actor_rollout_ref.rollout.n_agent=4", config)
    assert found == {"n": 4, "multi_turn.enable": True, "multi_turn.max_assistant_turns": 11}


@pytest.mark.usefixtures("verl")
def test_a_project_of_such_a_run_waits_for_its_environment(tmp_path: Path) -> None:
    words = "max_turns=2 actor_rollout_ref.rollout.n_agent=5 data.max_start_length=20 data.max_prompt_length=90"
    words += " data.max_response_length=30"
    (tmp_path / "run.sh").write_text(
        f"python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=a/b algorithm.adv_estimator=grpo {words}\n"
    )
    done = vextract("new", tmp_path / "mine", "--from-verl-run", tmp_path / "run.sh", "--offline")
    assert done.code == 0, done.err
    text = (tmp_path / "mine/config/recipe/verl_run.yaml").read_text()
    for line in (
        "enable: true",
        "max_assistant_turns: 3",
        "n: 5",
        "max_prompt_length: 20",
        "max_response_length: 90",
        "max_turn_tokens: 30",
    ):
        assert line in text
    report = (tmp_path / "mine/from_run.md").read_text()
    assert "custom/env_wrapper.py has a toy environment in their place" in report
    assert "| `actor_rollout_ref.rollout.n_agent` | `5` | as many responses to each prompt" in report


@pytest.mark.parametrize(("said", "told"), [("enable: false", [False]), ("enable: true", []), ("format: x", [])])
def test_a_loop_of_ones_own_says_so_of_verls_that_is_off(tmp_path: Path, said: str, told: list[bool]) -> None:
    config = f"actor_rollout_ref: {{rollout: {{multi_turn: {{{said}}}}}}}\nmax_turns: 9\n"
    overrides(tmp_path, "data.seed=1", config)
    run = with_verls_names(read_run(tmp_path / "run.sh", {}, {}, started_in=tmp_path))
    assert [item.value for item in run.remarks if item.key == f"{PLAIN}.enable"] == told
