"""A toy model learns to use a calculator: it is shown how by demonstrations, and gets it right by rewards."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.environments.support import MULTI_TURN
from tests.project.running import metrics_of, python
from tests.project.support import Configuration, forget, make

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
# What stands around the numbers of a call is a token each, so that the toy learns to copy and not to spell.
FRAME = ('<tool_call>{"name": "add", "arguments": {"a": ', ', "b": ', "}}</tool_call>")
TOOL = '''
from calculator.vendored.tools.function_tool import function_tool


@function_tool
def add(a: int, b: int) -> str:
    """Add two numbers.

    Args:
        a: one.
        b: another.
    """
    return str(a + b)
'''
# The share of the call's tokens that are right, and of the answer's; `acc` counts answers after a call alone.
REWARD = f"""
import re

FRAME = {FRAME!r}
PIECES = re.compile("|".join(map(re.escape, FRAME)) + "|.", re.DOTALL)


def share(said, wanted):
    said, wanted = PIECES.findall(said), PIECES.findall(wanted)
    return sum(one == other for one, other in zip(said, wanted)) / max(len(said), len(wanted))


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    turns = [message["content"] for message in extra_info["conversation"] if message["role"] == "assistant"]
    a, b = extra_info["terms"]
    call = share(turns[0], f"{{FRAME[0]}}{{a}}{{FRAME[1]}}{{b}}{{FRAME[2]}}")
    answer = share(turns[1], ground_truth) if len(turns) == 2 else 0.0
    return {{"score": 0.6 * call + 0.4 * answer, "acc": float(answer == 1)}}
"""
LEARNED = 60


# The toy model of a project with vLLM has other heads, and copies sooner from demonstrations and later from rewards.
@pytest.mark.parametrize(
    ("engine", "shown", "least"), [("hf", 60, 0.85), pytest.param("vllm", 30, 0.4, marks=pytest.mark.vllm)]
)
def test_held_out_sums_come_out_right(verl: None, tmp_path: Path, engine: str, shown: int, least: float) -> None:
    """300 demonstrations, then rewards: of 100 other sums more are right after than before."""
    if engine == "vllm":
        pytest.importorskip("vllm")
    configuration = Configuration("0.9.1", engine, features=("tools", "sft"), package="calculator")
    root = make(configuration, tmp_path / "project").root
    model = _save_model(root)
    _write_data(root)
    _run(
        root,
        "shown",
        shown,
        *("--config-name", "sft", f"actor_rollout_ref.model.path={model}", "data.train_files=shown.jsonl"),
        *("data.train_batch_size=100", "data.max_length=64", "actor_rollout_ref.actor.optim.lr=5e-3"),
        "trainer.test_freq=-1",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=100",
    )
    rows = _run(
        root,
        "learned",
        LEARNED,
        f"actor_rollout_ref.model.path=shown/global_step_{shown}/actor",
        *("data.train_files=train.jsonl", "data.val_files=val.jsonl", "data.max_prompt_length=12"),
        *(f"{MULTI_TURN}.enable=true", f"{MULTI_TURN}.function_tool_path=calculator_tools.py"),
        *(f"{MULTI_TURN}.max_assistant_turns=2", "data.max_response_length=20", "local.env.max_turn_tokens=8"),
        *("reward.custom_reward_function.path=rewarded.py", "actor_rollout_ref.actor.entropy_coeff=0.05"),
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1024",
        *("trainer.val_before_train=true", f"trainer.test_freq={LEARNED}"),
    )
    right = [row[key] for row in rows for key in row if key.startswith("val-core/") and "/acc/" in key]
    assert right[0] + 0.15 <= right[-1] >= least
    assert rows[-1]["env/tool_calls/mean"] > 0.99
    forget("calculator")


def _save_model(root: Path) -> str:
    """A toy model of two layers whose tokenizer has the pieces of a call as tokens."""
    import torch
    from tokenizers import AddedToken
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(root))
        from calculator.data.toy import ensure_toy_model

    made = ensure_toy_model(root / "toy", task="add1", layers=2)
    tokenizer, model = AutoTokenizer.from_pretrained(made), AutoModelForCausalLM.from_pretrained(made)
    tokenizer.add_tokens([AddedToken(piece, special=False, normalized=False) for piece in FRAME])
    torch.manual_seed(0)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    tokenizer.save_pretrained(root / "model")
    model.save_pretrained(root / "model")
    return "model"


def _write_data(root: Path) -> None:
    sums = [(a, b) for a in range(10, 90) for b in range(10, 100 - a)]
    random.Random(0).shuffle(sums)
    for split, chosen in {"val": sums[:100], "train": sums[100:]}.items():
        rows = [{"prompt": f"{a}+{b}=", "ground_truth": str(a + b), "extra_info": {"terms": [a, b]}} for a, b in chosen]
        (root / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    conversations = [
        [
            {"role": "user", "content": f"{a}+{b}="},
            {"role": "assistant", "content": f"{FRAME[0]}{a}{FRAME[1]}{b}{FRAME[2]}"},
            {"role": "tool", "content": str(a + b)},
            {"role": "assistant", "content": str(a + b)},
        ]
        for a, b in sums[-300:]
    ]
    (root / "shown.jsonl").write_text("".join(json.dumps({"messages": said}) + "\n" for said in conversations))
    (root / "calculator_tools.py").write_text(TOOL)
    (root / "rewarded.py").write_text(REWARD)


def _run(root: Path, name: str, count: int, *settings: str) -> list[dict[str, Any]]:
    common = ("scale=toy", "trainer.logger=[console]", f"trainer.default_local_dir={name}")
    steps = f"trainer.total_training_steps={count}"
    done = python(root, "main.py", *settings[:2], *common, steps, *settings[2:], timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    return metrics_of(root / name)
