"""A run of verl goes on in a project, and a project's under verl: by the checkpoint managers of verl's own releases."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.importers.conftest import vextract
from tests.importers.test_loading import REPOSITORY, unpacked
from tests.releases import LAST_WITH_DP_ACTOR, NEWEST, source_of


def test_a_checkpoint_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "global_step_40" / "actor").mkdir(parents=True)
    result = vextract("new", tmp_path / "proj", "--from-verl-run", tmp_path / "global_step_40")
    assert result.code == 2
    assert "local.checkpoint.begin_from=" in result.err


def torchrun(*words: str | Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "TORCH_COMPILE_DISABLE": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "tests.importers.checkpoints_under_verl", *map(str, words)]
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if "cannot import name 'AutoModelForVision2Seq'" in done.stderr:
        pytest.skip("this release's own modules need transformers 4")
    assert done.returncode == 0, done.stderr[-4000:]


def train(project: Path, *settings: str) -> Path:
    """Train a project on one process; returns the run's directory."""
    directory = project / "run"
    sizes = ["data.train_batch_size=4", "actor_rollout_ref.rollout.n=2", "data.max_response_length=8"]
    sizes += ["actor_rollout_ref.actor.ppo_mini_batch_size=4", "trainer.save_freq=1", "trainer.logger=[console]"]
    words = [sys.executable, "main.py", f"trainer.default_local_dir={directory}", *sizes, *settings]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_COMPILE_DISABLE": "1"}
    done = subprocess.run(words, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return directory


def in_project(checkpoint: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The weights by name, and the optimizer's state in the order of the weights."""
    import torch
    from safetensors.torch import load_file

    file = next((checkpoint / "actor").glob("*model.safetensors"))
    state = torch.load(checkpoint / "actor" / "optimizer.pt", weights_only=True)
    return load_file(file), [state["optimizer"]["state"][index] for index in sorted(state["optimizer"]["state"])]


@pytest.fixture(scope="module")
def there(verl: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A project, and a toy model."""
    project = tmp_path_factory.mktemp("project") / "proj"
    assert vextract("new", project, "--with", "verl_checkpoints").code == 0
    run = train(project, "trainer.total_training_steps=1")
    return project, next(run.glob("toy_model_*"))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(("strategy", "release"), [("fsdp", LAST_WITH_DP_ACTOR), ("fsdp2", NEWEST[1])])
def test_verls_own_manager_and_a_project_read_each_other(
    there: tuple[Path, Path], tmp_path: Path, release: str, strategy: str
) -> None:
    import torch

    project, model = there
    root = unpacked(source_of(release), tmp_path / "verl")
    saved = tmp_path / "theirs" / "global_step_3"
    torchrun(root, "save", strategy, model, saved, tmp_path / "theirs.pt")
    settings = [f"actor_rollout_ref.model.path={model}", "trainer.total_training_steps=4"]
    begun = train(project, "trainer.resume_mode=resume_path", f"trainer.resume_from_path={saved}", *settings)
    theirs = torch.load(tmp_path / "theirs.pt", weights_only=False)
    weights, states = in_project(begun / "global_step_3")
    names = list(theirs["weights"])
    assert set(names) == set(weights)
    assert all(torch.equal(theirs["weights"][name], weights[name]) for name in names)
    assert len(states) == len(names)
    if strategy == "fsdp":  # each of the same steps on the same rows: what FSDP2 has for each weight by itself
        torchrun(root, "save", "fsdp2", model, tmp_path / "other/global_step_3", tmp_path / "other.pt")
        other = torch.load(tmp_path / "other.pt", weights_only=False)["states"]
        for name, state in zip(names, states, strict=True):
            assert all(torch.allclose(value, state[key], atol=1e-7) for key, value in other[name].items())
        return
    for name, state in zip(names, states, strict=True):
        assert all(torch.equal(value, state[key]) for key, value in theirs["states"][name].items())
    words = [sys.executable, "-m", "proj.to_verl", begun / "global_step_4", tmp_path / "ours", "--processes", "2"]
    subprocess.run([*map(str, words), "--device", "cpu"], cwd=project, check=True, capture_output=True)
    torchrun(root, "load", "fsdp2", model, tmp_path / "ours/global_step_4", tmp_path / "ours.pt")
    read = torch.load(tmp_path / "ours.pt", weights_only=False)
    weights, states = in_project(begun / "global_step_4")
    assert read["steps"] == 4
    assert all(torch.equal(value, read["weights"][name]) for name, value in weights.items())
    for name, state in zip(read["states"], states, strict=True):
        assert all(torch.equal(value, read["states"][name][key]) for key, value in state.items())
    assert any(not torch.equal(value, read["next"][name]) for name, value in weights.items())  # it trains on
