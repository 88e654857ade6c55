"""The public names are typed: a type checker finds mistakes in a script that uses them, and nothing else."""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.project.support import PACKAGE, TOGETHER, Configuration, Maker
from tests.releases import NEWEST

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
SCRIPT = f"""
from typing import Any

from {PACKAGE} import ConfigError, LocalPPOTrainer, Step, TrainResult, load_config

def reward(data_source: str, solution_str: str, ground_truth: str, extra_info: dict[str, Any] | None = None) -> float:
    return float(solution_str == ground_truth)

def main() -> int:
    try:
        config = load_config("trainer.total_epochs=1", {{"trainer.experiment_name": "typed"}})
    except ConfigError as error:
        print(error.message, error.hint)
        return 2
    with LocalPPOTrainer(config, train_dataset=[{{"prompt": "1", "ground_truth": "2"}}], reward_fn=reward) as trainer:
        result: TrainResult = trainer.fit()
        for step in trainer.steps():
            one: Step = step
            print(one.metrics["critic/score/mean"] + 1.0, step.number + 1)
        print(trainer.generate(["1="], n=2)[0].upper(), trainer.evaluate()["val"] + 1.0)
        trainer.generate("1=", n="2")  # wrong
    print(result.last_checkpoint, result.metrics[1])
    print(result.step)  # wrong
    return 0
"""


def test_mistakes_are_found_and_nothing_else(made: Maker, tmp_path: Path) -> None:
    """As with a project that is installed: its own code is not reported on."""
    root = made(Configuration(NEWEST[-1], "hf", features=TOGETHER)).root
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    (packages,) = tmp_path.glob("venv/lib/python*/site-packages")
    (packages / "project.pth").write_text(f"{root}\n", encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    options = ["--strict", "--cache-dir", str(tmp_path / "cache"), "--config-file", ""]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--python-executable", str(tmp_path / "venv/bin/python"), str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    wrong = [number for number, line in enumerate(SCRIPT.splitlines(), 1) if line.endswith("# wrong")]
    assert [int(number) for number in re.findall(r"script\.py:(\d+): error", done.stdout)] == wrong, done.stdout
