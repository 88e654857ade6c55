"""Runs in a project: `python driver.py MODE MODEL RUN RELEASE_SOURCE [key=value ...]`; prints JSON in its last line."""

import ast
import json
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(Path.cwd()), str(HERE)]

import models  # noqa: E402
import pictures  # noqa: E402
from toy import LocalPPOTrainer, load_config  # noqa: E402
from toy.data.images import processor_of, response_positions  # noqa: E402
from toy.errors import ProjectError  # noqa: E402

SIZES = (
    "scale=toy",
    "data.max_prompt_length=64",
    "data.max_response_length=2",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.actor.optim.lr=0.003",
    "data.train_batch_size=16",
    "actor_rollout_ref.actor.ppo_mini_batch_size=16",
)


def main(mode: str, model: str, run: str, source: str, *settings: str) -> None:
    """Train, or compare a step with upstream's functions and plain transformers, and say what is refused."""
    if not Path(model).exists():
        models.save_model(Path(model).name, Path(model))
    config = load_config(f"actor_rollout_ref.model.path={model}", f"trainer.default_local_dir={run}", *SIZES, *settings)
    if mode == "learn":
        trainer = LocalPPOTrainer(config, reward_fn=pictures.is_right)
        trainer.fit(pictures.rows(1, 256), pictures.rows(2, 48))
        return
    rows = pictures.rows(1, 8)
    rows[0] |= {"prompt": "<image>or <image>?", "images": rows[0]["images"] + rows[5]["images"]}
    rows[3] = {"prompt": "which?", "ground_truth": "red"}  # no image
    rows[1]["images"] = [pictures.stored(rows[1])["images"][0]["bytes"]]
    rows[2]["prompt"] = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "colour?"}]}]
    trainer = LocalPPOTrainer(config, reward_fn=_by_length)
    trainer.assemble(rows)
    answer: dict[str, Any] = {"as_upstream": _as_upstream(trainer, Path(source))}
    answer["refused"] = [(said, _refusal(model, f"{run}_refused", change)) for said, change in REFUSED.items()]
    start = {name: weight.detach().clone() for name, weight in trainer.policy.module.named_parameters()}
    batch, metrics = trainer.train_step(next(iter(trainer.train_loader)))
    ratio = float(metrics["actor/grad_norm"])
    with torch.no_grad():
        for name, weight in trainer.policy.module.named_parameters():
            weight.copy_(start[name])
    answer["log_probs"], gradient = _plainly(trainer, batch)
    answer["gradient"] = [ratio, gradient]
    answer["lengths"] = batch.batch["attention_mask"].sum(-1).tolist()
    print(json.dumps(answer))


# What is said of a row that is changed, or with a setting.
REFUSED: dict[str, Callable[[dict[str, Any]], object] | str] = {
    "row 1: its prompt has 0 <image>, and its column images 1 images": lambda row: row.update(prompt="colour?"),
    "row 1: cannot open an image: [Errno 2]": lambda row: row.update(images=["nowhere.png"]),
    "row 1: cannot open an image: cannot identify image file": lambda row: row.update(images=[b"no image"]),
    "row 1: it has videos, and a model sees images only here": lambda row: row.update(videos=["film.mp4"]),
    "more than data.max_prompt_length=12": "data.max_prompt_length=12",
    "prompts have images, and a critic reads text only": "algorithm.adv_estimator=gae",
    "cannot be given any: its model reads text only": "actor_rollout_ref.model.path=null",
}


def _refusal(model: str, run: str, change: Callable[[dict[str, Any]], object] | str) -> str:
    """What is said of four rows, of which the second has been changed, or of a setting."""
    rows, settings = pictures.rows(1, 4), [change] if isinstance(change, str) else []
    if not isinstance(change, str):
        change(rows[1])
    given = ("scale=toy", f"trainer.default_local_dir={run}", f"actor_rollout_ref.model.path={model}", *settings)
    try:
        config = load_config("data.max_prompt_length=64", *given)
        LocalPPOTrainer(config, reward_fn=pictures.is_right).assemble(rows)
    except ProjectError as error:
        return str(error)
    return ""


def _by_length(data_source: str, solution_str: str, ground_truth: str, extra_info: Any) -> float:
    return float(len(solution_str) + solution_str.count("a"))


def _as_upstream(trainer: Any, source: Path) -> list[bool]:
    """Whether positions and inputs are those that upstream's agent loop computes, which is taken from its file."""
    names: dict[str, Any] = {"torch": torch, "Optional": typing.Optional, "Any": Any}
    tokenizer = source / "utils/tokenizer/tokenizer.py"
    wanted = {"get_processor_token_id", "build_multimodal_processor_inputs", "_split_videos_and_metadata"}
    _define(tokenizer.read_text(encoding="utf-8"), wanted, names)
    _define((source / "utils/model.py").read_text(encoding="utf-8"), {"compute_position_id_with_mask"}, names)
    loop = source / "experimental/agent_loop/agent_loop.py"
    _define(loop.read_text(encoding="utf-8"), {"_compute_multi_modal_inputs", "_compute_position_ids"}, names)
    worker = SimpleNamespace(processor=processor_of(trainer.tokenizer), tokenizer=trainer.tokenizer)
    worker._get_mm_processor_kwargs = lambda audios: {}
    found = []
    for item in trainer.train_loader.dataset.__getitems__(range(4)):
        words = trainer.tokenizer("blue?", return_tensors="pt")["input_ids"][0]
        input_ids = torch.cat([item["input_ids"], words])[None]
        mask = torch.cat([item["attention_mask"], torch.ones_like(words)])[None]
        images = item["multi_modal_data"].get("image")
        output = SimpleNamespace(multi_modal_data={"images": images}, mm_processor_kwargs=None)
        inputs = names["_compute_multi_modal_inputs"](worker, output, input_ids)
        positions = names["_compute_position_ids"](worker, input_ids, mask, inputs)
        own = response_positions(item["position_ids"][None], len(words))
        inputs.pop("images_seqlens", None)  # of upstream's count of operations
        of_item = item["multi_modal_inputs"]
        is_same = inputs.keys() == of_item.keys() and all(torch.equal(inputs[name], of_item[name]) for name in inputs)
        found.append(is_same and torch.equal(positions[..., mask[0].bool()], own[..., mask[0].bool()]))
    return found


def _define(text: str, wanted: set[str], names: dict[str, Any]) -> None:
    nodes = [node for node in ast.walk(ast.parse(text)) if getattr(node, "name", None) in wanted]
    exec(compile(ast.Module(nodes, []), "upstream", "exec"), names)


def _plainly(trainer: Any, batch: Any) -> tuple[float, float]:
    """How far plain transformers' log-probabilities are from the batch's, and the norm of the gradient by them."""
    model, columns = trainer.policy.module.eval(), batch.batch
    image = processor_of(trainer.tokenizer).image_token_id
    worst, losses, tokens = 0.0, [], int(columns["response_mask"].sum())
    model.zero_grad()
    for row in range(len(batch)):
        ids = columns["input_ids"][row][columns["attention_mask"][row].bool()][None]
        inputs = dict(batch.non_tensor_batch["multi_modal_inputs"][row])
        if inputs:
            inputs["mm_token_type_ids"] = (ids == image).long()
        written = int(columns["response_mask"][row].sum())
        logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), **inputs).logits[0, -written - 1 : -1]
        own = logits.log_softmax(-1).gather(-1, ids[0, -written:, None])[:, 0]
        for name in ("old_log_probs", "ref_log_prob"):
            worst = max(worst, float((own - columns[name][row, :written]).abs().max()))
        losses.append(-(columns["advantages"][row, :written] * (own - own.detach()).exp()).sum() / tokens)
    torch.stack(losses).sum().backward()
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
    return worst, float(torch.nn.utils.get_total_norm(gradients))


if __name__ == "__main__":
    main(*sys.argv[1:])
