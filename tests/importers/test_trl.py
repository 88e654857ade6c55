"""Runs of TRL: YAML; settings in commands and in Python are refused."""

from pathlib import Path
from typing import Any

import pytest

from extractor.importers.runs.run import Run
from extractor.importers.runs.run_reader import read_run
from extractor.values.errors import UsageError
from tests.importers.conftest import put

MODEL, ACTOR, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.actor", "actor_rollout_ref.rollout"


def translated(run: Run) -> dict[str, Any]:
    return {item.key: item.value for item in run.overrides}


def run_of(folder: Path, settings: str) -> Run:
    return read_run(put(folder, {"grpo.yaml": settings}) / "grpo.yaml", {}, {})


def test_settings_elsewhere_than_in_yaml_are_refused_with_their_line_and_the_way_round(tmp_path: Path) -> None:
    put(
        tmp_path,
        {"rloo.yaml": "num_generations: 4\nreward_clip_range: [-1, 1]\n", "grpo.py": "GRPOTrainer(model='a/b')\n"},
    )
    put(tmp_path, {"updates.yaml": "num_generations: 4\nsteps_per_generation: 4\n"})
    for name, command in enumerate(
        (
            "trl grpo --config own.yaml --beta 0.1",
            "accelerate launch --num_processes 4 train.py --reward_funcs size",
            "python elsewhere.py --model_name_or_path a/b --num-generations=4",
        )
    ):
        put(tmp_path, {f"{name}.sh": f"cd .\n{command}\n"})
    command, way = r"sh:2: settings of TRL's trainers are read from YAML alone", "pass the YAML of its --config"
    for name, said, hint in (
        *((f"{name}.sh", command, way) for name in range(3)),
        ("grpo.py", "programs and notebooks are not read", "of TRL's trainer, its settings as YAML"),
        ("updates.yaml", "steps_per_generation=4: several updates", "write data.train_batch_size"),
        ("rloo.yaml", "only GRPOTrainer is read", "--algorithm rloo"),
    ):
        with pytest.raises(UsageError, match=said) as error:
            read_run(tmp_path / name, {}, {})
        assert hint in str(error.value.hint), name


def test_what_has_to_be_a_number_is_one(tmp_path: Path) -> None:
    for settings, said in {
        "num_generations: 0": "num_generations is 0, and has to be a number of at least 1",
        "num_generations: 4\nbeta: high": "beta is 'high', and has to be a number",
        "num_generations: 4\nper_device_train_batch_size: [4, 8]": "per_device_train_batch_size is",
        "num_generations: 4\nmax_steps: true": "max_steps is True",
        "num_generations: 4\neval_steps: 0.5": "eval_steps is 0.5, and has to be a number of at least 1",
    }.items():
        with pytest.raises(UsageError, match=said):
            run_of(tmp_path, settings)


def test_rewards_and_what_a_device_computes_are_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, "model_name_or_path: c/d\nnum_generations: 4\nreward_funcs: [size]\n")
    expected = {f"{MODEL}.path": "c/d", f"{ROLLOUT}.n": 4, f"{ACTOR}.ppo_mini_batch_size": 2}
    assert expected.items() <= translated(run).items()
    assert any("for one device" in item.why for item in run.remarks)
    assert [item.key for item in run.remarks if item.what == "to do"] == ["reward_funcs"]


FEW = "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nnum_generations: 4\n"
LR = f"{ACTOR}.optim"


MEANT: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "num_iterations: 1\nsave_steps: 8\neval_strategy: steps\neval_steps: 20",
        {
            "data.train_batch_size": 2,
            f"{ACTOR}.ppo_mini_batch_size": 2,
            "trainer.save_freq": 8,
            "trainer.test_freq": 20,
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
)


def test_settings_mean_what_they_do_in_trl(tmp_path: Path) -> None:
    for said, meant in MEANT:
        found = translated(run_of(tmp_path, FEW + said))
        for key, value in meant.items():
            expected = pytest.approx(value) if isinstance(value, float) else value
            assert found.get(key) == expected, (said, key)


def test_what_is_otherwise_or_left_to_a_release_is_said(tmp_path: Path) -> None:
    vllm = "use_vllm: true\n"
    correction, loss = "vllm_importance_sampling_correction", {"loss_type", "max_completion_length"}
    for settings, told, untold in (
        (
            f"{vllm}scale_rewards: batch\nnum_train_epochs: 0.5\nbeta: 0.04\nuse_peft: true\n",
            {correction, "scale_rewards", "num_train_epochs", *loss},
            set(),
        ),
        (f"{vllm}{correction}: false\nsave_strategy: epoch\n", {"save_strategy"}, {correction}),
        ("own_share: 0\nown_switch: false\n", {"own_share"}, {"own_switch"}),
        ("lr_scheduler_type: cosine\nlr_scheduler_kwargs: {num_cycles: 2}\n", {"lr_scheduler_kwargs"}, set()),
    ):
        remarks = {item.key for item in run_of(tmp_path, FEW + settings).remarks}
        assert (told - remarks, untold & remarks) == (set(), set()), settings
