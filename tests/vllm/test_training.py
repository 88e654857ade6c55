"""Projects of engine vllm, with the real vLLM in the trainer's own process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import environment, overrides, python, train
from tests.project.support import Configuration, make
from tests.releases import LAST_WITH_ENGINES_IN_PROCESS, NEWEST, OF_BOTH_KINDS, newest_release

pytestmark = [pytest.mark.slow, pytest.mark.vllm]


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A project of each release, made once."""
    pytest.importorskip("vllm")
    known: dict[str, Path] = {}

    def project(release: str) -> Path:
        if release not in known:
            root = tmp_path_factory.mktemp("vllm") / release
            known[release] = make(Configuration(release, "vllm"), root).root
        return known[release]

    return project


def metrics(root: Path) -> list[dict[str, Any]]:
    (file,) = root.glob("checkpoints/*/*/metrics.jsonl")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("release", newest_release(LAST_WITH_ENGINES_IN_PROCESS, engine="vllm"))
def test_the_engine_agrees_with_transformers_after_every_update(projects: Callable[[str], Path], release: str) -> None:
    """The project's own tests of its rollout: greedy tokens and log-probabilities, tied and untied, and failures."""
    pytest.importorskip("vllm")
    done = python(projects(release), "-m", "pytest", "-x", "tests/test_rollout.py")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "10 passed" in done.stdout


@pytest.mark.parametrize("release", newest_release(engine="vllm"))
def test_the_toy_task_is_learned(projects: Callable[[str], Path], tmp_path: Path, release: str) -> None:
    root = Path(shutil.copytree(projects(release), tmp_path / "project"))
    done = python(
        root,
        "main.py",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "trainer.total_training_steps=40",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.logger=[console]",
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = metrics(root)
    first, last = (sum(row["critic/rewards/mean"] for row in part) / 5 for part in (rows[:5], rows[-5:]))
    assert last > first + 0.3
    # What vLLM drew a token with is what the policy gives it, in every step, so every update has reached vLLM.
    assert max(row["training/rollout_probs_diff_max"] for row in rows) < 1e-4


@pytest.mark.thorough
@pytest.mark.parametrize("release", [NEWEST[-1], LAST_WITH_ENGINES_IN_PROCESS])
def test_processes_draw_different_samples(projects: Callable[[str], Path], tmp_path: Path, release: str) -> None:
    root = Path(shutil.copytree(projects(release), tmp_path / "project"))
    settings = overrides(
        f"trainer.rollout_data_dir={tmp_path / 'samples'}",
        "actor_rollout_ref.rollout.calculate_log_probs=true",
        "data.shuffle=false",
    )
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "main.py", *settings],
        cwd=root,
        env={**os.environ, **environment(root)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = metrics(root)
    assert [row["step"] for row in rows] == [1, 2]
    assert max(row["training/rollout_probs_diff_max"] for row in rows) < 1e-4
    lines = (tmp_path / "samples" / "1.jsonl").read_text(encoding="utf-8").splitlines()
    outputs = [json.loads(line)["output"] for line in lines]
    half = len(outputs) // 2
    assert outputs[:half] != outputs[half:]


@pytest.mark.thorough
@pytest.mark.parametrize("release", [NEWEST[-1], LAST_WITH_ENGINES_IN_PROCESS])
@pytest.mark.parametrize("bypass", [False, True])
def test_rollout_correction_weighs_tokens_by_what_vllm_gave_them(tmp_path: Path, release: str, bypass: bool) -> None:
    pytest.importorskip("vllm")
    configuration = Configuration(release, "vllm", features=("rollout_correction",))
    root = make(configuration, tmp_path / "project").root
    by_token = "token" if release == LAST_WITH_ENGINES_IN_PROCESS else "token_k1"
    done = python(
        root,
        "main.py",
        *overrides(
            "actor_rollout_ref.rollout.calculate_log_probs=true",
            "actor_rollout_ref.rollout.temperature=0.8",
            f"algorithm.rollout_correction.rollout_rs={by_token}",
            "algorithm.rollout_correction.rollout_rs_threshold=2.0",
            f"algorithm.rollout_correction.bypass_mode={str(bypass).lower()}",
            "actor_rollout_ref.actor.ppo_mini_batch_size=4",
        ),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = metrics(root)
    assert [row["step"] for row in rows] == [1, 2]
    # The policy and vLLM agree, so every weight is nearly 1, and the divergence nearly 0; the temperature is in both.
    in_the_loss = bypass and release != LAST_WITH_ENGINES_IN_PROCESS
    assert abs(rows[0]["actor/rollout_corr/kl" if in_the_loss else "rollout_corr/kl"]) < 1e-4
    assert ("rollout_corr/rollout_is_mean" in rows[0]) != bypass
    assert ("timing_s/old_log_prob" in rows[0]) != bypass


@pytest.mark.parametrize("release", OF_BOTH_KINDS)
def test_a_resumed_run_is_the_run_that_was_not_interrupted(
    projects: Callable[[str], Path], tmp_path: Path, release: str
) -> None:
    """vLLM draws from the random numbers of its process, which a checkpoint holds."""
    rows = []
    for lengths in ((2,), (1, 2)):
        root = Path(shutil.copytree(projects(release), tmp_path / str(len(lengths))))
        for steps in lengths:
            found = train(root, f"trainer.total_training_steps={steps}", "trainer.save_freq=1")
        rows.append(found)
        for row in rows[-1]:
            for name in [name for name in row if name == "time" or name.startswith(("timing", "perf/"))]:
                del row[name]
    assert len(rows[0]) == 2
    assert rows[0] == rows[1]


@pytest.mark.parametrize("release", OF_BOTH_KINDS)
def test_without_vllm_the_project_says_what_to_install(
    projects: Callable[[str], Path], tmp_path: Path, release: str
) -> None:
    root = Path(shutil.copytree(projects(release), tmp_path / "project"))
    hidden = "import sys; sys.modules['vllm'] = None; from main import main; sys.exit(main(sys.argv[1:]))"
    done = python(root, "-c", hidden, *overrides())
    assert done.returncode == 2
    assert done.stderr.splitlines()[-2].startswith("error: vLLM cannot be imported")
    assert done.stderr.splitlines()[-1].startswith("hint: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("release", OF_BOTH_KINDS)
def test_a_wrong_model_path(projects: Callable[[str], Path], tmp_path: Path, release: str) -> None:
    done = python(projects(release), "main.py", f"actor_rollout_ref.model.path={tmp_path / 'nothing'}")
    assert done.returncode == 2
    assert "hint: check actor_rollout_ref.model.path" in done.stderr
    assert "Traceback" not in done.stderr
