"""What a run leaves behind, further than a project's own tests go."""

import json
import math

import pytest
from omegaconf import OmegaConf
from toy.tracking.run_tracker import RunTracker, read_rows

CONFIG = OmegaConf.create({"trainer": {"logger": ["console"], "project_name": "p", "experiment_name": "e"}})
METRICS = {"critic/rewards/mean": 0.25, "actor/entropy": 1.5, "timing_s/gen": 0.02, "perf/throughput": 12345.0}


def test_every_start_of_a_run_is_recorded_with_its_end(tmp_path):
    with RunTracker(CONFIG, tmp_path, 9) as tracker:
        tracker.log({"loss": 1.0}, 1)
    with pytest.raises(ValueError, match="boom"), RunTracker(CONFIG, tmp_path, 9, start_step=1) as tracker:
        raise ValueError("boom\nand more")
    RunTracker(CONFIG, tmp_path, 9, start_step=1)  # killed, as far as its files tell
    with RunTracker(CONFIG, tmp_path, 2, start_step=1, processes=2) as tracker:
        tracker.log({"loss": 0.5}, 2)
    starts = json.loads((tmp_path / "environment.json").read_text())["starts"]
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
