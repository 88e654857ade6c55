"""Runs of TRL: commands and YAML; settings in Python are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs.reading import read_run
from extractor.importers.runs.run import Run
from extractor.values.errors import UsageError

MODEL, ACTOR, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def translated(run: Run) -> dict[str, Any]:
    return {item.key: item.value for item in run.overrides}


def launch(folder: Path, command: str) -> Run:
    (folder / "run.sh").write_text(command)
    return read_run(folder / "run.sh", {}, {})


def to_do(run: Run) -> dict[str, str]:
    return {item.key: str(item.value) for item in run.remarks if item.what == "to do"}


def test_a_program_that_parses_its_settings_is_read_by_its_command(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("config = TrlParser(GRPOConfig).parse()\nGRPOTrainer(args=config).train()\n")
    own = "model_name_or_path: c/d\nnum_generations: 4\nlr_scheduler_type: cosine\n"
    (tmp_path / "own.yaml").write_text(f"{own}reward_funcs: [size]\n")
    for before, processes in (
        ("python", None),
        ("accelerate launch", None),
        ("accelerate launch --num_processes 4", 4),
        ("accelerate launch --config_file zero.yaml --num-processes=2", 2),
        ("torchrun --nnodes 2 --nproc_per_node 3", None),
        ("trl grpo", None),
    ):
        script = "" if before.startswith("trl") else "train.py"
        run = launch(tmp_path, f"{before} {script} --config own.yaml --learning_rate 3e-6 --beta 0.1")
        found, times = translated(run), processes or 1
        assert {f"{MODEL}.path": "c/d", f"{ROLLOUT}.n": 4, f"{ACTOR}.optim.lr": 3e-6}.items() <= found.items(), before
        assert found[f"{ACTOR}.optim.lr_scheduler_type"] == "cosine"
        assert found[f"{ACTOR}.ppo_mini_batch_size"] == 2 * times, before
        assert any("for one device" in item.why for item in run.remarks) == (processes is None), before
        assert any("changes in Python" in item.why for item in run.remarks) == bool(script), before
        assert to_do(run).keys() == {"reward_funcs"}


def test_settings_in_python_and_rloo_are_refused_with_the_way_round(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("GRPOTrainer(model='a/b', args=GRPOConfig(beta=0.1)).train()\n")
    (tmp_path / "rloo.yaml").write_text("num_generations: 4\nreward_clip_range: [-1, 1]\n")
    (tmp_path / "run.sh").write_text("trl rloo --model_name_or_path a/b")
    (tmp_path / "start.sh").write_text("accelerate launch train.py --rate 1")
    for name, said, hint in (
        ("train.py", "in Python, which is not read", "as YAML under TRL's names"),
        ("start.sh", "in Python, which is not read", "as YAML under TRL's names"),
        ("rloo.yaml", "only GRPOTrainer is read", "--algorithm rloo"),
        ("run.sh", "only GRPOTrainer is read", "--algorithm rloo"),
    ):
        with pytest.raises(UsageError, match=said) as error:
            read_run(tmp_path / name, {}, {})
        assert hint in str(error.value.hint), name


def test_a_script_that_is_not_here_leaves_its_rewards_to_do(tmp_path: Path) -> None:
    run = launch(tmp_path, "accelerate launch elsewhere.py --model_name_or_path a/b --num_generations 4")
    assert translated(run)[f"{ROLLOUT}.n"] == 4
    assert to_do(run)["reward_funcs"] == "those of elsewhere.py"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--num_generations $N", "not known without running it: .N"),
        ("--num_generations 0", "num_generations is 0, and has to be a number of at least 1"),
        ("--num_generations 4 --beta high", "beta is 'high', and has to be a number"),
        ("--num_generations 4 --per_device_train_batch_size 4 8", "per_device_train_batch_size is"),
        ("--num_generations 4 --max_steps true", "max_steps is True"),
    ],
)
def test_what_has_to_be_a_number_is_one(tmp_path: Path, flags: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        launch(tmp_path, f"accelerate launch elsewhere.py --model_name_or_path a/b {flags}")


FEW = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nnum_generations: 4\n"
LR = f"{ACTOR}.optim"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        # Four optimizer steps for one of verl's: the batch is of two mini-batches, each taken twice.
        (
            "steps_per_generation: 4\nnum_iterations: 2\nmax_steps: 10\nsave_steps: 8\nwarmup_steps: 3\n"
            "eval_strategy: steps\neval_steps: 0.5",
            {
                "data.train_batch_size": 4,
                f"{ACTOR}.ppo_mini_batch_size": 2,
                f"{ACTOR}.ppo_epochs": 2,
                "trainer.total_training_steps": 3,
                "trainer.save_freq": 2,
                "trainer.test_freq": 2,
                f"{LR}.lr_warmup_steps": 1,
            },
        ),
        ("max_steps: 10\nwarmup_steps: 3", {"trainer.total_training_steps": 10, f"{LR}.lr_warmup_steps": 3}),
        ("warmup_steps: 0.1", {f"{LR}.lr_warmup_steps_ratio": 0.1, f"{LR}.lr_warmup_steps": None}),
        ("eval_strategy: steps\neval_on_start: true", {"trainer.test_freq": 500, "trainer.val_before_train": True}),
        ("eval_steps: 5", {"trainer.test_freq": -1}),
        ("loss_type: cispo\nepsilon_high: 5.0", {f"{ACTOR}.clip_ratio_low": 1.0, f"{ACTOR}.clip_ratio_high": 4.0}),
        (
            "loss_type: sapo\nsapo_temperature_neg: 1.2",
            {f"{ACTOR}.loss_agg_mode": "seq-mean-token-mean", f"{ACTOR}.tau_neg": 1.2},
        ),
        ("entropy_coef: 0.01", {f"{ACTOR}.entropy_coeff": 0.01}),
        ("shuffle_dataset: false\nsave_total_limit: 2", {"data.shuffle": False, "trainer.max_actor_ckpt_to_keep": 2}),
        (
            "use_peft: true",
            {f"{MODEL}.lora_rank": 16, f"{MODEL}.lora_alpha": 32, f"{MODEL}.target_modules": ["q_proj", "v_proj"]},
        ),
        ("lora_r: 64", {f"{MODEL}.lora_rank": None, f"{MODEL}.lora_alpha": None}),
        ("", {"data.max_response_length": 512, f"{ACTOR}.loss_agg_mode": "token-mean", f"{ACTOR}.entropy_coeff": 0}),
    ],
)
def test_settings_mean_what_they_do_in_trl(tmp_path: Path, said: str, meant: dict[str, Any]) -> None:
    file = tmp_path / "grpo.yaml"
    file.write_text(FEW + said)
    found = translated(read_run(file, {}, {}))
    numbers = {key for key, value in meant.items() if isinstance(value, float)}
    assert {key: found[key] for key in numbers} == pytest.approx({key: meant[key] for key in numbers})
    rest = meant.keys() - numbers
    assert {key: found.get(key) for key in rest} == {key: meant[key] for key in rest}


def test_what_is_otherwise_or_left_to_a_release_is_said(tmp_path: Path) -> None:
    file = tmp_path / "grpo.yaml"
    file.write_text(FEW + "use_vllm: true\nscale_rewards: batch\nnum_train_epochs: 0.5\nbeta: 0.04\nuse_peft: true\n")
    remarks = {item.key for item in read_run(file, {}, {}).remarks if item.what == "changed"}
    assert {
        "vllm_importance_sampling_correction",
        "scale_rewards",
        "num_train_epochs",
        "loss_type",
        "max_completion_length",
    } <= remarks
    file.write_text(FEW + "use_vllm: true\nvllm_importance_sampling_correction: false\nsave_strategy: epoch\n")
    remarks = {item.key for item in read_run(file, {}, {}).remarks}
    assert "vllm_importance_sampling_correction" not in remarks
    assert "save_strategy" in remarks
    file.write_text(FEW + "own_share: 0\nown_switch: false\n")
    remarks = {item.key for item in read_run(file, {}, {}).remarks}
    assert ("own_share" in remarks, "own_switch" in remarks) == (True, False)
    file.write_text(FEW + "lr_scheduler_type: cosine\nlr_scheduler_kwargs: {num_cycles: 2}\n")
    assert "lr_scheduler_kwargs" in {item.key for item in read_run(file, {}, {}).remarks}
