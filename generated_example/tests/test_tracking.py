# vextract:template base/tests/test_tracking.py.jinja - edit freely
"""What a run leaves behind, also when it is resumed or killed."""

import json
import math

import pytest
from omegaconf import OmegaConf

from generated_example.tracking.run_tracker import RunTracker, read_rows, read_starts

CONFIG = OmegaConf.create({"trainer": {"logger": ["console"], "project_name": "p", "experiment_name": "e"}})
METRICS = {"critic/rewards/mean": 0.25, "actor/entropy": 1.5, "timing_s/gen": 0.02, "perf/throughput": 12345.0}


def test_metrics_and_generations_are_files_of_one_object_a_line(tmp_path, capsys):
    with RunTracker(CONFIG, tmp_path, total_steps=2) as tracker:
        for step in (1, 2):
            tracker.log_generations([{"prompt": "37=", "response": "48", "score": 1.0}], step)
            tracker.log({**METRICS, "actor/grad_norm": math.nan}, step)
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    assert rows[0]["critic/rewards/mean"] == 0.25 and rows[0]["actor/grad_norm"] is None
    assert read_rows(tmp_path / "generations.jsonl")[1] == {"step": 2, "prompt": "37=", "response": "48", "score": 1.0}
    out = capsys.readouterr().out
    assert "step 1/2  reward 0.250  entropy 1.500  tokens/s 12.3k  (gen 20 ms)" in out


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path):
    with RunTracker(CONFIG, tmp_path, 9) as tracker:
        for step in range(1, 6):
            tracker.log({"critic/rewards/mean": 0.0}, step)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "critic/rew')  # killed while writing
    with RunTracker(CONFIG, tmp_path, 9, start_step=3) as tracker:
        tracker.log({"critic/rewards/mean": 1.0}, 4)
    values = [(row["step"], row["critic/rewards/mean"]) for row in read_rows(tmp_path / "metrics.jsonl")]
    assert values == [(1, 0.0), (2, 0.0), (3, 0.0), (4, 1.0)]


def test_a_step_that_was_saved_and_not_logged_is_logged_once(tmp_path):
    with RunTracker(CONFIG, tmp_path, 9) as tracker:
        for step in range(1, 4):
            tracker.log({"critic/rewards/mean": 0.0}, step)
    for _ in range(2):  # killed twice, between the checkpoint of step 4 and its row, and after that
        with RunTracker(CONFIG, tmp_path, 9, start_step=4) as tracker:
            tracker.log_missing({"critic/rewards/mean": 1.0}, 4)
    values = [(row["step"], row["critic/rewards/mean"]) for row in read_rows(tmp_path / "metrics.jsonl")]
    assert values == [(1, 0.0), (2, 0.0), (3, 0.0), (4, 1.0)]


def test_a_new_run_in_an_old_directory_keeps_the_old_files(tmp_path):
    for value in (1.0, 2.0, 3.0):
        with RunTracker(OmegaConf.merge(CONFIG, {"value": value}), tmp_path, 1) as tracker:
            tracker.log({"critic/rewards/mean": value}, 1)
    values = {path.name: read_rows(path)[0]["critic/rewards/mean"] for path in tmp_path.glob("metrics*.jsonl")}
    assert values == {"metrics.1.jsonl": 1.0, "metrics.2.jsonl": 2.0, "metrics.jsonl": 3.0}
    assert {path.name: OmegaConf.load(path).value for path in tmp_path.glob("config*.yaml")} == {
        "config.1.yaml": 1.0,
        "config.2.yaml": 2.0,
        "config.yaml": 3.0,
    }


def test_every_start_of_a_run_is_recorded_with_its_end(tmp_path):
    with RunTracker(CONFIG, tmp_path, 9) as tracker:
        tracker.log({"loss": 1.0}, 1)
    with pytest.raises(ValueError, match="boom"), RunTracker(CONFIG, tmp_path, 9, start_step=1) as tracker:
        raise ValueError("boom\nand more")
    unended = RunTracker(CONFIG, tmp_path, 9, start_step=1)  # killed, as far as its files tell
    with RunTracker(CONFIG, tmp_path, 2, start_step=1, processes=2) as tracker:
        tracker.log({"loss": 0.5}, 2)
    starts = read_starts(tmp_path / "environment.json")
    ends = [start.get("end", {}) for start in starts]
    assert [end.get("outcome") for end in ends] == ["stopped", "failed", None, "finished"]
    assert [(start["step"], start["total_steps"], start["processes"]) for start in starts] == [
        (0, 9, 1),
        (1, 9, 1),
        (1, 9, 1),
        (1, 2, 2),
    ]
    assert ends[1]["error"] == "ValueError: boom" and ends[3]["step"] == 2
    assert starts[0]["project"]["verl"] and starts[0]["packages"]["torch"] and starts[0]["device"]
    unended.close()


def test_what_models_write_comes_back_as_it_was(tmp_path):
    odd = "a\u2028b\x85c\x0bd\r\n</script> é 🦙 \ud800"
    with RunTracker(CONFIG, tmp_path, 1) as tracker:
        tracker.log_generations([{"response": odd, "score": math.nan, "components": {"acc": math.inf}}], 1)
    with (tmp_path / "generations.jsonl").open("ab") as file:
        file.write('{"step": 2, "response": "é'.encode()[:-1])  # killed within a character
    rows = read_rows(tmp_path / "generations.jsonl")
    assert rows == [{"step": 1, "response": odd, "score": None, "components": {"acc": None}}]


def test_an_exception_still_closes(tmp_path):
    with pytest.raises(KeyboardInterrupt), RunTracker(CONFIG, tmp_path, 9) as tracker:
        tracker.log(METRICS, 1)
        tracker.log(METRICS, 2)
        raise KeyboardInterrupt
    assert [row["step"] for row in read_rows(tmp_path / "metrics.jsonl")] == [1, 2]
    tracker.log(METRICS, 3)  # closed: ignored
    assert len(read_rows(tmp_path / "metrics.jsonl")) == 2


def test_only_rank_0_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with RunTracker(CONFIG, tmp_path / "run", 1) as tracker:
        tracker.log(METRICS, 1)
        tracker.log_generations([{"prompt": "1"}], 1)
        tracker.message("hello")
    assert not (tmp_path / "run").exists()


def test_rows_are_valid_json(tmp_path):
    with RunTracker(CONFIG, tmp_path, 1) as tracker:
        tracker.log({"loss": math.inf}, 1)
    line = (tmp_path / "metrics.jsonl").read_text()
    row = json.loads(line, parse_constant=pytest.fail)
    assert (row["step"], row["loss"]) == (1, None) and row["time"] > 1.7e9
