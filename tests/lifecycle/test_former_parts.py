"""A project from before some of its parts were features keeps those that its owner uses."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from extractor.project import lock
from tests.cli.conftest import Result
from tests.project.support import PACKAGE, Configuration, make
from tests.releases import NEWEST

Run = Callable[..., Result]
PARTS = (
    "given_objects",
    "hub",
    "parts",
    "plots",
    "reward_forms",
    "sandbox",
    "short_names",
    "sweep",
    "verl_checkpoints",
)


@pytest.mark.slow
def test_features_that_are_used_stay_and_others_go(verl: None, run: Run, tmp_path: Path) -> None:
    root = make(Configuration(NEWEST[-1], features=PARTS), tmp_path / "project").root
    found = lock.read(root)
    (root / lock.NAME).write_bytes(lock.dump(replace(found, options=replace(found.options, features=()))))
    hook = root / PACKAGE / "custom/reward_manager.py"
    hook.write_text(hook.read_text() + "\n\ndef judge(text):\n    from ..rewards.verified_code import score_code\n")
    (root / "runs.sh").write_text("python main.py --multirun algorithm.adv_estimator=grpo,rloo\n")
    (root / "script.py").write_text("from toy import LocalRollouts, load_config\n")
    plots = root / PACKAGE / "tracking/plots.py"
    plots.write_text(plots.read_text() + "\nMINE = 1\n")

    result = run("upgrade", root)
    assert result.code == 0, result.err
    assert lock.read(root).options.features == ("given_objects", "parts", "plots", "sandbox", "sweep")
    assert "sandbox (toy/custom/reward_manager.py), sweep (runs.sh)" in result.out
    gone = "export_model, hub, reward_forms, short_names, verl_checkpoints"
    assert f"left out (`vextract add export_model` brings it back): {gone}" in result.out
    assert plots.read_text().endswith("\nMINE = 1\n")
    assert (root / PACKAGE / "rewards/sandboxing/judge.py").exists()
    assert not (root / PACKAGE / "run/verl_shards.py").exists()
    assert run("upgrade", root).out.startswith("up to date")
