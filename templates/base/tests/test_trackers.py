# vextract:template - edit freely
"""What TensorBoard gets, read back; secrets."""

import math

import pytest
from omegaconf import OmegaConf

from __package__.tracking.run_tracker import RunTracker
from __package__.tracking.secrets import without_secrets

SECRET = "not-to-be-seen"
REWARDS = {1: 0.25, 2: 0.5, 3: 0.75, 4: 1.0}


def configured(*loggers):
    trainer = {"logger": list(loggers), "project_name": "proj", "experiment_name": "exp"}
    judge = {"api_key": SECRET, "url": f"http://me:{SECRET}@host/v1", "max_token_len": 12}
    return OmegaConf.create({"trainer": trainer, "judge": judge, "optim": {"lr": 0.001, "betas": [0.9, 0.999]}})


def test_tensorboard(tmp_path):
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for start, steps in ((0, (1, 2, 3)), (2, (3, 4))):
        with RunTracker(configured("tensorboard"), tmp_path, 4, start_step=start) as tracker:
            for step in steps:
                tracker.log({"critic/rewards/mean": REWARDS[step], "actor/grad_norm": math.nan}, step)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    events = loader.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    rewards = [(event.step, event.value) for event in events.Scalars("critic/rewards/mean")]
    assert rewards == list(REWARDS.items())


def test_secrets_are_hidden_and_nothing_else():
    hidden = dict.fromkeys(("api_key", "WANDB_API_KEY", "hf_token", "token", "password", "client_secret"), "x")
    shown = {"max_token_len": 12, "eos_token": "</s>", "pad_token": "x", "reward_fn_key": "data_source", "token": None}
    assert set(without_secrets(hidden).values()) == {"***"}
    assert without_secrets(shown) == shown
    assert without_secrets({"a": ["http://me:x@host/y"]}) == {"a": ["http://***@host/y"]}
