"""What is read of a run that is no launch script, and what is refused with the way round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from extractor.importers.runs.reading import read_run
from extractor.values.errors import UsageError

CONFIG: dict[str, Any] = {
    "actor_rollout_ref": {"actor": {"clip_ratio": 0.2}, "model": {"path": "a/b"}},
    "data": {"train_files": ["a.parquet", "b.parquet"], "max_prompt_length": None},
    "trainer": {"n_gpus_per_node": 8, "val_only": False},
}
LAUNCH = "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=/a/b.parquet"


def test_a_config_may_be_json_or_what_wandb_keeps(tmp_path: Path) -> None:
    run = tmp_path / "wandb/run-20250403_025642-wmqmvslz"
    (run / "files").mkdir(parents=True)
    wrapped = {key: {"desc": None, "value": value} for key, value in CONFIG.items()}
    (run / "files/config.yaml").write_text(yaml.safe_dump({"_wandb": {"value": {}}, **wrapped}))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for path in (run, run / "files/config.yaml", tmp_path / "config.json"):
        assert read_run(path, {}, {}).resolved == CONFIG, path


@pytest.mark.parametrize(
    "text",
    [
        f"import subprocess\nsubprocess.run({LAUNCH.split()!r}, check=True)\n",
        f"import os\n\nif __name__ == '__main__':\n    os.system({LAUNCH!r})\n",
        f'command = """set -x\\n{LAUNCH}"""\nrun(command)\n',
    ],
)
def test_a_program_may_have_the_command_as_a_literal(text: str, tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text(text)
    found = {item.key: item.value for item in read_run(tmp_path / "start.py", {}, {}).overrides}
    assert found == {"algorithm.adv_estimator": "grpo", "data.train_files": "/a/b.parquet"}


@pytest.mark.parametrize("cell", [f"!PYTHONUNBUFFERED=1 {LAUNCH}", f"%%bash\n{LAUNCH}\n", f"x = 1\n!{LAUNCH}\ny = 2\n"])
def test_a_notebook_may_have_the_command(cell: str, tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": text} for text in ("!pip install verl\nimport torch\n", [cell], "y = 3")]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    assert {item.key for item in read_run(tmp_path / "a.ipynb", {}, {}).overrides} == {
        "algorithm.adv_estimator",
        "data.train_files",
    }


def test_what_is_not_read_is_refused_with_the_way_round(tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text("from verl.trainer.main_ppo import run_ppo\nrun_ppo(config)\n")
    for name, text, said, hint in (
        ("a.ipynb", '{"cells": 1}', "no notebook", "a script of it"),
        (
            "start.py",
            "from verl.trainer.main_ppo import run_ppo\nrun_ppo(c)\n",
            "it starts no trainer of verl",
            "run.yaml",
        ),
        ("bad.py", "x = (\n", "no Python", "launch script"),
        ("launch.json", '{"configurations": []}', "no config of verl's trainer", "--cfg job --resolve"),
        ("run.sh", "python start.py --lr 1\n", "it starts no main_ppo", "main_ppo"),
        ("log.txt", "loss: 1 (epoch 2\n", "log.txt:1: ", "--cfg job --resolve > run.yaml"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match=said) as error:
            read_run(tmp_path / name, {}, {})
        assert hint in str(error.value.hint), name


def test_what_a_program_sets_in_python_is_named(tmp_path: Path) -> None:
    (tmp_path / "main_ppo.py").write_text("def main(config):\n    config.trainer.total_epochs *= 2\n    run(config)\n")
    (tmp_path / "run.sh").write_text("python main_ppo.py actor_rollout_ref.actor.optim.lr=1 trainer.total_epochs=1\n")
    notes = read_run(tmp_path / "run.sh", {}, {}).notes
    assert any("main_ppo.py:2: it sets trainer.total_epochs in Python, which is not carried" in note for note in notes)
