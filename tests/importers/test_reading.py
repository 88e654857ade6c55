"""What is read of a run that is no launch script, and what is refused with the way round."""

import json
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs.reading import read_run
from extractor.values.errors import UsageError
from tests.importers.conftest import put

CONFIG: dict[str, Any] = {
    "actor_rollout_ref": {"actor": {"clip_ratio": 0.2}, "model": {"path": "a/b"}},
    "data": {"train_files": ["a.parquet", "b.parquet"], "max_prompt_length": None},
    "trainer": {"n_gpus_per_node": 8, "val_only": False},
}


def test_a_config_may_be_json(tmp_path: Path) -> None:
    file = put(tmp_path, {"config.json": json.dumps(CONFIG)}) / "config.json"
    assert read_run(file, {}, {}).resolved == CONFIG


def test_what_is_not_read_is_refused_with_the_way_round(tmp_path: Path) -> None:
    started, program = "from verl.trainer.main_ppo import run_ppo\nrun_ppo(c)\n", "programs and notebooks are not read"
    for name, text, said, hint in (
        ("a.ipynb", '{"cells": 1}', program, "bash script"),
        ("start.py", started, program, "run.yaml"),
        ("nothing.py", "print(1)\n", program, ""),
        ("grpo.py", "GRPOTrainer(model=m)\n", "read from YAML alone", "as YAML under TRL's names"),
        ("launch.json", '{"configurations": []}', "no config of verl's trainer", "--cfg job --resolve"),
        ("run.sh", "python start.py --lr 1\n", "it starts no main_ppo", "main_ppo"),
        ("log.txt", "loss: 1 (epoch 2\n", "log.txt:1: ", "--cfg job --resolve > run.yaml"),
    ):
        with pytest.raises(UsageError, match=said) as error:
            read_run(put(tmp_path, {name: text}) / name, {}, {})
        assert hint in str(error.value.hint), name
