"""Runs under short names: PPOTrainer and GRPOTrainer from Python."""

import subprocess
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import answer_of, forked, python
from tests.project.support import PACKAGE, TOGETHER, Configuration, Maker
from tests.releases import newest_release

pytestmark = pytest.mark.slow
REST = ["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16", "trainer.val_before_train=false"]
REST += ["trainer.test_freq=-1", "trainer.logger=[console]"]
BEGIN = f"""
import json
from {PACKAGE} import ConfigError, GRPOConfig, GRPOTrainer, PPOTrainer, TrainingConfig, load_config
REST = dict(word.split("=") for word in {REST!r}) | {{"trainer.logger": ["console"]}}
REST = {{key: json.loads(value) if isinstance(value, str) else value for key, value in REST.items()}}
def said(function):
    try:
        function()
    except ConfigError as error:
        return str(error)
"""


def run(root: Path, program: str, start: Callable[..., subprocess.CompletedProcess[str]] = forked) -> Any:
    return answer_of(root, BEGIN + textwrap.dedent(program), start=start)


def test_a_data_loader_and_a_loaded_model(newest: Path) -> None:
    """The settings of a loaded model are not those of the toy model, which has no path either."""
    found = run(
        newest,
        f"""
        from torch.utils.data import DataLoader
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from {PACKAGE}.data.toy import ensure_toy_model
        from pathlib import Path
        path = ensure_toy_model(Path("model"))
        model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)
        rows = [{{"prompt": f"{{a}}7=", "ground_truth": f"{{a + 1}}8"}} for a in range(9)]
        settings = {{**REST, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu": 24}}
        args = TrainingConfig(max_prompt_length=8, max_response_length=2, total_epochs=2, settings=settings)
        with GRPOTrainer(model, args=args, tokenizer=tokenizer) as trainer:
            result = trainer.train(DataLoader(rows, batch_size=3))
            found = [result.steps, trainer.model is model, trainer.config.data.shuffle]
            found += [trainer.config.actor_rollout_ref.actor.optim.lr, trainer.config.actor_rollout_ref.rollout.n]
            print(json.dumps([*found, said(lambda: trainer.train(rows))]))
        """,
    )
    assert found[:-1] == [6, True, False, 1e-6, 8]
    assert "given already" in found[-1]


def test_a_script_for_trl_needs_another_import(newest: Path) -> None:
    found = run(
        newest,
        f"""
        from datasets import Dataset
        from {PACKAGE}.data.toy import ensure_toy_model
        from pathlib import Path
        model = str(ensure_toy_model(Path("trl_model")))
        dataset = Dataset.from_list([{{"prompt": f"{{n}}=", "solution": str(n)}} for n in range(40)])

        def right(completions, solution, **kwargs):
            return [float(text == wanted) for text, wanted in zip(completions, solution)]

        def long(completions, **kwargs):
            return [float(len(text)) for text in completions]

        args = GRPOConfig(
            output_dir="trl", learning_rate=1e-3, per_device_train_batch_size=8, gradient_accumulation_steps=2,
            num_generations=4, max_prompt_length=16, max_completion_length=4, max_steps=1, logging_steps=1, beta=0.1,
            report_to="none", reward_weights=[1.0, 0.5], lr_scheduler_type="cosine", optim="adamw_torch",
            adam_beta2=0.99,
            top_k=0, save_total_limit=2, save_strategy="no", gradient_checkpointing_kwargs={{"use_reentrant": False}},
        )
        trainer = GRPOTrainer(model=model, reward_funcs=[right, long], args=args, train_dataset=dataset)
        row = trainer.train().metrics[1]
        trainer.save_model("trl/final")
        known = [row[f"reward/{{name}}/mean"] for name in ("right", "long")] + [row["critic/score/mean"]]
        betas = trainer.trainer.policy.optimizer.param_groups[0]["betas"]
        print(json.dumps([known, row["training/global_step"], "actor/kl_loss" in row, "actor/pg_loss" in row, betas]))
        """,
    )
    (right, long, score), *rest = found
    assert rest == [1, True, True, [0.9, 0.99]]
    assert 0 < long <= 12
    assert score == pytest.approx(right + 0.5 * long)
    assert (newest / "trl/final/tokenizer.json").is_file()


def test_what_python_is_told(newest: Path) -> None:
    found = run(
        newest,
        """
        import sys
        answers = [
            said(lambda: PPOTrainer("model")),
            said(lambda: GRPOTrainer(args=load_config())),
            said(lambda: GRPOTrainer(args=TrainingConfig(seed=1, settings={"local.seed": 2}))),
            said(lambda: GRPOTrainer(args=GRPOConfig(per_device_train_batch_size=4, num_generations=8))),
            said(lambda: GRPOTrainer(args=GRPOConfig(loss_type="sft"))),
            said(lambda: GRPOTrainer(args=GRPOConfig(use_vllm=True))),
            said(lambda: GRPOConfig(max_completions_length=4)),
        ]
        light = "torch" not in sys.modules
        made = GRPOTrainer(args=GRPOConfig(per_device_train_batch_size=4, gradient_accumulation_steps=4, max_steps=9,
            num_generations=8, num_iterations=2, beta=0.0, epsilon_high=0.3, report_to="none", save_steps=4)).config
        actor = made.actor_rollout_ref.actor
        sizes = [made.data.train_batch_size, actor.ppo_mini_batch_size, actor.ppo_micro_batch_size_per_gpu]
        loss = [actor.use_kl_loss, actor.clip_ratio_high, list(made.trainer.logger)]
        steps = [made.trainer.total_training_steps, made.trainer.save_freq]
        print(json.dumps([answers, light, sizes, loss, steps]))
        """,
        python,
    )
    answers, *rest = found
    parts = ("vextract add critic", "TrainingConfig", "seed stands for", "not 8 to each", "dr_grpo", "--engine")
    for answer, part in zip(answers, (*parts, "max_completion_length?"), strict=True):
        assert part in answer
    assert rest == [True, [2, 2, 4], [False, 0.3, ["console"]], [5, 2]]


@pytest.mark.parametrize("release", newest_release("0.4.0"))
def test_every_key_of_the_table_is_one_of_the_release(made: Maker, release: str, tmp_path: Path) -> None:
    root = made(Configuration(release, "hf", features=TOGETHER)).root
    program = f"""
    from {PACKAGE}.api.names.short_names import TrainingConfig, table
    from {PACKAGE}.api.names.trl_names import GRPOConfig
    from {PACKAGE}.settings.setting import SETTINGS
    known = SETTINGS
    shorts = [short for names in (TrainingConfig, GRPOConfig) for preset in ("grpo", "ppo")
              for short in table(names, preset).values()]
    print(sorted({{key for short in shorts for key in (*short.keys, *short.follow, short.switch)}} - known))
    """
    done = python(root, "-B", "-c", textwrap.dedent(program))
    assert done.stdout.strip() == "['']", (done.stdout, done.stderr[-2000:])
