"""What a policy learns from a teacher on a server, beside what it learns from the same one in its process.

python teacher_driver.py PACKAGE model OUT           makes the teacher, in the directory OUT
python teacher_driver.py PACKAGE compare OUT DIRECTORY URL...    writes to OUT how far apart the two are
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path.cwd()))

LOSS = "distillation.distillation_loss"
SMALL = (
    "preset=distill",
    "local.device=cpu",
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=2",
    "actor_rollout_ref.rollout.temperature=0.8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.logger=[]",
    "local.save_last=false",
)


def make_teacher(package: str, directory: str) -> None:
    """The toy model with heads of a size that vLLM knows on a CPU, and weights of its own."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    importlib.import_module(f"{package}.data.toy").ensure_toy_model(Path(directory), task="succ2")
    config = Qwen2Config.from_pretrained(directory)
    config.hidden_size, config.num_attention_heads, config.num_key_value_heads = 64, 2, 1
    torch.manual_seed(3)
    model = Qwen2ForCausalLM(config).float()
    model.generation_config.pad_token_id = model.generation_config.eos_token_id = config.eos_token_id
    model.save_pretrained(directory)


def losses(package: str) -> Iterator[tuple[str, list[str]]]:
    """Every loss that the release registers, each way in which it can be used, with its settings."""
    module = importlib.import_module(f"{package}.vendored.algorithms.distillation.losses")
    for name in sorted(module.DISTILLATION_LOSS_REGISTRY):
        for by_policy in (False, True):
            if name == "k1" and not by_policy:
                continue  # upstream refuses it
            for rewards in (False, True):
                settings = {"loss_mode": name, "use_policy_gradient": by_policy, "use_task_rewards": rewards, "topk": 6}
                label = f"{name}{' by policy gradient' * by_policy}{' with rewards' * rewards}"
                yield label, [f"{LOSS}.{key}={value}".lower() for key, value in settings.items()]


def step(package: str, *settings: str) -> dict[str, Any]:
    """One step: what the teacher says of each token of the responses, the loss, and the gradients."""
    load_config = importlib.import_module(f"{package}.settings.loading").load_config
    trainer_class = importlib.import_module(f"{package}.training.trainer").LocalPPOTrainer
    with tempfile.TemporaryDirectory() as directory:
        config = load_config(Path("config"), [*SMALL, f"trainer.default_local_dir={directory}", *settings])
        with trainer_class(config) as trainer:
            gradients: list[torch.Tensor] = []

            def keep(optimizer: Any, *_: Any) -> None:
                for group in optimizer.param_groups:
                    gradients.extend(weight.grad.clone() for weight in group["params"] if weight.grad is not None)

            trainer.policy.optimizer.register_step_pre_hook(keep)
            done = next(iter(trainer.steps()))
            batch, metrics = done.batch.batch, done.metrics
    said = batch["attention_mask"][:, -batch["responses"].shape[1] :].bool()
    places = slice(batch["prompts"].shape[1] - 1, -1)
    return {
        "log_probs": batch["teacher_logprobs"][:, places][said],
        "tokens": batch["teacher_ids"][:, places][said],
        "responses": batch["responses"],
        "loss": metrics["actor/distillation/loss"],
        "gradients": torch.cat([gradient.flatten() for gradient in gradients]),
    }


def compare(package: str, out: str, directory: str, every: str, *urls: str) -> None:
    """Do the step of each loss, or of every third, twice."""
    found = {}
    for name, settings in list(losses(package))[:: int(every)]:
        here = step(package, *settings, f"distillation.teacher_models.teacher_model.model_path={directory}")
        there = step(package, *settings, f"local.teacher_server.url=[{','.join(urls)}]")
        assert torch.equal(here["responses"], there["responses"])
        found[name] = {
            "places": len(here["log_probs"]),
            "log_probs": (here["log_probs"] - there["log_probs"]).abs().max().item(),
            "tokens": (here["tokens"] != there["tokens"]).sum().item(),
            "loss": abs(here["loss"] - there["loss"]),
            "gradients": (here["gradients"] - there["gradients"]).abs().max().item(),
            "gradient": here["gradients"].abs().max().item(),
        }
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    does: dict[str, Callable[..., None]] = {"model": make_teacher, "compare": compare}
    torch.set_num_threads(1)
    does[sys.argv[2]](sys.argv[1], *sys.argv[3:])
