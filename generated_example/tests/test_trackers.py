# vextract:template base/tests/test_trackers.py.jinja - edit freely
"""What TensorBoard gets, read back; secrets."""

import json
import math
import sys

import pytest
from omegaconf import OmegaConf

from generated_example.output import install_command
from generated_example.tracking import trackers
from generated_example.tracking.provenance import argument_without_secret, without_secrets
from generated_example.tracking.run_tracker import RunTracker, read_starts
from generated_example.tracking.tensorboard import markdown
from generated_example.tracking.trackers import LOGGERS, TRACKER_CLASSES, missing_loggers, unknown_loggers

SECRET = "not-to-be-seen"
SAMPLE = {"prompt": "37=", "response": "4|8`\n\ud800é", "ground_truth": "48", "score": 1.0, "data_source": "a"}
REWARDS = {1: 0.25, 2: 0.5, 3: 0.75, 4: 1.0}


def configured(*loggers):
    trainer = {"logger": list(loggers), "project_name": "proj", "experiment_name": "exp"}
    judge = {"api_key": SECRET, "url": f"http://me:{SECRET}@host/v1", "max_token_len": 12}
    return OmegaConf.create({"trainer": trainer, "judge": judge, "optim": {"lr": 0.001, "betas": [0.9, 0.999]}})


def test_a_finished_run_that_is_evaluated_has_one_line_for_its_last_step(tmp_path):
    for start, metrics in ((0, {"loss": 1.0}), (2, {"val/acc": 0.5}), (2, {"val/acc": 0.75})):
        with RunTracker(configured("console"), tmp_path, 2, start_step=start) as tracker:
            for step in (2,) if start else (1, 2):
                tracker.log(metrics, step)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [{**row, "time": 0} for row in rows] == [
        {"step": 1, "time": 0, "loss": 1.0},
        {"step": 2, "time": 0, "loss": 1.0, "val/acc": 0.75},
    ]


def test_tensorboard(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for start, steps in ((0, (1, 2, 3)), (2, (3, 4))):
        with RunTracker(configured("tensorboard"), tmp_path, 4, start_step=start) as tracker:
            for step in steps:
                tracker.log_generations([{**SAMPLE, "split": "train" if start else "validation"}], step)
                tracker.log({"critic/rewards/mean": REWARDS[step], "actor/grad_norm": math.nan}, step)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    events = loader.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    rewards = [(event.step, event.value) for event in events.Scalars("critic/rewards/mean")]
    assert rewards == list(REWARDS.items())
    (sample,) = events.Tensors("val/generations")[:1]
    assert sample.tensor_proto.string_val[0].decode() == markdown([SAMPLE], 1)
    assert [event.step for event in events.Tensors("train/generations")] == [3, 4]
    assert events.PluginTagToContent("text").keys() == {"val/generations", "train/generations"}


def test_loggers_are_known_and_installed(monkeypatch):
    assert list(unknown_loggers(configured("console", "file"))) == []
    assert list(unknown_loggers(OmegaConf.create({"trainer": {"logger": "console"}}))) == []
    ((text, hint),) = unknown_loggers(configured("wandbb"))
    assert "'wandbb'" in text and "wandb" in hint
    monkeypatch.setattr(trackers, "is_installed", lambda package: False)
    found = list(missing_loggers(configured(*LOGGERS)))
    assert [hint for _, hint in found] == [install_command(tracker.requirement) for tracker in TRACKER_CLASSES.values()]


def test_secrets_are_hidden_and_nothing_else():
    hidden = dict.fromkeys(("api_key", "WANDB_API_KEY", "hf_token", "token", "password", "client_secret"), "x")
    shown = {"max_token_len": 12, "eos_token": "</s>", "pad_token": "x", "reward_fn_key": "data_source", "token": None}
    assert set(without_secrets(hidden).values()) == {"***"}
    assert without_secrets(shown) == shown
    assert without_secrets({"a": ["http://me:x@host/y"]}) == {"a": ["http://***@host/y"]}
    assert argument_without_secret("+judge.api_key=x") == "+judge.api_key=***"
    assert argument_without_secret("data.prompt_key=prompt") == "data.prompt_key=prompt"


def test_a_secret_in_the_command_is_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "orig_argv", ["python", "main.py", f"judge.api_key={SECRET}"])
    with RunTracker(configured(), tmp_path, 1):
        pass
    assert read_starts(tmp_path / "environment.json")[0]["command"].endswith("main.py 'judge.api_key=***'")
    assert not [path for path in tmp_path.iterdir() if SECRET in path.read_text()]
