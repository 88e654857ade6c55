"""What is read of a run that is no launch script, and what is refused with the way round."""

import json
from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs.run_reader import read_run
from extractor.values.errors import UsageError
from tests.importers.conftest import put, vextract

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
        ("grpo.py", "GRPOTrainer(model=m)\n", program, "of TRL's trainer, its settings as YAML"),
        ("launch.json", '{"configurations": []}', "no config of verl's trainer", "--cfg job --resolve"),
        ("run.sh", "python start.py --lr 1\n", "it starts no main_ppo", "main_ppo"),
        ("log.txt", "loss: 1 (epoch 2\n", "log.txt:1: ", "--cfg job --resolve > run.yaml"),
    ):
        with pytest.raises(UsageError, match=said) as error:
            read_run(put(tmp_path, {name: text}) / name, {}, {})
        assert hint in str(error.value.hint), name


LAUNCH = "python -m verl.trainer.main_ppo algorithm.adv_estimator=grpo"
NEITHER = "no supported release of verl has this key, and it changes learning"
UNLEARNT = {
    **{
        f"python3 {program} algorithm.adv_estimator=rloo": (
            "run.sh:1: verl's recipe for PRIME is not read",
            "`vextract new myproj --algorithm prime` makes a project for it",
        )
        for program in ("-m recipe.prime.main_prime", "recipe/prime/main_prime.py")
    },
    f"{LAUNCH} reward_model.rm_type=prime reward_model.rm_coef=7": (f"rm_type=prime: {NEITHER}", ""),
    f"{LAUNCH} actor_rollout_ref.actor.tis_imp_ratio_cap=2": (f"tis_imp_ratio_cap=2: {NEITHER}", "say in its place"),
    f"{LAUNCH} algorithm.rollout_is=true algorithm.rollout_is_threshold=2.0": (
        f"rollout_is_threshold=2.0: {NEITHER}",
        "say in its place",
    ),
}


def test_what_changes_what_is_learned_is_refused_with_the_way_round(tmp_path: Path) -> None:
    for launch, (said, hint) in UNLEARNT.items():
        script = put(tmp_path, {"run.sh": f"{launch}\n"}) / "run.sh"
        refused = vextract("new", tmp_path / "own", "--from-verl-run", script, "--keep-unknown")
        assert (refused.code, said in refused.err, hint in refused.err) == (2, True, True), refused.err
        assert ("say in its place" in refused.err) is hint.startswith("say")
