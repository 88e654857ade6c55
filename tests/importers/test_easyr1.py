"""Runs of EasyR1's whose reward function comes along."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from extractor.importers.runs.run import Run, ScoringFunction
from extractor.importers.runs.run_reader import read_run
from tests.importers.conftest import Imported, imported, imported_from, put
from tests.project.support import forget

REWARD = """'Scores.'
from __future__ import annotations
from scores.parts import bonus

def short(reward_inputs, worth=1.0):
    return [{"overall": worth * bonus(one["response_length"]), "right": float(one["response"] == one["ground_truth"])}
            for one in reward_inputs]

def alone(reward_input):
    return {"overall": float(reward_input["response"] == "yes")}

def of_old(predict_str, ground_truth, worth=1.0):
    return 1.0 if predict_str == ground_truth else 0.0

def texts(predicts, ground_truths):
    return [{"overall": float(one == two)} for one, two in zip(predicts, ground_truths)]

def tokens(ids):
    return 1.0

def further(reward_inputs, batch_data):
    return 1.0
"""
CONFIG = """
data: {train_files: own/rows@train, val_files: own/rows@test, answer_key: answer}
algorithm: {filter_key: overall, filter_low: 0.1}
worker:
  actor: {model: {model_path: a/b}}
  reward: {reward_function: "./rewards/own.py:short", reward_function_kwargs: {worth: 0.5}}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from imported_from(tmp_path / "made", "of_easy", monkeypatch)


def script(folder: Path, words: str = "") -> Path:
    files = {
        "own.yaml": CONFIG,
        "rewards/own.py": REWARD,
        "rewards/scores/parts.py": "def bonus(length):\n    return 1.0 if length < 3 else 0.0\n",
        "run.sh": f"python3 -m verl.trainer.main config=own.yaml {words}\n",
    }
    return put(folder, files) / "run.sh"


def run_of(folder: Path, words: str = "") -> Run:
    return read_run(script(folder, words), {}, {})


def made(package: Path, run: Path) -> Imported:
    return imported(package, run, "--package", "of_easy")


def stated(run: Run) -> dict[str, Any]:
    return {item.key: item.value for item in run.overrides}


def test_a_program_of_ones_own_that_takes_its_settings(tmp_path: Path) -> None:
    path = script(tmp_path, "worker.rollout.n=3")
    usual = read_run(path, {}, {})
    path.write_text("python3 -m mine.train.main config=own.yaml worker.rollout.n=3\n")
    run = read_run(path, {}, {})
    assert run.overrides == usual.overrides
    assert [*run.notes] == [
        "line 1: mine.train.main is another trainer than EasyR1's: what only it does is not carried over"
    ]


def test_the_function_that_a_run_names_is_found(tmp_path: Path) -> None:
    run = run_of(tmp_path, "worker.reward.reward_function_kwargs='{\"worth\": 2}'")
    assert isinstance(run.scoring_function, ScoringFunction)
    assert (run.scoring_function.function, run.scoring_function.settings) == ("short", {"worth": 2})
    alone = read_run(tmp_path / "own.yaml", {}, {})  # a config alone has what its launch has
    assert isinstance(alone.scoring_function, ScoringFunction)
    assert (alone.scoring_function.function, alone.scoring_function.settings) == ("short", {"worth": 0.5})
    assert not [item for item in run.remarks if "reward" in item.key or "filter" in item.key or "answer" in item.key]
    gone = run_of(tmp_path, "worker.reward.reward_function=elsewhere/own.py:short")
    assert gone.scoring_function is None
    assert [item.what for item in gone.remarks if item.key == "worker.reward.reward_function"] == ["to do"]


def test_settings_of_the_function_may_follow_the_environment(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "worker.reward.reward_function_kwargs.worth='${oc.env:WORTH,0.25}'"
    made(package, script(tmp_path / "theirs", words))
    monkeypatch.setenv("WORTH", "3")
    manager = importlib.import_module("of_easy.custom.easyr1_reward_manager")
    assert manager.SETTINGS == {"worth": "3"}


def test_what_prompts_are_filtered_by_and_earlier_names(tmp_path: Path) -> None:
    on = "algorithm.online_filtering=true"
    metric = "algorithm.filter_groups.metric"
    assert stated(run_of(tmp_path, on))[metric] == "seq_reward"
    run = run_of(tmp_path, f"{on} algorithm.filter_key=right")
    assert stated(run)[metric] == "right"
    assert [item.what for item in run.remarks if item.key == "algorithm.filter_low"] == ["changed"]
    found = stated(run_of(tmp_path, "trainer.total_episodes=7 data.val_batch_size=-1"))
    assert (found["trainer.total_epochs"], found["data.val_batch_size"]) == (7, None)


@pytest.mark.slow
def test_the_function_scores_in_the_project(tmp_path: Path, package: Path) -> None:
    torch = pytest.importorskip("torch")
    assert "name: easyr1" in made(package, script(tmp_path / "theirs")).recipe
    texts = {(1, 2): "yes", (1, 2, 3): "no"}
    tokenizer = SimpleNamespace(batch_decode=lambda rows, **_: [texts[tuple(row)] for row in rows])
    manager = importlib.import_module("of_easy.custom.easyr1_reward_manager").EasyR1RewardManager(tokenizer)
    batch = {
        "prompts": torch.zeros(2, 1, dtype=torch.long),
        "responses": torch.tensor([[1, 2, 0], [1, 2, 3]]),
        "attention_mask": torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]),
    }
    columns: dict[str, Any] = {"data_source": ["own"] * 2, "reward_model": [{"ground_truth": "yes"}] * 2}
    data = SimpleNamespace(batch=batch, non_tensor_batch=columns, meta_info={})
    found = manager(data, return_dict=True)
    assert found["reward_tensor"].tolist() == [[0.0, 0.5, 0.0], [0.0, 0.0, 0.0]]
    assert found["reward_extra_info"]["right"] == [1.0, 0.0]


def test_a_function_of_each_form(tmp_path: Path, package: Path) -> None:
    refused = ("it asks for batch_data", "it takes neither reward_inputs")
    for name, says in (
        ("of_old", None),
        ("alone", None),
        ("texts", None),
        ("further", refused[0]),
        ("tokens", refused[1]),
    ):
        run = script(tmp_path / name, f"worker.reward.reward_function=/home/me/{name}/rewards/own.py:{name}")
        if name == "of_old":  # as EasyR1 called it before
            for file in (run, run.with_name("own.yaml")):
                file.write_text(file.read_text().replace("reward_function", "score_function"))
        project = imported(package / name, run, "--package", f"of_easy_{name}")
        assert (project.root / f"of_easy_{name}/custom/easyr1_rewards.py").exists() is (says is None), name
        said = project.read("from_run.md")
        assert {text for text in refused if text in said} == {says} - {None}
    with pytest.MonkeyPatch.context() as patch:
        for name in ("of_old", "texts"):
            patch.syspath_prepend(str(package / name))
            manager = importlib.import_module(f"of_easy_{name}.custom.easyr1_reward_manager")
            manager.SETTINGS.pop("worth") if name == "texts" else None
            assert [manager.score(text, "yes", 3)["score"] for text in ("yes", "no")] == [1.0, 0.0]
            forget(f"of_easy_{name}")


def test_a_scorer_of_the_checkout_s_own_by_its_name(tmp_path: Path) -> None:
    own = "def math_compute_score(predict_str, ground_truth):\n    return 1.0\n"
    put(tmp_path, {"verl/utils/reward_score/math.py": own})
    scored_by = run_of(tmp_path, "worker.reward.compute_score=math worker.reward.reward_function=null").scoring_function
    assert isinstance(scored_by, ScoringFunction)
    assert (scored_by.function, scored_by.text) == ("math_compute_score", own)


@pytest.mark.slow
def test_prompts_are_written_into_the_template_of_the_run(tmp_path: Path, package: Path) -> None:
    pytest.importorskip("torch")
    words = "data.format_prompt=./own.jinja data.answer_key=result data.prompt_key=problem"
    run = script(tmp_path / "theirs", f"{words} +data.system_prompt='Be brief.'")
    put(tmp_path / "theirs", {"own.jinja": "\n{{ content | trim }} Think first.\n"})
    project = made(package, run)
    report = project.read("from_run.md")
    assert "EasyR1Prompts" in report
    assert not [key for key in ("answer_key", "system_prompt") if key in report]
    assert "path: of_easy/custom/easyr1_dataset.py" in project.recipe
    first = '{"problem": " 1 + 1? ", "result": 2}\n'
    second = '{"problem": [{"role": "user", "content": "x"}], "answer": 3}\n'
    rows = put(tmp_path, {"rows.jsonl": first + second}) / "rows.jsonl"
    prompts = importlib.import_module("of_easy.custom.easyr1_dataset").EasyR1Prompts
    plain = SimpleNamespace(prompt_key="problem", data_files=[str(rows)], config={"prompt_key": "problem"})
    plain._written = lambda row: prompts._written(plain, row)
    one, other = prompts.rows(plain)
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1? Think first."}]
    assert (one["problem"], one["reward_model"]["ground_truth"]) == (said, "2")
    assert other["problem"] == [{"role": "user", "content": "x"}]
