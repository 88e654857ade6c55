"""Runs of TRL: commands, YAML and the literals of training scripts; what scores comes along."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from extractor.importers.runs.reading import read_run
from extractor.importers.runs.run import Run
from extractor.values.errors import UsageError
from tests.importers.conftest import imported_from, vextract

MODEL, ACTOR, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
SCRIPT = """
import argparse, re
from datasets import load_dataset
from peft import LoraConfig
from trl import GRPOConfig, GRPOTrainer
from scoring.form import tagged

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=5e-6)
args = parser.parse_args()
RIGHT = 2.0
rows = load_dataset("some/rows", split="train")


def right(prompts, completions, answer, **kwargs):
    last = [re.findall(r"\\d+", item[0]["content"])[-1:] for item in completions]
    return [RIGHT if found == [one] else 0.0 for found, one in zip(last, answer)]


def main():
    longest = 768
    config = GRPOConfig(
        learning_rate=args.rate, beta=0.02, max_completion_length=longest, max_prompt_length=longest // 3,
        per_device_train_batch_size=8, gradient_accumulation_steps=2, steps_per_generation=4, num_generations=4,
        adam_beta2=0.99, reward_weights=[1.0, 0.5], output_dir="out",
    )
    adapter = LoraConfig(r=16, target_modules=["q_proj"], task_type="CAUSAL_LM")
    trainer = GRPOTrainer("a/b", [right, tagged], args=config, train_dataset=rows, peft_config=adapter)
    trainer.train()


main()
"""
FORM = "def tagged(completions, **kwargs):\n    return ['<answer>' in item[0]['content'] for item in completions]\n"
LEAST = "def size(completions, **kwargs):\n    return [-float(len(one)) for one in completions]\n\n"
PARSED = """
from trl import GRPOConfig, GRPOTrainer, TrlParser

arguments, config = TrlParser((Arguments, GRPOConfig)).parse_args_and_config()
GRPOTrainer(model=arguments.model_name_or_path, args=config, reward_funcs=size).train()
"""


def checkout(folder: Path, **files: str) -> Path:
    texts = {"train.py": SCRIPT, "scoring/__init__.py": "", "scoring/form.py": FORM, **files}
    for name, text in texts.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return folder


def translated(run: Run) -> dict[str, Any]:
    return {item.key: item.value for item in run.overrides}


def launch(folder: Path, command: str) -> Run:
    (folder / "run.sh").write_text(command)
    return read_run(folder / "run.sh", {}, {})


def to_do(run: Run) -> dict[str, str]:
    return {item.key: str(item.value) for item in run.remarks if item.what == "to do"}


def test_literals_of_a_script_are_its_settings_and_the_rest_is_to_do(tmp_path: Path) -> None:
    run = read_run(checkout(tmp_path) / "train.py", {}, {})
    assert {
        f"{MODEL}.path": "a/b",
        f"{MODEL}.lora_rank": 16,
        f"{MODEL}.lora_alpha": 8,
        f"{MODEL}.target_modules": ["q_proj"],
        f"{ACTOR}.optim.betas": [0.9, 0.99],
        f"{ACTOR}.kl_loss_coef": 0.02,
        f"{ACTOR}.ppo_mini_batch_size": 4,
        "data.train_batch_size": 8,
        "data.max_response_length": 768,
    }.items() <= translated(run).items()
    said = to_do(run)
    assert said.keys() == {"dataset_name", "learning_rate", "max_prompt_length"}
    assert said["learning_rate"] == "args.rate (train.py:23)"
    assert run.scored_by is not None
    assert (run.scored_by.functions, run.scored_by.weights) == (("right", "tagged"), (1.0, 0.5))
    run = launch(tmp_path, "python train.py --rate 1e-6 --other 3")
    assert translated(run)[f"{ACTOR}.optim.lr"] == 1e-6
    assert to_do(run).keys() == {"dataset_name", "max_prompt_length", "other"}


def test_a_notebook_is_read_without_its_commands(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "# GRPOConfig("},
        {"cell_type": "code", "source": ["%%capture\n", "import os\n", "!pip install unsloth"]},
        {"cell_type": "code", "source": "%%bash\nfor x in 1 2; do echo; done"},
        {"cell_type": "code", "source": SCRIPT},
    ]
    notebook = checkout(tmp_path) / "train.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    assert translated(read_run(notebook, {}, {})) == translated(read_run(tmp_path / "train.py", {}, {}))


def test_a_script_whose_config_is_its_command_line_needs_that(tmp_path: Path) -> None:
    own = "model_name_or_path: c/d\nnum_generations: 6\nlr_scheduler_type: cosine_with_min_lr\n"
    own += "lr_scheduler_kwargs: {min_lr_rate: 0.1}\n"
    changed = f"{LEAST}{PARSED}config.temperature = chosen\n"
    checkout(tmp_path, **{"main_grpo_own.py": changed, "own.yaml": own})
    with pytest.raises(UsageError, match="command line says what its config is"):
        read_run(tmp_path / "main_grpo_own.py", {}, {})
    # Its name is one of those that verl's trainers have in forks.
    run = launch(tmp_path, "torchrun main_grpo_own.py --config own.yaml --learning_rate 3e-6 --beta 0.1")
    assert {
        f"{MODEL}.path": "c/d",
        f"{ROLLOUT}.n": 6,
        f"{ACTOR}.optim.lr": 3e-6,
        f"{ACTOR}.optim.lr_scheduler_type": "cosine",
        f"{ACTOR}.optim.min_lr_ratio": 0.1,
    }.items() <= translated(run).items()
    assert to_do(run).keys() == {"temperature"}
    assert run.scored_by is not None


def test_what_cannot_be_read_of_a_script_is_to_do_or_refused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    functions = "reward_funcs=[size]"
    for made, asked in (
        (f"GRPOTrainer(model='a/b', args=GRPOConfig(beta=0, **more), {functions})", {"GRPOConfig(**...)"}),
        ("GRPOTrainer(model=loaded(), reward_funcs=choose())", {"model_name_or_path", "reward_funcs"}),
        (f"get_peft_model(m, r=4)\nGRPOTrainer(model='a/b', {functions})", {"peft_config"}),
        ("GRPOTrainer('a/b', [size], args=GRPOConfig(reward_weights=[1.0, 2.0]))", {"reward_funcs"}),
        ("some = [size]\nsome.append(more)\nGRPOTrainer('a/b', some)", {"reward_funcs"}),
        ("c = GRPOConfig()\nsetattr(c, name, 1)\nGRPOTrainer('a/b', [size], args=c)", {"setattr(...)"}),
    ):
        script.write_text(f"{LEAST}{made}\n")
        assert to_do(read_run(script, {}, {})).keys() == asked, made
    for text, said in (
        ("GRPOTrainer(model='a/b', args=defaults(run_name='x'))", r"train.py:4: its config is no call of GRPOConfig"),
        ("GRPOTrainer(model='a/b')\nGRPOTrainer(model='c/d')", "makes a trainer in lines 4, 5"),
    ):
        script.write_text(f"{LEAST}{text}\n")
        with pytest.raises(UsageError, match=said):
            read_run(script, {}, {})


def test_a_trainer_of_another_package_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    made = "GRPOTrainer(model='a/b', reward_funcs=size, args=GRPOConfig(num_generations=4))"
    for before, trainer in (
        ("from own.trainers import GRPOTrainer\n", "own.trainers.GRPOTrainer"),
        ("class Counting(GRPOTrainer): ...\n", "Counting"),
        ("from trl import GRPOTrainer\n", None),
    ):
        called = made.replace("GRPOTrainer(", "Counting(", 1) if trainer == "Counting" else made
        script.write_text(f"{before}{LEAST}{called}\n")
        run = read_run(script, {}, {})
        assert translated(run)[f"{ROLLOUT}.n"] == 4
        assert [item.value for item in run.remarks if item.key == "GRPOTrainer"] == [trainer] * (trainer is not None)
    script.write_text("from verl.trainer import GRPOTrainer\nGRPOTrainer(model='a/b')\n")
    with pytest.raises(UsageError, match="starts no trainer of verl's or TRL's"):
        read_run(script, {}, {})


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
            "lr_scheduler_type: cosine_with_min_lr\nlearning_rate: 0.00001\nlr_scheduler_kwargs: {min_lr: 0.000001}",
            {f"{LR}.lr_scheduler_type": "cosine", f"{LR}.min_lr_ratio": 0.1},
        ),
        ("chat_template_kwargs: {enable_thinking: false}", {"data.apply_chat_template_kwargs.enable_thinking": False}),
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


@pytest.mark.parametrize(
    ("before", "processes"),
    [
        ("python", None),
        ("accelerate launch", None),
        ("accelerate launch --num_processes 4", 4),
        ("accelerate launch --config_file zero.yaml", 8),
        ("accelerate launch --config_file zero.yaml --num-processes=2", 2),
        ("torchrun --nnodes 2 --nproc_per_node 3", 6),
    ],
)
def test_batches_are_of_all_processes_where_the_launch_says_how_many(
    tmp_path: Path, before: str, processes: int | None
) -> None:
    checkout(tmp_path, **{"zero.yaml": "distributed_type: DEEPSPEED\nnum_processes: 8\n"})
    run = launch(tmp_path, f"{before} train.py")
    found = translated(run)
    times = processes or 1
    assert found[f"{ACTOR}.ppo_mini_batch_size"] == 4 * times
    assert found["data.train_batch_size"] == 8 * times
    assert found[f"{ACTOR}.ppo_micro_batch_size_per_gpu"] == 8
    said = [item for item in run.remarks if "for one device" in item.why]
    assert bool(said) == (processes is None)


def test_what_is_otherwise_or_left_to_a_release_is_said(tmp_path: Path) -> None:
    file = tmp_path / "grpo.yaml"
    file.write_text(FEW + "use_vllm: true\nscale_rewards: batch\nnum_train_epochs: 0.5\nbeta: 0.04\nuse_peft: true\n")
    remarks = {item.key for item in read_run(file, {}, {}).remarks if item.what == "changed"}
    assert {
        "vllm_importance_sampling_correction",
        "scale_rewards",
        "num_train_epochs",
        "lora_target_modules",
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
    assert "num_cycles" in {item.value for item in read_run(file, {}, {}).remarks}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from imported_from(tmp_path / "made", "of_trl", monkeypatch)


def scores(made: Path, answers: list[str], **row: Any) -> list[dict[str, Any]]:
    """Return what the project's reward manager gives to responses."""
    importlib.invalidate_caches()
    manager = importlib.import_module("of_trl.custom.trl_reward_manager").TrlRewardManager(None)
    functions = importlib.import_module("of_trl.rewards.functions")
    prompt = manager._messages(None, 0) if row.pop("is_text", False) else [{"role": "user", "content": "1 + 1"}]
    samples = [functions.sample_of(text, prompt, row) for text in answers]
    found: list[dict[str, Any]] = manager.scorer(functions.Batch(samples, list(row), None))
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("verl")
def test_what_scores_comes_along_with_what_it_needs_and_counts_as_much(tmp_path: Path, package: Path) -> None:
    script = checkout(tmp_path / "theirs") / "train.py"
    done = vextract("new", package, "--package", "of_trl", "--from-verl-run", script, "--offline")
    assert done.code == 0, done.err
    copied = (package / "of_trl" / "custom" / "trl_rewards.py").read_text()
    assert "load_dataset" not in copied
    assert "name: trl" in (package / "config" / "recipe" / "verl_run.yaml").read_text()
    assert "rows need what they take: answer" in (package / "from_run.md").read_text()
    results = scores(package, ["<answer>2</answer>", "it is 3"], answer="2")
    assert [item["score"] for item in results] == [2.5, 0.0]


LEFT_OUT = {
    "algorithm.adv_estimator": "rloo",
    "algorithm.use_kl_in_reward": True,
    "algorithm.kl_penalty": "kl",
    "algorithm.kl_ctrl.type": "fixed",
    f"{ACTOR}.use_kl_loss": False,
    f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum",
    f"{ACTOR}.clip_ratio_low": 0.2,
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", "trl rloo --config own.yaml --beta 0.05"),
        ("run.sh", "accelerate launch --num_processes 4 -m trl rloo --config own.yaml"),
        ("rloo_own.yaml", FEW.replace("num_generations: 4\n", "reward_funcs: [think_format_reward]\n")),
        ("own.yaml", "reward_funcs: think_format_reward\nreward_clip_range: [-1, 1]\n"),
    ],
)
def test_rloo_by_its_command_and_by_its_config(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "own.yaml").write_text("model_name_or_path: a/b\nreward_funcs: [think_format_reward]\n")
    (tmp_path / name).write_text(text)
    run = read_run(tmp_path / name, {}, {})
    assert {**LEFT_OUT, "algorithm.kl_ctrl.kl_coef": 0.05, f"{ROLLOUT}.n": 2}.items() <= translated(run).items()
    assert run.scored_by is not None
    assert run.scored_by.functions == ("think_format_reward",)


def test_rloo_s_ratio_and_names_of_its_earlier_releases(tmp_path: Path) -> None:
    file = tmp_path / "rloo.yaml"
    file.write_text(FEW + "num_iterations: 2\nnormalize_advantages: true\n")
    said = {item.key: item.what for item in read_run(file, {}, {}).remarks}
    assert (said["ratio"], said["normalize_advantages"]) == ("changed", "not carried over")
    file.write_text(FEW + "rloo_k: 4\nkl_coef: 0.03\n")
    with pytest.raises(UsageError, match="kl_coef, rloo_k: a run of RLOO"):
        read_run(file, {}, {})


@pytest.mark.slow
@pytest.mark.usefixtures("verl")
def test_rloo_with_a_reward_model_becomes_a_project(tmp_path: Path, package: Path) -> None:
    config = "RLOOConfig(beta=0.02, chat_template_kwargs={'enable_thinking': False})"
    script = tmp_path / "train.py"
    script.write_text(
        f"RLOOTrainer(model='a/b', reward_funcs='own/judge', args={config}, train_dataset=rows).train()\n"
    )
    done = vextract("new", package, "--package", "of_trl", "--from-verl-run", script, "--offline")
    assert done.code == 0, done.err
    recipe = yaml.safe_load((package / "config" / "recipe" / "verl_run.yaml").read_text())
    assert recipe["data"]["apply_chat_template_kwargs"] == {"enable_thinking": False}
    assert recipe["algorithm"]["use_kl_in_reward"] is True
    assert recipe["algorithm"]["kl_ctrl"]["kl_coef"] == 0.02
    assert recipe["reward"]["reward_model"] == {"enable": True, "model_path": "own/judge"}
    assert "of train.py" in (package / "config" / "recipe" / "verl_run.yaml").read_text()
    assert "rloo with" in (package / "from_run.md").read_text()
