"""Programs that start verl's trainer, with what Python needs to run them up to it: what they hand it is the judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml

from extractor.importers.runs.run import Run

# What a program sees of verl, Hydra's config of it and Ray: enough to run it up to its trainer.
BASE = {
    "data": {"train_files": "rows.parquet", "max_prompt_length": 512, "seed": None},
    "actor_rollout_ref": {
        "actor": {"optim": {"lr": 1e-6}, "clip_ratio": 0.2},
        "rollout": {"n": 1},
        "model": {"path": "m"},
    },
    "algorithm": {"adv_estimator": "gae", "gamma": 1.0},
    "trainer": {"logger": ["console"], "total_epochs": 30, "project_name": "p"},
}
STUBS = {
    "ray.py": """
        class _Remote:
            def __init__(self, made): self.made = made
            def remote(self, *given, **named): return _instance(self.made(*given, **named))
            def options(self, **named): return self
            def __call__(self, *given, **named): return self.made(*given, **named)
        class _instance:
            def __init__(self, value): self.value = value
            def __getattr__(self, name): return _Remote(getattr(self.value, name))
        def remote(*given, **named): return _Remote(given[0]) if given else _Remote
        def get(found): return getattr(found, "value", found)
        def init(**named): pass
        def is_initialized(): return False
        """,
    "verl/__init__.py": "",
    "verl/trainer/__init__.py": "",
    "verl/trainer/config/__init__.py": "",
    "verl/trainer/main_ppo.py": """
        import json, os
        from omegaconf import OmegaConf
        def run_ppo(config, task_runner_class=None):
            config = config if isinstance(config, dict) else OmegaConf.to_container(config, resolve=False)
            with open(os.environ["HANDED"], "w") as file: json.dump(config, file)
        class TaskRunner:
            def run(self, config): run_ppo(config)
        def main(config): run_ppo(config)
        """,
    "verl/trainer/ppo/__init__.py": "",
    "verl/trainer/ppo/ray_trainer.py": """
        from verl.trainer.main_ppo import run_ppo
        class RayPPOTrainer:
            def __init__(self, config, **named): run_ppo(config)
            def init_workers(self): pass
            def fit(self): pass
        """,
}
OWN = {"actor_rollout_ref": {"rollout": {"n": 8}}, "data": {"train_files": "mine.parquet"}, "own": {"depth": 2}}


def project(folder: Path, text: str) -> Path:
    """Write a program, its config, and beside them what it imports."""
    for name, content in {**STUBS, "start.py": text}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(content))
    (folder / "verl/trainer/config/ppo_trainer.yaml").write_text(yaml.safe_dump(BASE))
    (folder / "own.yaml").write_text(yaml.safe_dump(OWN))
    (folder / ".git").mkdir()
    return folder / "start.py"


def handed(program: Path, *words: str) -> dict[str, Any]:
    """Run a program; return the config that it hands to the trainer."""
    said = program.parent / "handed.json"
    environment = {**os.environ, "HANDED": str(said), "PYTHONPATH": str(program.parent)}
    subprocess.run([sys.executable, program, *words], cwd=program.parent, env=environment, check=True, timeout=60)
    found: dict[str, Any] = json.loads(said.read_text())
    return found


def flat(config: Any, above: str = "") -> dict[str, Any]:
    if not isinstance(config, dict):
        return {above: config}
    return {
        key: item for name, value in config.items() for key, item in flat(value, f"{above}.{name}".lstrip(".")).items()
    }


def stated(run: Run) -> dict[str, Any]:
    return {item.key: item.value for item in run.overrides}
