"""Training scripts of TRL as people write and start them: what they say is worked out, their rewards come along."""

from __future__ import annotations

import importlib
import json
import sys
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
from trl import GRPOConfig, GRPOTrainer
from unsloth import FastLanguageModel
from scoring.form import tagged

parser = argparse.ArgumentParser()
parser.add_argument("--base", default="a/b")
parser.add_argument("--rate", type=float, default=5e-6)
parser.add_argument("--kl-weight", type=float)
args = parser.parse_args()
longest = 1024
prompts = 256
RIGHT = 2.0
rows = load_dataset("some/rows", split="train")
model, tokenizer = FastLanguageModel.from_pretrained(model_name=args.base, max_seq_length=longest)
model = FastLanguageModel.get_peft_model(model, r=16, lora_alpha=16 * 2, target_modules=["q_proj", "v_proj"])


class Numbers:
    def last(self, text):
        found = re.findall(r"\\d+", text)
        return found[-1] if found else None


text = tokenizer.apply_chat_template(rows[0])


def right(prompts, completions, answer, **kwargs):
    text = completions[0][0]["content"]
    assert text
    return [RIGHT if Numbers().last(item[0]["content"]) == one else 0.0 for item, one in zip(completions, answer)]


config = GRPOConfig(
    learning_rate=args.rate, beta=args.kl_weight, max_prompt_length=prompts, max_completion_length=longest - prompts,
    per_device_train_batch_size=8, gradient_accumulation_steps=2, steps_per_generation=4, num_generations=4,
    adam_beta2=0.99, reward_weights=[1.0, 0.5], output_dir=f"out/{args.base}",
)
trainer = GRPOTrainer(model=model, args=config, reward_funcs=[right, tagged], train_dataset=rows)
trainer.train()
"""
FORM = "def tagged(completions, **kwargs):\n    return ['<answer>' in item[0]['content'] for item in completions]\n"


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


def test_what_a_script_says_is_worked_out_with_what_its_command_says(tmp_path: Path) -> None:
    checkout(tmp_path)
    found = translated(
        launch(tmp_path, "accelerate launch --config_file zero3.yaml train.py --rate 1e-6 --kl-weight=0.02")
    )
    assert {
        f"{MODEL}.path": "a/b",
        f"{MODEL}.lora_rank": 16,
        f"{MODEL}.lora_alpha": 32,
        f"{MODEL}.target_modules": ["q_proj", "v_proj"],
        f"{ACTOR}.optim.lr": 1e-6,
        f"{ACTOR}.optim.betas": [0.9, 0.99],
        f"{ACTOR}.kl_loss_coef": 0.02,
        f"{ACTOR}.ppo_mini_batch_size": 4,
        "data.train_batch_size": 8,
        "data.max_prompt_length": 256,
        "data.max_response_length": 768,
    }.items() <= found.items()
    run = read_run(tmp_path / "train.py", {}, {})
    assert translated(run)[f"{ACTOR}.optim.lr"] == 5e-6
    to_do = {item.key for item in run.remarks if item.what == "to do"}
    assert to_do == {"beta", "dataset_name"}  # the option has no default


def test_a_script_whose_config_is_its_command_line_needs_that(tmp_path: Path) -> None:
    text = SCRIPT.replace("config = GRPOConfig(", "config = dict(").replace("args.parse_args()", "parsed()")
    yaml = "model_name_or_path: c/d\nnum_generations: 6\nreward_funcs: [accuracy]\n"
    yaml += "lr_scheduler_type: cosine_with_min_lr\nlr_scheduler_kwargs: {min_lr_rate: 0.1}\n"
    checkout(tmp_path, **{"main_grpo_own.py": text, "own.yaml": yaml})
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
    assert run.scored_by is not None  # the script's list, whatever the YAML calls its parts
    assert run.scored_by.functions == ("right", "tagged")


def test_a_notebook_is_read_without_its_commands(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": "# GRPOConfig("},
        {"cell_type": "code", "source": ["%%capture\n", "import os\n", "!pip install unsloth"]},
        {
            "cell_type": "code",
            "source": ["if colab:\n", "    !pip install \\\n", "  trl \\\n", "  vllm\n", "%matplotlib inline"],
        },
        {"cell_type": "code", "source": "%%time\nlongest_of_all = 1"},
        {"cell_type": "code", "source": "%%bash\nfor x in 1 2; do echo; done"},
        {"cell_type": "code", "source": SCRIPT},
    ]
    notebook = tmp_path / "train.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    (tmp_path / "train.py").write_text(SCRIPT)
    run = read_run(notebook, {}, {})
    assert translated(run) == translated(read_run(tmp_path / "train.py", {}, {}))
    assert run.scored_by is not None
    assert run.scored_by.functions == ("right", "tagged")
    notebook.write_text("{}")
    with pytest.raises(UsageError, match="no notebook"):
        read_run(notebook, {}, {})


def test_a_script_that_is_not_here_leaves_its_rewards_to_do(tmp_path: Path) -> None:
    run = launch(tmp_path, "accelerate launch elsewhere.py --model_name_or_path a/b --num_generations 4")
    assert translated(run)[f"{ROLLOUT}.n"] == 4
    assert [item.value for item in run.remarks if item.key == "reward_funcs"] == ["those of elsewhere.py"]


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
    checkout(tmp_path / "theirs")
    done = vextract(
        *("new", package, "--package", "of_trl", "--from-verl-run", tmp_path / "theirs" / "train.py", "--offline")
    )
    assert done.code == 0, done.err
    copied = (package / "of_trl" / "custom" / "trl_rewards.py").read_text()
    assert "load_dataset" not in copied
    assert "FastLanguageModel" not in copied
    assert "AutoTokenizer" not in copied
    assert "name: trl" in (package / "config" / "recipe" / "verl_run.yaml").read_text()
    assert "rows need what they take: answer" in (package / "from_run.md").read_text()
    results = scores(package, ["<answer>2</answer>", "it is 3"], answer="2")
    assert [item["score"] for item in results] == [2.5, 0.0]
    assert results[0]["right"] == 2.0
    assert results[0]["tagged"] == 1.0


@pytest.mark.usefixtures("verl")
def test_of_a_model_that_is_loaded_with_its_tokenizer_that_alone_comes_along(tmp_path: Path, package: Path) -> None:
    text = SCRIPT.replace(
        'found = re.findall(r"\\d+", text)', "found = re.findall(r'\\d+' + tokenizer.eos_token, text)"
    )
    assert text != SCRIPT
    checkout(tmp_path / "theirs", **{"train.py": text})
    script = tmp_path / "theirs" / "train.py"
    done = vextract("new", package, "--package", "of_trl", "--from-verl-run", script, "--offline")
    assert done.code == 0, done.err
    copied = (package / "of_trl" / "custom" / "trl_rewards.py").read_text()
    assert "tokenizer = AutoTokenizer.from_pretrained('a/b')" in copied
    assert "FastLanguageModel" not in copied


@pytest.mark.slow
@pytest.mark.usefixtures("verl")
def test_functions_that_read_no_message_get_text(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "from trl import GRPOConfig, GRPOTrainer\n\ndef short(completions, **kwargs):\n"
        "    return [-float(len(item)) for item in completions]\n\n"
        "def rows():\n    return [[{'role': 'user', 'content': 'hello'}]]  # which a trainer makes text of\n\n"
        'GRPOTrainer(model="a/b", reward_funcs=short, args=GRPOConfig(num_generations=2), train_dataset=rows()).train()'
    )
    checkout(tmp_path / "theirs", **{"train.py": script})
    done = vextract(
        *("new", package, "--package", "of_trl", "--from-verl-run", tmp_path / "theirs" / "train.py", "--offline")
    )
    assert done.code == 0, done.err
    importlib.invalidate_caches()
    manager = importlib.import_module("of_trl.custom.trl_reward_manager").TrlRewardManager
    monkeypatch.setattr(manager, "_prompt", lambda self, data, row: "1 + 1")
    assert [item["score"] for item in scores(package, ["four", "no"], is_text=True)] == [-4.0, -2.0]


INSTALLS = """
import os
if "COLAB" not in os.environ:
    pass
else:
    import re, requests
    f = requests.get("https://somewhere.else")
if os.environ.get("FAST"):
    import orjson as reader
else:
    import json as reader
import re
from trl import GRPOConfig, GRPOTrainer

def score(completions, **kwargs):
    return [float(bool(re.search("a", f))) + reader.loads("1") for f in completions]

GRPOTrainer(model="a/b", reward_funcs=HANDED, args=GRPOConfig(num_generations=2), train_dataset=rows()).train()
"""


@pytest.mark.usefixtures("verl")
def test_what_a_notebook_installs_by_is_no_part_of_its_functions(tmp_path: Path) -> None:
    checkout(tmp_path / "theirs", **{"train.py": INSTALLS.replace("HANDED", "score")})
    vextract("new", tmp_path / "one", "--from-verl-run", tmp_path / "theirs/train.py", "--offline")
    copied = (tmp_path / "one/one/custom/trl_rewards.py").read_text()
    assert "requests" not in copied
    assert [name for name in ("import os", "import json as reader", "import re") if name not in copied] == []
    compile(copied, "trl_rewards.py", "exec")


def test_a_trainer_that_makes_its_own_scorer_is_to_do(tmp_path: Path) -> None:
    checkout(tmp_path, **{"train.py": INSTALLS.replace("HANDED", "None")})
    run = read_run(tmp_path / "train.py", {}, {})
    assert run.scored_by is None
    assert "reward_funcs" in {item.key for item in run.remarks if item.what == "to do"}


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
    ("adapter", "meant"),
    [
        ("LoraConfig(r=16)", (16, 8, ["q_proj", "v_proj"])),
        ("LoraConfig(target_modules='all-linear', lora_dropout=0.1)", (8, 8, "all-linear")),
        (
            "FastModel.get_peft_model(model, lora_alpha=32)",
            (16, 32, [f"{name}_proj" for name in ("q", "k", "v", "o", "gate", "up", "down")]),
        ),
    ],
)
def test_an_adapter_is_what_the_library_that_makes_it_takes_unsaid(
    tmp_path: Path, adapter: str, meant: tuple[int, int, Any]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"config = GRPOConfig(num_generations=2)\nadapter = {adapter}\n")
    run = read_run(script, {}, {})
    found = translated(run)
    assert tuple(found[f"{MODEL}.{name}"] for name in ("lora_rank", "lora_alpha", "target_modules")) == meant
    assert ("lora_dropout" in adapter) == any(item.key == "lora_dropout" for item in run.remarks)


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


NAMED = """
from trl import GRPOConfig, GRPOTrainer, TrlParser
from own.scores import choose

arguments, config = TrlParser((Arguments, GRPOConfig)).parse_args_and_config()
GRPOTrainer(model="a/b", args=config, reward_funcs=choose(arguments)).train()
"""
SCORES = """
from functools import partial

def shaped(completions, **kwargs):
    return [1.0 for _ in completions]

def exact(completions, answer, **kwargs):
    return [float(one[0]["content"] == two) for one, two in zip(completions, answer)]

def choose(arguments):
    known = {"shape": shaped, "right": exact, "partly": partial(exact, answer=[])}
    return [known[name] for name in arguments.reward_funcs]
"""


@pytest.mark.parametrize("package", ["own", "src/own"])
def test_functions_are_found_by_the_names_that_a_script_has_for_them(tmp_path: Path, package: str) -> None:
    script = f"{package}/grpo.py" if "/" in package else "grpo.py"
    scores = f"from .parts import whole as part\n{SCORES}"
    checkout(tmp_path, **{script: NAMED, f"{package}/__init__.py": "", f"{package}/scores.py": scores})
    (tmp_path / ".git").mkdir()
    start = f"accelerate launch {script} --num_generations 4 --reward_weights 2.0 1.0 --reward_funcs"
    scored_by = launch(tmp_path, f"{start} right shape").scored_by
    assert scored_by is not None
    assert (scored_by.functions, scored_by.weights, scored_by.place) == (("exact", "shaped"), (2.0, 1.0), "scores.py")
    scored_by = launch(tmp_path, f"{start} right partly").scored_by
    assert scored_by is not None
    assert scored_by.functions == ("exact", "exact_")
    assert scored_by.text.endswith("from functools import partial\nexact_ = partial(exact, answer=[])\n")
    run = launch(tmp_path, f"{start} right no_such")
    assert run.scored_by is None
    assert [item.what for item in run.remarks if item.key == "reward_funcs"] == ["to do"]
    # In a dict of the script's, of functions that it imports: what else their module makes is not needed.
    (tmp_path / script).write_text(f'{NAMED}from own.scores import exact\nREGISTRY = {{"imported": exact}}\n')
    scored_by = launch(tmp_path, f"{start.replace(' 1.0', '')} imported").scored_by
    assert scored_by is not None
    assert (scored_by.functions, scored_by.place) == (("exact",), "scores.py")
    assert "from own.parts import whole as part" in scored_by.text
    # In the script itself, at its top.
    (tmp_path / script).write_text(f'{NAMED}{SCORES}\nREGISTRY = {{"mine": shaped}}\n')
    scored_by = launch(tmp_path, f"{start.replace(' 1.0', '')} mine").scored_by
    assert scored_by is not None
    assert (scored_by.functions, scored_by.weights, scored_by.place) == (("shaped",), (2.0,), "grpo.py")


def test_how_unsloth_s_runs_draw_tokens(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "shown = SamplingParams(top_p=0.5)\ndrawn = SamplingParams(top_p=0.9, min_p=0.1, stop=[end], seed=1)\n"
        "config = GRPOConfig(num_generations=2, vllm_sampling_params=drawn, temperature=0.8)\n"
    )
    run = read_run(script, {}, {})
    found = translated(run)
    assert (found[f"{ROLLOUT}.top_p"], found[f"{ROLLOUT}.temperature"]) == (0.9, 0.8)
    remarks = {item.key: item.what for item in run.remarks}
    assert remarks["min_p"] == "not carried over"
    assert "vllm_sampling_params" not in remarks


LEAST = "def size(completions, **kwargs):\n    return [-float(len(one)) for one in completions]\n\n"


def test_a_trainer_without_a_config_has_trl_s_own(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"{LEAST}GRPOTrainer(model='a/b', reward_funcs=size, train_dataset=rows).train()\n")
    run = read_run(script, {}, {})
    assert translated(run)[f"{MODEL}.path"] == "a/b"
    assert translated(run)[f"{ROLLOUT}.n"] == 8
    assert run.scored_by is not None


def test_a_trainer_of_a_script_s_own_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    made = "CountingGRPOTrainer(model='a/b', reward_funcs=[size], args=LongGRPOConfig(num_generations=4))"
    made = made.replace("'a/b'", "adapter.model_name_or_path")
    models = "adapter = ModelConfig('x', model_name_or_path='a/b', use_peft=True, lora_r=4)"
    script.write_text(f"{LEAST}{models}\n{made}.train()\n")
    run = read_run(script, {}, {})
    assert translated(run)[f"{ROLLOUT}.n"] == 4
    assert translated(run)[f"{MODEL}.lora_rank"] == 4
    assert translated(run)[f"{MODEL}.path"] == "a/b"
    assert [item.value for item in run.remarks if item.key == "GRPOTrainer"] == ["CountingGRPOTrainer"]
    script.write_text(f"{LEAST}vf.GRPOTrainer(model='a/b', args=vf.defaults(run_name='x')).train()\n")
    with pytest.raises(UsageError, match=r"made by vf.defaults\(run_name='x'\)"):
        read_run(script, {}, {})


def test_names_of_functions_that_only_the_script_states(tmp_path: Path) -> None:
    options = "@dataclass\nclass Arguments:\n    reward_funcs: list = field(default_factory=lambda: ['short'])\n\n"
    rest = "KNOWN = {'short': size}\nchosen = [KNOWN[name] for name in arguments.reward_funcs]\n"
    rest += "GRPOTrainer(model=model.path, args=TrlParser(GRPOConfig).parse(), reward_funcs=chosen).train()\n"
    checkout(tmp_path, **{"train.py": LEAST + options + rest})
    scored_by = launch(tmp_path, "python train.py --num_generations 4").scored_by
    assert scored_by is not None
    assert scored_by.functions == ("size",)


def test_what_variables_of_the_environment_and_dicts_say(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os\nSIZE = int(os.getenv('SIZE', '4'))\n"
        "def config(where):\n    given = dict(num_generations=SIZE, learning_rate=float(os.environ.get('LR', 1e-5)))\n"
        "    given_too = {'max_completion_length': 2 * SIZE, 'temperature': where['temperature']}\n"
        "    return GRPOConfig(**given, **given_too)\n"
    )
    run = read_run(script, {}, {})
    found = translated(run)
    assert (found[f"{ROLLOUT}.n"], found[f"{ACTOR}.optim.lr"], found["data.max_response_length"]) == (4, 1e-5, 8)
    assert {item.key for item in run.remarks if item.what == "to do"} == {"temperature", "reward_funcs"}


WRITTEN = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--fast", action="store_true")
parser.add_argument("--kind", default="short")
args = parser.parse_args()


def settings(more):
    given = {"num_generations": 4, **{"beta": 0.1}, "temperature": 0.7}
    given["max_completion_length"] = 64
    given.update({"epsilon": 0.3}, learning_rate=1e-5)
    given.update(more)
    if args.fast:
        given["max_steps"] = 5
    if args.kind == "short" and not args.fast:
        given["max_prompt_length"] = 32
    if rows.is_large():
        given["temperature"] = 0.9
    kept = {key: value for key, value in given.items() if key in GRPOConfig.__annotations__}
    config = GRPOConfig(**kept)
    config.num_iterations = 2 if args.fast else 3
    setattr(config, "max_grad_norm", 0.2)
    config.save_steps *= 2
    return config


class Count:
    def on_step(self, args, state):
        args.beta = 7
"""


def test_what_a_script_writes_into_its_settings_before_and_after_counts(tmp_path: Path) -> None:
    checkout(tmp_path, **{"train.py": WRITTEN})
    run = launch(tmp_path, "python train.py --fast")
    found = translated(run)
    assert {
        f"{ROLLOUT}.n": 4,
        f"{ACTOR}.kl_loss_coef": 0.1,
        f"{ACTOR}.clip_ratio_low": 0.3,
        f"{ACTOR}.optim.lr": 1e-5,
        f"{ACTOR}.ppo_epochs": 2,
        f"{ACTOR}.grad_clip": 0.2,
        "data.max_response_length": 64,
    }.items() <= found.items()
    assert "data.max_prompt_length" not in found
    to_do = {item.key: item.value for item in run.remarks if item.what == "to do"}
    assert to_do["temperature"] == "0.9 if rows.is_large() else 0.7"
    assert to_do["GRPOConfig(**...)"] == "kept"
    assert to_do["save_steps"] == "config.save_steps * 2"
    run = read_run(tmp_path / "train.py", {}, {})
    assert translated(run)["data.max_prompt_length"] == 32
    assert translated(run)[f"{ACTOR}.ppo_epochs"] == 3
    assert "trainer.total_training_steps" not in translated(run)


def test_what_a_script_writes_into_what_it_parsed_counts_before_the_command(tmp_path: Path) -> None:
    rest = "(config,) = TrlParser(GRPOConfig).parse()\nconfig.beta = 0.2\n"
    rest += "GRPOTrainer('a/b', size, config, rows).train()\n"
    checkout(tmp_path, **{"train.py": LEAST + rest})
    run = launch(tmp_path, "python train.py --beta 0.1 --num_generations 4")
    assert translated(run)[f"{ACTOR}.kl_loss_coef"] == 0.2
    assert translated(run)[f"{MODEL}.path"] == "a/b"
    assert run.scored_by is not None


def test_of_several_that_a_script_makes_the_trainer_s_counts(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    made = "LoraConfig(use_dora=True, r=2)\nother = LoraConfig(r=64)\nadapter = LoraConfig(r=4)\n"
    rest = "config = GRPOConfig(num_generations=4)\nfirst = SFTTrainer(peft_config=other)\n"
    more = "callbacks=[Count()], rollout_func=play, eval_dataset=held"
    rest += f"GRPOTrainer(model='a/b', reward_funcs=size, args=config, peft_config=adapter, {more}).train()\n"
    script.write_text(LEAST + made + rest)
    run = read_run(script, {}, {})
    assert translated(run)[f"{MODEL}.lora_rank"] == 4
    said = {item.key: item.what for item in run.remarks}
    assert (said["callbacks"], said["rollout_func"]) == ("not carried over", "to do")
    assert "use_dora" not in said
    assert "eval_dataset" not in said  # nothing is evaluated
    script.write_text(LEAST + made + rest.replace("num_generations=4", "eval_strategy='epoch'"))
    said = {item.key: item.what for item in read_run(script, {}, {}).remarks}
    assert (said["eval_strategy"], said["eval_dataset"]) == ("to do", "to do")
    # Which of two counts is not known.
    script.write_text(LEAST + "c = [GRPOConfig(beta=0.1), GRPOConfig(beta=0.2)]\n")
    assert "0.1 or 0.2" in {item.value for item in read_run(script, {}, {}).remarks if item.key == "beta"}
    # An adapter that another module makes.
    script.write_text(LEAST + rest.replace("peft_config=adapter", "peft_config=own.adapter()"))
    assert "peft_config" in {item.key for item in read_run(script, {}, {}).remarks if item.what == "to do"}


def test_a_class_that_only_is_called_as_trl_s_is_none(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    own = "@dataclass\nclass GRPOConfig:\n    beta: float = 0.5\n\nown = GRPOConfig(beta=0.3)\n"
    rest = "GRPOTrainer(model='a/b', reward_funcs=size, args=TrlGRPOConfig(beta=own.beta)).train()\n"
    script.write_text(LEAST + own + rest)
    assert translated(read_run(script, {}, {}))[f"{ACTOR}.kl_loss_coef"] == 0.3


def test_of_a_key_that_stands_twice_in_a_config_of_trl_the_last_counts(tmp_path: Path) -> None:
    (tmp_path / "grpo.yaml").write_text(FEW + "max_steps: 5\nmax_steps: 6\nnum_train_epochs: -1\n")
    (tmp_path / "train.py").write_text(LEAST + "GRPOTrainer(model='a/b', args=parse(TrlParser), reward_funcs=size)")
    for run in (read_run(tmp_path / "grpo.yaml", {}, {}), launch(tmp_path, "python train.py --config grpo.yaml")):
        assert translated(run)["trainer.total_training_steps"] == 6


def test_python_that_this_one_does_not_read(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("x = 1\ny = (]\n")
    with pytest.raises(UsageError, match=r"train.py:2: no Python"):
        read_run(script, {}, {})
    script.write_text("given = {'a': 1}\ntext = f'{given['a']}'\nGRPOConfig(num_generations=2)\n")
    if sys.version_info < (3, 12):
        with pytest.raises(UsageError, match=r"train.py:2:") as refused:
            read_run(script, {}, {})
        assert "Python 3.12" in str(refused.value.hint)


OF_RLOO = LEAST + (
    "config = RLOOConfig(num_generations=4, beta=0.1, epsilon_high=0.3, per_device_train_batch_size=8{more})\n"
    "RLOOTrainer(model='a/b', args=config, reward_funcs=size, train_dataset=rows).train()\n"
)
LEFT_OUT = {
    "algorithm.adv_estimator": "rloo",
    "algorithm.use_kl_in_reward": True,
    "algorithm.kl_penalty": "kl",
    "algorithm.kl_ctrl.type": "fixed",
    f"{ACTOR}.use_kl_loss": False,
    f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum",
    f"{ACTOR}.clip_ratio_low": 0.2,
}


def test_rloo_takes_kl_off_the_reward_and_sums_over_a_response(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(OF_RLOO.format(more=""))
    run = read_run(script, {}, {})
    stated = {"algorithm.kl_ctrl.kl_coef": 0.1, f"{ACTOR}.clip_ratio_high": 0.3, f"{ROLLOUT}.n": 4}
    found = translated(run)
    assert {**LEFT_OUT, **stated}.items() <= found.items()
    assert run.scored_by is not None
    assert "ratio" not in {item.key for item in run.remarks}
    assert not {"loss_type", "beta"} & {item.key for item in run.remarks}
    script.write_text(OF_RLOO.format(more=", num_iterations=2, normalize_advantages=True, reward_clip_range=(-1, 1)"))
    said = {item.key: item.what for item in read_run(script, {}, {}).remarks}
    # The ratio of a whole response is what each token's is only before a batch's first update.
    assert said["ratio"] == "changed"
    assert said["normalize_advantages"] == said["reward_clip_range"] == "not carried over"


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


def test_rloo_as_it_was_before_its_rewards_were_functions(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        f"{LEAST}settings = RLOOConfig(rloo_k=4, kl_coef=0.03, missing_eos_penalty=1.0, total_episodes=1000)\n"
        "RLOOTrainer(config=settings, policy=policy, ref_policy=policy, reward_model=size).train()\n"
    )
    run = read_run(script, {}, {})
    found = translated(run)
    assert {
        "algorithm.kl_ctrl.kl_coef": 0.03,
        f"{ROLLOUT}.n": 4,
        f"{ROLLOUT}.temperature": 0.7,
        f"{ACTOR}.ppo_epochs": 4,
        "data.max_response_length": 53,
    }.items() <= found.items()
    said = {item.key: item.what for item in run.remarks}
    assert said["RLOOConfig"] == "changed"
    assert said["missing_eos_penalty"] == "not carried over"
    assert said["total_episodes"] == "to do"


def test_what_scores_is_asked_for_where_a_run_does_not_say_it(tmp_path: Path) -> None:
    file = tmp_path / "grpo.yaml"
    file.write_text(FEW)
    assert [item.what for item in read_run(file, {}, {}).remarks if item.key == "reward_funcs"] == ["to do"]


MAKERS = """
import argparse
from dataclasses import dataclass
from functools import partial
from trl import GRPOConfig, GRPOTrainer

LENGTH = 4

def near(completions, answer, target, scale=1.0, **kwargs):
    return [-scale * abs(len(one[0]["content"]) - target) for one in completions]

def make(bonus):
    def scored(completions, **kwargs):
        return [bonus for _ in completions]
    return scored

def several(bonus):
    return [make(bonus), make(2 * bonus)]

@dataclass
class Tagged:
    tag: str

    def __call__(self, completions, **kwargs):
        return [float(self.tag in one[0]["content"]) for one in completions]

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bonus", type=float, default=0.5)
    parser.add_argument("--target", type=int, default=3)
    parser.add_argument("--unsaid")
    args = parser.parse_args()
    half = args.bonus / 2
    rows = load_dataset("a")

    def inner(completions, **kwargs):
        return [half + len(text_of(one)) * args.bonus for one in completions]

    def text_of(one):
        return one[0]["content"]

    config = GRPOConfig(num_generations=2{more})
    {before}
    GRPOTrainer(model="a/b", reward_funcs={handed}, args=config, train_dataset=rows).train()
"""


def made_by(folder: Path, handed: str, before: str = "", more: str = "", place: str = "def main():") -> Run:
    text = (
        MAKERS.replace("def main():", place)
        .replace("{handed}", handed)
        .replace("{before}", before)
        .replace("{more}", more)
    )
    checkout(folder, **{"train.py": text})
    return launch(folder, "python train.py --target 2")


@pytest.mark.parametrize(
    ("handed", "before", "names"),
    [
        ("partial(near, target=args.target)", "", ("near_",)),
        ("[inner, make(args.bonus)]", "", ("inner", "make_")),
        ("chosen", "chosen = [Tagged('<answer>'), near]", ("tagged", "near")),
        ("[*chosen, make(1.0)]", "chosen = [Tagged('x')]", ("tagged", "make_")),
        ("first + [make(1.0)]", "first = [near]", ("near", "make_")),
        ("lambda completions, **kwargs: [1.0 for _ in completions]", "", ("reward",)),
        ("[scored, near]", "scored = make(args.bonus)", ("scored", "near")),
        ("chosen", "chosen = [near]\n    chosen.append(make(1.0))", ("near", "make_")),
        ("chosen", "chosen = [{'a': near, 'b': make(2.0)}[name] for name in 'b a'.split()]", ("make_", "near")),
    ],
)
@pytest.mark.parametrize("place", ["def main():", 'if __name__ == "__main__":'])
def test_functions_that_a_script_makes_come_along(
    tmp_path: Path, handed: str, before: str, names: tuple[str, ...], place: str
) -> None:
    scored_by = made_by(tmp_path, handed, before, place=place).scored_by
    assert scored_by is not None
    assert scored_by.functions == names


@pytest.mark.parametrize(
    ("handed", "before"),
    [
        ("chosen", "chosen = [near]\n    chosen.pop()"),
        ("chosen", "chosen = [near]\n    if rows:\n        chosen = [make(1.0)]"),
        ("[near, judged(rows)]", ""),
        ("[near, 'some/model']", ""),
    ],
)
def test_functions_that_only_the_script_as_it_runs_knows_are_to_do(tmp_path: Path, handed: str, before: str) -> None:
    run = made_by(tmp_path, handed, before)
    assert run.scored_by is None
    assert [item.what for item in run.remarks if item.key == "reward_funcs"] == ["to do"]


@pytest.mark.parametrize(("handed", "before"), [("make(args.unsaid)", ""), ("make(unsaid)", "unsaid = args.unsaid")])
def test_what_a_function_is_made_with_is_to_do_where_no_command_is_known(
    tmp_path: Path, handed: str, before: str
) -> None:
    by_command = made_by(tmp_path, handed, before).scored_by
    assert by_command is not None
    assert "\nmake_ = make(None)\n" in by_command.text
    run = read_run(tmp_path / "train.py", {"target": "2"}, {})
    assert run.scored_by is None
    assert [item.what for item in run.remarks if item.key == "reward_funcs"] == ["to do"]


def test_what_stands_at_the_top_by_an_option_that_nobody_has_said_is_to_do(tmp_path: Path) -> None:
    read = "parser = argparse.ArgumentParser()\nparser.add_argument('--kind')\nargs = parser.parse_args()\n"
    rest = "KINDS = {'short': [size]}\nchosen = KINDS[args.kind]\nconfig = GRPOConfig(num_generations=4)\n"
    rest += "GRPOTrainer(model='a/b', args=config, reward_funcs=chosen, train_dataset=rows).train()\n"
    checkout(tmp_path, **{"train.py": LEAST + read + rest})
    assert read_run(tmp_path / "train.py", {}, {}).scored_by is None
    scored_by = launch(tmp_path, "python train.py --kind short").scored_by
    assert scored_by is not None
    assert (scored_by.functions, scored_by.is_open) == (("size",), False)


def test_weights_that_are_not_as_many_as_the_functions_are_to_do(tmp_path: Path) -> None:
    run = made_by(tmp_path, "[near, inner]", more=", reward_weights=[1.0, 2.0, 3.0]")
    assert run.scored_by is None
    assert {"reward_funcs", "reward_weights"} <= {item.key for item in run.remarks}


@pytest.mark.parametrize(
    "judge", ["'own/judge'", "judge", "[AutoModelForSequenceClassification.from_pretrained('own/judge').to('cuda')]"]
)
def test_a_model_that_scores_is_the_reward_model(tmp_path: Path, judge: str) -> None:
    before = "judge = AutoModelForSequenceClassification.from_pretrained('own/judge', num_labels=1)"
    run = made_by(tmp_path, judge, before)
    found = translated(run)
    assert (found["reward_model.enable"], found["reward_model.model.path"]) == (True, "own/judge")
    assert not {"reward_funcs", "reward_model_name_or_path"} & {item.key for item in run.remarks}


@pytest.mark.slow
@pytest.mark.usefixtures("verl")
@pytest.mark.parametrize(
    ("handed", "expected"),
    [
        ("[inner, partial(near, target=args.target), Tagged('four')]", 0.25 + 4 * 0.5 - 2 + 1),
        ("several(args.bonus)", 0.5 + 1.0),
    ],
)
@pytest.mark.parametrize("place", ["def main():", 'if __name__ == "__main__":'])
def test_functions_that_a_script_makes_score_as_there(
    tmp_path: Path, package: Path, handed: str, expected: float, place: str
) -> None:
    made_by(tmp_path / "theirs", handed, place=place)
    script = tmp_path / "theirs" / "run.sh"
    done = vextract("new", package, "--package", "of_trl", "--from-verl-run", script, "--offline")
    assert done.code == 0, done.err
    copied = (package / "of_trl" / "custom" / "trl_rewards.py").read_text()
    assert "argparse" not in copied
    report = (package / "from_run.md").read_text()
    assert ("rows need what they take: answer" in report) == ("partial" in handed)
    assert [item["score"] for item in scores(package, ["four"], answer="2")] == [expected]


@pytest.mark.usefixtures("verl")
def test_what_functions_take_of_the_rows_is_said_and_messages_of_another_column_reach_them(
    tmp_path: Path, package: Path
) -> None:
    text = (
        "from own.rewards import size\n"
        "def near(completions, target, numbers=None, scale=2, **rest):\n"
        "    read = completions[0][0]['content'], rest['unit'], rest.get('names'), scale\n"
        "    return [float(len(read) + len(target) + len(numbers))]\n\n"
        "bundle = size('near')\nchosen = [near, bundle]\n"
        "GRPOTrainer(model='a/b', reward_funcs=chosen, args=GRPOConfig(dataset_prompt_column='question')).train()\n"
    )
    own = "from datasets import load_dataset\n\ndef size(name):\n    rows = load_dataset(name)\n    return make(rows)\n"
    own += "\ndef make(rows):\n    return lambda completions, **more: [1.0 for one in completions]\n"
    files = {"train.py": text, "own/__init__.py": "", "own/rewards.py": own}
    checkout(tmp_path / "theirs", **files)
    done = vextract(
        *("new", package, "--package", "of_trl", "--from-verl-run", tmp_path / "theirs" / "train.py", "--offline")
    )
    assert done.code == 0, done.err
    report = (package / "from_run.md").read_text()
    assert "rows need what they take: target, unit |" in report
    assert "or they go without: numbers, names |" in report
    assert "loads data when it is imported" in report
    assert "return_raw_chat: true" in (package / "config" / "recipe" / "verl_run.yaml").read_text()


def test_names_of_earlier_releases_and_trainers_of_other_packages(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    config = "GRPOConfig(num_generations=2, evaluation_strategy='steps', eval_steps=7, vllm_max_model_len=900)"
    script.write_text(
        f"from trl import GRPOConfig\nfrom own.trainers import GRPOTrainer\n{LEAST}"
        f"GRPOTrainer(model='a/b', reward_funcs=size, args={config}, train_dataset=rows).train()\n"
    )
    run = read_run(script, {}, {})
    found = translated(run)
    assert (found["trainer.test_freq"], found[f"{ROLLOUT}.max_model_len"]) == (7, 900)
    assert [item.value for item in run.remarks if item.key == "GRPOTrainer"] == ["own.trainers.GRPOTrainer"]


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


def test_a_script_whose_command_says_all_is_refused_with_where_commands_are(tmp_path: Path) -> None:
    script = "args = TrlParser((GRPOConfig,)).parse_args_and_config()\nGRPOTrainer(model='a/b', args=args)\n"
    commands = {
        "README.md": "```\naccelerate launch --num_processes 2 \\\n    src/train.py --beta 0.1\n```\n",
        "jobs/one.slurm": "srun python src/train.py --beta 0.1\n",
        "jobs/two.sh": "python src/train.py.bak; python other/retrain.py\n",
    }
    checkout(tmp_path, **{"src/train.py": script, **commands})
    (tmp_path / ".git").mkdir()
    with pytest.raises(UsageError) as caught:
        read_run(tmp_path / "src/train.py", {}, {})
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("(here: jobs/one.slurm, README.md)")


def test_of_a_page_with_commands_of_a_script_the_first_that_trains_is_taken(tmp_path: Path) -> None:
    page = "# How\n\n```bash\npython prepare.py --all\n```\n\nTry it:\n\n```bash\npython train.py --target 3\n```\n"
    page += "\nThen:\n\n```\nCUDA_VISIBLE_DEVICES=0 python train.py --target 4\n```\n"
    checkout(tmp_path, **{"train.py": INSTALLS.replace("HANDED", "score"), "README.md": page})
    run = read_run(tmp_path / "README.md", {}, {})
    assert run.scored_by is not None
    assert run.notes == ("2 launches: the first, in line 10, is the one that is taken",)


@pytest.mark.parametrize(
    "imports", ["from verl.trainer import GRPOTrainer", "import verl.trainer as own\nGRPOTrainer = own.GRPOTrainer"]
)
def test_a_trainer_of_verls_of_that_name_is_none_of_trls(tmp_path: Path, imports: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        f"{imports}\nGRPOTrainer(model='a/b', reward_funcs=[], config={{'learning_rate': 1e-6}}).train()\n"
    )
    with pytest.raises(UsageError, match="it starts no trainer"):
        read_run(script, {}, {})
