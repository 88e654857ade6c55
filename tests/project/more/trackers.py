"""Trackers that are unknown or not installed; secrets."""

import json
import sys

from omegaconf import OmegaConf
from toy.output import install_command
from toy.settings import setting_checks
from toy.settings.setting_checks import missing_loggers, unknown_loggers
from toy.tracking.run_tracker import LOGGERS, TRACKER_CLASSES, RunTracker

SECRET = "not-to-be-seen"


def configured(*loggers):
    trainer = {"logger": list(loggers), "project_name": "proj", "experiment_name": "exp"}
    judge = {"api_key": SECRET, "url": f"http://me:{SECRET}@host/v1", "max_token_len": 12}
    return OmegaConf.create({"trainer": trainer, "judge": judge, "optim": {"lr": 0.001, "betas": [0.9, 0.999]}})


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
