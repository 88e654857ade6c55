"""A project from before some of its parts were features keeps those that its owner uses."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from extractor.project import lock
from extractor.usecases.upgrade.former_features import FormerFeatures, find_former_features
from extractor.values import releases
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
    assert f"left out as unused (`vextract add export_model` brings one back): {gone}" in result.out
    assert plots.read_text().endswith("\nMINE = 1\n")
    assert (root / PACKAGE / "rewards/sandboxing/judge.py").exists()
    assert not (root / PACKAGE / "run/verl_shards.py").exists()
    assert run("upgrade", root).out.startswith("up to date")


def found_in(root: Path, added: dict[str, bytes]) -> Callable[[str, str], FormerFeatures]:
    """Look at what a file of the owner's uses, in a project whose files once held more."""
    found = lock.read(root)
    emitted = {file.path: (root / file.path).read_bytes() for file in found.files}
    for path, code in added.items():
        emitted[f"{PACKAGE}/{path}"] += code
        (root / PACKAGE / path).write_bytes(emitted[f"{PACKAGE}/{path}"])

    def find(name: str, text: str) -> FormerFeatures:
        (root / name).write_text(text)
        return find_former_features(root, found, emitted, found.options, releases.load(found.options.verl))

    return find


SETTINGS = {
    "training/rollouts.py": b"reward_keys.IN_BACKGROUND\n",
    "training/trainer.py": b"self.config.local.log_train_generations\n",
}
STOOD_IN = {
    "data/datasets.py": b"def load_class",
    "run/checkpoint_files.py": b"def digest_of",
    "shims/device.py": b"def always_the_same",
    "training/checkpoint.py": b"BEST = 1",
    "training/failures.py": b"class DivergenceCheck",
}
USES = {
    "dataset_classes": "python main.py data.custom_cls.path=mine.py data.custom_cls.name=Mine",
    "early_stopping": "print(trainer.fit().best_checkpoint)",
    "export_model": "python main.py local.check_digests=false",
    "provenance": "python main.py actor_rollout_ref.actor.fsdp_config.full_determinism=true",
    "watch": "except DivergenceError as error:",
}


@pytest.mark.slow
def test_settings_and_uses_bring_their_feature(verl: None, tmp_path: Path) -> None:
    """Settings that became a feature's, and what every project had."""
    root = make(Configuration(NEWEST[-1]), tmp_path / "project").root
    twin = Path(shutil.copytree(root, tmp_path / "twin"))
    find = found_in(root, SETTINGS)
    assert find("config/mine.yaml", "trainer: {save_freq: 1}\n") == FormerFeatures({}, ("overlap", "reward_logs"))
    used = {"overlap": "config/mine.yaml", "reward_logs": "config/mine.yaml"}
    text = "local: {log_train_generations: 2, reward: {in_background: true}}\n"
    assert find("config/mine.yaml", text) == FormerFeatures(used, ())
    find = found_in(twin, STOOD_IN)
    for name, text in USES.items():
        assert find("mine.py", f"{text}\n") == FormerFeatures({name: "mine.py"}, tuple(sorted(USES.keys() - {name})))
