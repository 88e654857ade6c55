"""What is read of a run that is no launch script, and what is refused with the way round."""

import json
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs.reading import read_run
from extractor.values.errors import UsageError

CONFIG: dict[str, Any] = {
    "actor_rollout_ref": {"actor": {"clip_ratio": 0.2}, "model": {"path": "a/b"}},
    "data": {"train_files": ["a.parquet", "b.parquet"], "max_prompt_length": None},
    "trainer": {"n_gpus_per_node": 8, "val_only": False},
}
LAUNCH = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=/a/b.parquet"


def test_a_config_may_be_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert read_run(tmp_path / "config.json", {}, {}).resolved == CONFIG


def test_what_is_not_read_is_refused_with_the_way_round(tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text("from verl.trainer.main_ppo import run_ppo\nrun_ppo(config)\n")
    for name, text, said, hint in (
        ("a.ipynb", '{"cells": 1}', "programs and notebooks are not read", "bash script"),
        (
            "start.py",
            "from verl.trainer.main_ppo import run_ppo\nrun_ppo(c)\n",
            "programs and notebooks are not read",
            "run.yaml",
        ),
        ("grpo.py", "GRPOTrainer(model=m)\n", "read from YAML alone", "as YAML under TRL's names"),
        ("launch.json", '{"configurations": []}', "no config of verl's trainer", "--cfg job --resolve"),
        ("run.sh", "python start.py --lr 1\n", "it starts no main_ppo", "main_ppo"),
        ("log.txt", "loss: 1 (epoch 2\n", "log.txt:1: ", "--cfg job --resolve > run.yaml"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match=said) as error:
            read_run(tmp_path / name, {}, {})
        assert hint in str(error.value.hint), name
