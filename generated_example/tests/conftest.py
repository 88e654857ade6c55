# vextract:template base/tests/conftest.py - edit freely
"""What the tests share: the toy model, made once, and a batch of prompts that have been answered."""

import os

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # the tests are about arithmetic, not about a GPU
os.environ.setdefault("TORCH_COMPILE_DISABLE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import copy
import functools
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_settings import engine_settings  # noqa: F401  a fixture: what the rollout engine needs here
from omegaconf import DictConfig, OmegaConf
from transformers import AutoTokenizer

from generated_example.custom.env_dataset import environment_rows
from generated_example.data.toy import ensure_toy_model
from generated_example.settings import loading
from generated_example.settings.flags import ConfigFiles
from generated_example.vendored.protocol import DataProto

PACKAGE = "generated_example"
CONFIG_DIRECTORY = Path(__file__).resolve().parents[1] / "config"
torch.set_num_threads(1)


class Alone:
    """One process without peers, as `run.distributed.Ranks` is, which a program can have only once."""

    rank, world_size, watch = 0, 1, None

    def on_driver(self, function):
        return function()

    def together(self, function):
        return function()


@pytest.fixture(scope="session", autouse=True)
def composed_once() -> Iterator[None]:
    """Compose the project's config once for the same choices: that takes longer than a step of the toy model."""
    compose, found = loading._compose, {}

    def remembered(files: ConfigFiles, overrides: Any) -> DictConfig:
        if files != ConfigFiles(CONFIG_DIRECTORY):
            return compose(files, overrides)
        key = tuple(overrides)
        if key not in found:
            found[key] = compose(files, overrides)
        return copy.deepcopy(found[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "_compose", remembered)
        yield


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy model in a directory of its own."""
    return ensure_toy_model(tmp_path_factory.mktemp("model") / "toy")


@pytest.fixture(scope="session")
def tokenizer(model_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(model_path)


@pytest.fixture
def data_config(tmp_path: Path) -> DictConfig:
    """A config with the keys that datasets and reward managers read, and no others."""
    made = OmegaConf.create(
        {
            "data": {
                "train_files": None,
                "val_files": None,
                "cache_dir": str(tmp_path / "cache"),
                "max_prompt_length": 12,
                "reward_fn_key": "data_source",
                "filter_overlong_prompts": False,
                "truncation": "error",
                "env": {"task": "succ2", "val_size": 20, "seed": 0},
            },
            "reward_model": {"reward_manager": "env", "sandbox_fusion": {"url": None}},
        }
    )
    return made


@pytest.fixture
def answered(tokenizer: Any, data_config: DictConfig) -> Any:
    """A function from questions and answers to a batch as the rollout leaves it.

    Prompts are padded on the left to 12 tokens, responses end with the end-of-sequence token and are padded on the
    right to 4.
    """

    def make(questions: list[str], answers: list[str], truths: list[str]) -> DataProto:
        prompts = tokenizer(
            [
                tokenizer.apply_chat_template(
                    [{"role": "user", "content": question}], add_generation_prompt=True, tokenize=False
                )
                for question in questions
            ],
            padding="max_length",
            max_length=12,
            padding_side="left",
            add_special_tokens=False,
            return_tensors="pt",
        )
        responses = tokenizer(
            [f"{answer}{tokenizer.eos_token}" for answer in answers],
            padding="max_length",
            max_length=4,
            padding_side="right",
            add_special_tokens=False,
            return_tensors="pt",
        )
        mask = torch.cat([prompts["attention_mask"], responses["attention_mask"]], dim=-1)
        return DataProto.from_single_dict(
            {
                "prompts": prompts["input_ids"],
                "responses": responses["input_ids"],
                "input_ids": torch.cat([prompts["input_ids"], responses["input_ids"]], dim=-1),
                "attention_mask": mask,
                "response_mask": responses["attention_mask"],
                "position_ids": (mask.cumsum(dim=-1) - 1).clamp(min=0),
                "data_source": object_array(["toy_succ2"] * len(truths)),
                "reward_model": object_array([{"style": "rule", "ground_truth": truth} for truth in truths]),
                "extra_info": object_array([{"index": index} for index in range(len(truths))]),
            }
        )

    return make


@pytest.fixture
def train(tmp_path: Path, engine_settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: F811
    """A function that trains as `python main.py ...` does, for one step of 4 prompts and 4 responses to each.

    It takes overrides of the config, the expected exit code, and the run's directory (a new one by default), which it
    returns.
    """
    from main import main

    runs = itertools.count()

    def run(*overrides: str, code: int = 0, directory: Path | None = None) -> Path:
        directory = directory or tmp_path / f"run_{next(runs)}"
        sizes = (
            "data.train_batch_size=4",
            "actor_rollout_ref.rollout.n=4",
            "actor_rollout_ref.actor.ppo_mini_batch_size=4",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
            "trainer.total_training_steps=1",
            "trainer.val_before_train=false",
            "trainer.test_freq=-1",
            "trainer.logger=[console]",
            "local.save_last=false",
        )
        settings = (*sizes, *room_for_the_environment(), *engine_settings(overrides), *overrides)
        chosen = {override.split("=")[0]: override for override in settings}
        sys.modules.pop("custom_module", None)  # under which verl keeps the first reward function of a process
        assert main([*chosen.values(), f"trainer.default_local_dir={directory}"]) == code
        return directory

    return run


@functools.cache
def room_for_the_environment() -> tuple[str, ...]:
    """Settings for prompts that the toy's sizes are too small for: those of an environment of one's own."""
    rows = [row for split in ("train", "val") for row in environment_rows(split, {})]
    longest = max(sum(len(message["content"]) for message in row["prompt"]) for row in rows)
    if rows[0]["ability"] != "environment" or longest <= 4:
        return ()
    return f"data.max_prompt_length={longest + 8}", "data.env.task=text"


def object_array(values: list[Any]) -> Any:
    """A numpy array of objects, as the columns of a batch that are not tensors."""
    import numpy as np

    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
