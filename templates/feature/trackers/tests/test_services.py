# vextract:template - edit freely
"""What each tracker elsewhere gets, read back. Those whose package is not installed are left out."""

import json
import math
import sys

import pytest
from omegaconf import OmegaConf

from __package__.tracking import several
from __package__.tracking.run_tracker import TRACKER_CLASSES, RunTracker
from __package__.tracking.several import Trackers

SECRET = "not-to-be-seen"
SAMPLE = {"prompt": "37=", "response": "4|8`\n\ud800é", "ground_truth": "48", "score": 1.0, "data_source": "a"}
REWARDS = {1: 0.25, 2: 0.5, 3: 0.75, 4: 1.0}


def configured(*loggers):
    trainer = {"logger": list(loggers), "project_name": "proj", "experiment_name": "exp"}
    judge = {"api_key": SECRET, "url": f"http://me:{SECRET}@host/v1", "max_token_len": 12}
    return OmegaConf.create({"trainer": trainer, "judge": judge, "optim": {"lr": 0.001, "betas": [0.9, 0.999]}})


@pytest.fixture
def track(tmp_path, monkeypatch):
    """A function that records three steps, resumes after the second, and records two; returns the run's directory."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("SWANLAB_MODE", "offline")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["main.py", f"judge.api_key={SECRET}"])
    monkeypatch.setattr(sys, "orig_argv", ["python", "main.py", f"judge.api_key={SECRET}"])

    def record(name):
        pytest.importorskip(TRACKER_CLASSES[name].package)
        for start, steps in ((0, (1, 2, 3)), (2, (3, 4))):
            with RunTracker(configured(name), tmp_path / "run", 4, start_step=start) as tracker:
                for step in steps:
                    split = "train" if start else "validation"
                    tracker.log_generations([{**SAMPLE, "split": split}], step)
                    metrics = {"critic/rewards/mean": REWARDS[step], "val-core/a/acc/mean@1": 0.5}
                    tracker.log({**metrics, "actor/grad_norm": math.nan}, step)
        leaks = [str(path) for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
        assert leaks == []
        return tmp_path / "run"

    return record


def identifier(run, name):
    return json.loads((run / "trackers.json").read_text())[name]


def test_mlflow(track):
    run = track("mlflow")
    import mlflow

    client = mlflow.tracking.MlflowClient()
    experiment = client.get_experiment_by_name("proj").experiment_id
    (found,) = client.search_runs([experiment])
    assert found.info.run_id == identifier(run, "mlflow")
    assert (found.info.run_name, found.info.status) == ("exp", "FINISHED")
    history = client.get_metric_history(found.info.run_id, "critic/rewards/mean")
    assert {metric.step: metric.value for metric in history} == REWARDS
    assert found.data.metrics["val-core/a/acc/mean_at_1"] == 0.5
    assert found.data.params["optim.lr"] == "0.001"
    table = client.load_table(experiment, "val/generations.json", run_ids=[found.info.run_id])
    assert list(table["step"]) == [1, 2, 3]
    assert list(table["prompt"]) == ["37="] * 3
    assert mlflow.artifacts.load_dict(f"runs:/{found.info.run_id}/config.json")["optim"]["betas"] == [0.9, 0.999]


def test_trackio(track):
    run = track("trackio")
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    (found,) = trackio.Api().runs("proj")
    assert found.name == identifier(run, "trackio")
    assert found.config["optim"] == {"lr": 0.001, "betas": [0.9, 0.999]}
    logs = SQLiteStorage.get_logs("proj", found.name)
    assert {row["step"]: row["critic/rewards/mean"] for row in logs if "critic/rewards/mean" in row} == REWARDS
    (first, *_) = [row["val/generations"] for row in logs if "val/generations" in row]
    assert first["_value"][0]["prompt"] == "37="


def test_wandb(track):
    run = track("wandb")
    # An offline run is one file per start, in wandb's own format; its tables are files of JSON beside it.
    files = sorted(run.glob("wandb/offline-run-*/*.wandb"))
    assert {path.stem for path in files} == {f"run-{identifier(run, 'wandb')}"}
    assert len(files) == 2
    assert all(b"critic/rewards/mean" in path.read_bytes() and b"optim" in path.read_bytes() for path in files)
    tables = [json.loads(path.read_text()) for path in sorted(run.glob("wandb/*/files/media/table/val/*.json"))]
    assert sorted(len(table["data"]) for table in tables) == [1, 2, 3]
    assert all(table["data"][0][:2] == [1, "37="] for table in tables)


def test_wandb_asks_nobody_who_is_not_logged_in(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr(wandb, "init", lambda **_: pytest.fail("it would ask"))
    wandb.teardown()  # what it remembers of earlier tests
    said = []
    Trackers(["wandb"], {}, tmp_path, 0, said.append)
    assert "WANDB_MODE=offline" in said[0] and "wandb login" in said[0]


def test_swanlab(track):
    run = track("swanlab")
    files = sorted(run.glob("run-*/*.swanlab"))
    assert {path.stem for path in files} == {f"run-{identifier(run, 'swanlab')}"}
    assert all(b"critic/rewards/mean" in path.read_bytes() for path in files)
    texts = [path.read_text() for path in run.glob("run-*/media/text/*.txt")]
    assert len(texts) == 5
    assert all(text.startswith("37=") for text in texts)
    assert all("optim" in path.read_text() for path in run.glob("run-*/files/config.yaml"))


class Broken:
    """A tracker whose network is down after the first step."""

    package, requirement = "json", "json"

    def __init__(self, config, directory, start_step):
        self.calls = []

    def log(self, metrics, step):
        self.calls.append(step)
        if step > 1:
            raise OSError("no route\nto host")

    def samples(self, name, rows, step):
        self.calls.append(name)

    def close(self, outcome):
        raise OSError(outcome)


def test_a_tracker_that_fails_is_named_once_and_rests(tmp_path, monkeypatch):
    said: list[str] = []
    all_of_them = Trackers({"broken": Broken}, {}, tmp_path, 0, said.append)
    for step in (1, 2, 3):
        all_of_them.log({"a": 1.0}, step)
        all_of_them.samples("val/generations", [SAMPLE], step)
    (broken,) = all_of_them._open.values()
    assert broken.calls == [1, "val/generations", 2]
    monkeypatch.setattr(several.time, "monotonic", lambda: math.inf)  # the rest is over
    all_of_them.log({"a": 1.0}, 4)
    assert broken.calls[-1] == 4
    all_of_them.close("finished")
    assert said == ["broken does not take what is logged, and the run goes on: OSError: no route to host"]


def test_a_tracker_that_cannot_begin_ends_no_run(tmp_path, capsys):
    pytest.importorskip("tensorboard")
    (tmp_path / "tensorboard").write_text("not a directory")
    with RunTracker(configured("console", "tensorboard"), tmp_path, 1) as tracker:
        tracker.log({"critic/rewards/mean": 1.0}, 1)
    out = capsys.readouterr().out
    assert out.count("tensorboard does not take what is logged") == 1
    assert "step 1/1  reward 1.000" in out
