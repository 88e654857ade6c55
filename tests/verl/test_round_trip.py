"""`vextract export` and `new --from-verl-run`: there and back, key for key; and what bad input gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extractor.export.project import load, read_files
from tests.releases import ALL
from tests.verl.conftest import vextract

pytest.importorskip("tree_sitter_bash")

OTHERS = [pytest.param(release, marks=() if release == "0.6.1" else pytest.mark.thorough) for release in ALL]


def settings(project: Path) -> dict[str, Any]:
    return dict(load(read_files(project)).flat)


@pytest.mark.parametrize("recipe", ["toy", "gsm8k", "reasoning", "multiturn"])
@pytest.mark.parametrize("release", OTHERS)
def test_there_and_back(projects: dict[str, Path], recipe: str, release: str, tmp_path: Path) -> None:
    out, back = tmp_path / "out", tmp_path / "back"
    assert vextract("export", projects[recipe], "--verl", release, "-o", out).code == 0
    result = vextract("new", back, "--verl", "0.6.1", "--from-verl-run", out / "run.sh", "--json")
    assert result.code == 0, result.err
    assert settings(back) == settings(projects[recipe])
    for hook in sorted((projects[recipe] / recipe / "custom").glob("*.py")):
        assert (back / "back/custom" / hook.name).read_bytes() == hook.read_bytes()
        assert (out / recipe / "custom" / hook.name).read_bytes() == hook.read_bytes()
    assert vextract("status", back, "--check").code in (0, 1)


def test_a_changed_experiment_comes_back(projects: dict[str, Path], tmp_path: Path) -> None:
    out, back = tmp_path / "out", tmp_path / "back"
    changes = (
        "actor_rollout_ref.actor.optim.lr=3e-7",
        "data.train_batch_size=96",
        "algorithm.kl_ctrl.kl_coef=0.02",
        "algorithm.adv_estimator=rloo",
        'actor_rollout_ref.model.path="/models/a b/it\'s"',
        "data.train_files=[/d/a.parquet,/d/b.parquet]",
        "data.val_files=/d/v.parquet",
        "local.seed=7",
    )
    arguments = [item for change in changes for item in ("--set", change)]
    assert vextract("export", projects["toy"], "-o", out, *arguments).code == 0
    assert vextract("new", back, "--verl", "0.6.1", "--from-verl-run", out / "run.sh").code == 0
    made = settings(back)
    assert made["actor_rollout_ref.actor.optim.lr"] == 3e-7
    assert made["data.train_batch_size"] == 96
    assert made["algorithm.kl_ctrl.kl_coef"] == 0.02
    assert made["algorithm.adv_estimator"] == "rloo"
    assert made["actor_rollout_ref.model.path"] == "/models/a b/it's"
    assert made["data.train_files"] == ["/d/a.parquet", "/d/b.parquet"]
    assert made["local.seed"] == 7


def test_edits_to_vendored_files_become_a_patch(tmp_path: Path) -> None:
    project, out = tmp_path / "p", tmp_path / "out"
    assert vextract("new", project, "--verl", "0.6.1").code == 0
    edited = project / "p/training/core_algos.py"
    text = edited.read_text()
    edited.write_text(text.replace("def agg_loss(", "EDITED = 1\n\n\ndef agg_loss(", 1))
    result = vextract("export", project, "-o", out, "--json")
    (edit,) = result.json["edits"]
    assert edit["upstream_path"] == "verl/trainer/ppo/core_algos.py"
    assert edit["applies"]
    patch = (out / "upstream.patch").read_text()
    assert patch.startswith("--- a/verl/trainer/ppo/core_algos.py\n+++ b/verl/trainer/ppo/core_algos.py\n")
    assert "+EDITED = 1" in patch
    assert "core_algos.py" in (out / "UPSTREAM.md").read_text()


RUN = "python -m verl.trainer.main_ppo"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("empty.sh", "", "empty"),
        ("other.sh", "echo hello\n", "it starts no main_ppo"),
        ("sft.sh", "torchrun -m verl.trainer.fsdp_sft_trainer a=1\n", "another program of verl's"),
        ("unknown.sh", f"{RUN} data.trian_batch_size=4\n", "did you mean data.train_batch_size?"),
        ("bad.sh", f"{RUN} 'data.train_files=[a'\n", "Hydra cannot read the value"),
        ("variable.sh", f"{RUN} actor_rollout_ref.model.path=$MODEL_PATH\n", "$MODEL_PATH"),
        ("config.sh", f"{RUN} --config-path=conf --config-name=mine\n", "mine.yaml is not here"),
        ("list.yaml", "a: 1\n", "no config of verl's trainer"),
        ("broken.yaml", "a: [\n", "not valid YAML"),
    ],
)
def test_bad_input(tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    result = vextract("new", tmp_path / "p", "--verl", "0.6.1", "--from-verl-run", file)
    assert result.code == 2
    assert said in result.err
    assert "hint:" in result.err
    assert not (tmp_path / "p").exists()


def test_a_missing_file(tmp_path: Path) -> None:
    result = vextract("new", tmp_path / "p", "--verl", "0.6.1", "--from-verl-run", tmp_path / "nowhere.sh")
    assert result.code == 2
    assert "no such file" in result.err


def test_a_run_on_many_machines_is_lowered(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(
        "ray start --head\n"
        "NNODES=4\n"
        f"{RUN} --config-name=ppo_megatron_trainer \\\n"
        "  algorithm.adv_estimator=grpo data.train_files=/d/t.parquet data.val_files=/d/v.parquet \\\n"
        "  actor_rollout_ref.model.path=/m actor_rollout_ref.actor.megatron.tensor_model_parallel_size=8 \\\n"
        "  actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 actor_rollout_ref.rollout.name=vllm \\\n"
        "  actor_rollout_ref.rollout.tensor_model_parallel_size=4 trainer.nnodes=$NNODES trainer.n_gpus_per_node=8 $@\n"
    )
    result = vextract("new", tmp_path / "p", "--verl", "0.6.1", "--from-verl-run", file, "--json")
    assert result.code == 0, result.err
    remarks = {item["key"]: item["what"] for item in result.json["run"]["remarks"]}
    assert remarks["trainer.nnodes"] == "lowered"
    assert remarks["trainer.n_gpus_per_node"] == "lowered"
    assert remarks["actor_rollout_ref.rollout.tensor_model_parallel_size"] == "lowered"
    assert remarks["actor_rollout_ref.actor.megatron.tensor_model_parallel_size"] in ("lowered", "dropped")
    assert result.json["options"]["engine"] == "vllm"
    assert settings(tmp_path / "p")["actor_rollout_ref.rollout.tensor_model_parallel_size"] == 1


def test_export_refuses(projects: dict[str, Path], tmp_path: Path) -> None:
    assert vextract("export", projects["toy"], "--to", "trl").code == 2
    assert vextract("export", tmp_path).code == 2
    assert vextract("export", projects["toy"], "-o", projects["toy"] / "out").code == 2
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("x")
    assert vextract("export", projects["toy"], "-o", taken).code == 2
    assert [path.name for path in taken.iterdir()] == ["mine"]
    result = vextract("export", projects["toy"], "-o", tmp_path / "o", "--set", "data.trian_batch_size=3")
    assert result.code == 2
    assert "did you mean data.train_batch_size" in result.err
    assert not (tmp_path / "o").exists()
