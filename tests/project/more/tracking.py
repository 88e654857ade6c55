"""What a run leaves behind, further than a project's own tests go."""

import json
import math
import sys

import pytest
from omegaconf import OmegaConf
from test_trackers import SECRET, configured
from test_tracking import CONFIG, METRICS
from toy.output import install_command
from toy.settings import setting_checks
from toy.settings.setting_checks import missing_loggers, unknown_loggers
from toy.tracking.run_tracker import LOGGERS, TRACKER_CLASSES, RunTracker, read_rows


def test_every_start_of_a_run_is_recorded_with_its_end(tmp_path, monkeypatch):
    with RunTracker(CONFIG, tmp_path, 9) as tracker:
        tracker.log({"loss": 1.0}, 1)
    with pytest.raises(ValueError, match="boom"), RunTracker(CONFIG, tmp_path, 9, start_step=1) as tracker:
        tracker.log({"loss": 1.0}, 2)
        raise ValueError("boom\nand more")
    tracker.log({"loss": 1.0}, 3)  # closed: ignored
    assert [row["step"] for row in read_rows(tmp_path / "metrics.jsonl")] == [1, 2]
    RunTracker(CONFIG, tmp_path, 9, start_step=1)  # killed, as far as its files tell
    monkeypatch.setenv("WORLD_SIZE", "2")
    with RunTracker(CONFIG, tmp_path, 2, start_step=1) as tracker:
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


def test_only_rank_0_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with RunTracker(CONFIG, tmp_path / "run", 1) as tracker:
        tracker.log(METRICS, 1)
        tracker.log_generations([{"prompt": "1"}], 1)
        tracker.message("hello")
    assert not (tmp_path / "run").exists()


def test_loggers_are_known_and_installed(monkeypatch):
    assert list(unknown_loggers(configured("console", "file"))) == []
    assert list(unknown_loggers(OmegaConf.create({"trainer": {"logger": "console"}}))) == []
    ((text, hint),) = unknown_loggers(configured("wandbb"))
    assert "'wandbb'" in text and "wandb" in hint
    monkeypatch.setattr(setting_checks, "is_installed", lambda package: False)
    found = list(missing_loggers(configured(*LOGGERS)))
    assert [hint for _, hint in found] == [install_command(tracker.requirement) for tracker in TRACKER_CLASSES.values()]


def test_a_secret_in_the_command_is_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "main.py", f"judge.api_key={SECRET}"])
    with RunTracker(configured(), tmp_path, 1):
        pass
    assert json.loads((tmp_path / "environment.json").read_text())["starts"][0]["command"].endswith(
        "main.py 'judge.api_key=***'"
    )
    assert not [path for path in tmp_path.iterdir() if SECRET in path.read_text()]
