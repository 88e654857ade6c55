"""Run methods of a fork or project on a made-up batch."""

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from .cases import with_gradient
from .run import Job, run_case
from .sides import NotVendored, Side, Upstream, Vendored

_PROMPTS, _EACH, _LENGTH = 2, 4, 6


def run_methods(job: Job) -> dict[str, Any]:
    """Run the methods of a job and return their results.

    The job has side, root, roots, package, modules, methods, config and scratch.
    """
    torch.set_num_threads(1)
    os.chdir(job["scratch"])
    root, scratch = Path(job["root"]), Path(job["scratch"])
    is_fork = job["side"] == "fork"
    side: Side = (
        Upstream(root, frozenset(), scratch) if is_fork else Vendored(root, job["modules"], frozenset(), scratch)
    )
    sys.path[1:1] = job["roots"]
    if is_fork:
        config = OmegaConf.create(job["config"])
    else:
        package = importlib.import_module(job["package"])
        importlib.import_module(f"{job['package']}.custom.algorithms")  # another hook may lack a package
        config = package.load_config()
        OmegaConf.resolve(config)
    OmegaConf.set_struct(config, False)
    config.actor_rollout_ref.rollout.n = _EACH
    results = {}
    for method in job["methods"]:
        results[method["key"]] = _compute(side, method, config, job["package"])
    return {"results": results, "config": OmegaConf.to_container(config)}


def _compute(side: Side, method: dict[str, Any], config: Any, package: str) -> dict[str, Any]:
    """Return a method's results for each form that columns of its own may have.

    Tensors are numbers per token, or per response ("rows"); arrays are numbers, or texts.
    """
    result: dict[str, Any] = {}
    for values in ("numbers", *["texts"] * bool(method["arrays"]), *["rows"] * bool(method["tensors"])):
        make = _compute_loss if method["kind"] == "policy loss" else _compute_advantages
        result[values] = run_case(lambda values=values, make=make: make(side, method, config, package, values))
    return result


def _compute_advantages(side: Side, method: dict[str, Any], config: Any, package: str, values: str) -> Any:
    """Return advantages and returns."""
    batch = _make_batch(side, method, values)
    now = SimpleNamespace(
        batch=batch, config=config, step=3, total_steps=10, tokenizer=None, column=_choose_column(batch)
    )
    if side.upstream:
        given = eval(f"dict({', '.join(method['arguments'])})", {"now": now})  # by this package alone
        found = side.get(method["symbol"])
        result = found(batch, **given) if method["is_branch"] else found(**given)
        if not method["is_branch"]:
            return result[:2]
        data = result[0] if isinstance(result, tuple) else result
        return data.batch["advantages"], data.batch["returns"]
    hooks = importlib.import_module(f"{package}.hooks")
    hooks.at_hand.set(hooks.AtHand(batch, config, now.step, now.total_steps, None))
    algorithm = config.algorithm
    data = importlib.import_module(f"{package}.registries").compute_advantage(
        batch,
        adv_estimator=method["name"],
        gamma=algorithm.gamma,
        lam=algorithm.lam,
        num_repeat=_EACH,
        norm_adv_by_std_in_grpo=algorithm.norm_adv_by_std_in_grpo,
        config=algorithm,
    )
    return data.batch["advantages"], data.batch["returns"]


def _compute_loss(side: Side, method: dict[str, Any], config: Any, package: str, values: str) -> Any:
    """Return the loss and its gradient."""
    shape = (_PROMPTS * _EACH, _LENGTH)
    log_prob = (torch.randn(shape) * 0.3).requires_grad_()
    given = {
        "old_log_prob": torch.randn(shape) * 0.3,
        "log_prob": log_prob,
        "advantages": torch.randn(shape),
        "response_mask": _make_mask(),
        "loss_agg_mode": "token-mean",
        "config": _make_actor_config(side, config.actor_rollout_ref.actor, method["name"]),
        "rollout_is_weights": None,
    }
    batch = _make_batch(side, method, values)
    of_pass = {**batch.batch, **batch.non_tensor_batch, "entropy": batch.batch["entropys"]}
    if side.upstream or not method["is_hook"]:
        function = side.get(method["symbol"])
        result = function(**eval(f"dict({', '.join(method['arguments'])})", {**given, "now": of_pass}))
    else:
        hooks = importlib.import_module(f"{package}.custom.algorithms")
        if hasattr(hooks, "of_pass"):  # what a fork's loss reads of its micro-batch
            hooks.of_pass.set(of_pass)
        result = importlib.import_module(f"{package}.registries").get_policy_loss_fn(method["name"])(**given)
    return with_gradient((result[0] if isinstance(result, tuple) else result,), log_prob)


def _make_actor_config(side: Side, section: Any, loss: str) -> Any:
    """Return the section of the actor, as its class in releases that have one."""
    if "policy_loss" in section:
        section.policy_loss.loss_mode = loss
    try:
        cls = side.get("verl.workers.config.actor:ActorConfig")
    except NotVendored:
        return section
    made = {item.name: item.default_factory() for item in fields(cls) if callable(item.default_factory)}
    config = object.__new__(cls)  # without its checks of what no loss reads
    config.__dict__.update({**made, **section})
    return config


def _make_batch(side: Side, method: dict[str, Any], values: str) -> Any:
    rows = _PROMPTS * _EACH
    shape, whole = (rows, _LENGTH), (rows, 2 * _LENGTH)
    mask = _make_mask()
    rewards = torch.zeros(shape)
    rewards[torch.arange(rows), mask.sum(-1).long() - 1] = torch.randint(0, 2, (rows,)).float()
    of_tokens = values != "rows"
    tensors = {
        "prompts": torch.randint(0, 50, shape),
        "responses": torch.randint(0, 50, shape),
        "input_ids": torch.randint(0, 50, whole),
        "attention_mask": torch.cat([torch.ones(shape), mask], dim=1).long(),
        "position_ids": torch.arange(2 * _LENGTH).expand(whole).clone(),
        "response_mask": mask,
        "token_level_rewards": rewards,
        "token_level_scores": rewards.clone(),
        **{name: torch.randn(shape) for name in ("old_log_probs", "ref_log_prob", "values", "entropys")},
        **{name: torch.rand(shape if of_tokens else shape[:1]) for name in method["tensors"]},
        **_divide(mask, [name for name in method["tensors"] if name.endswith("mask")]),
        "loss_mask": torch.cat([torch.zeros(shape), mask], dim=1),
    }
    texts = method["texts"] or ["a text", "another"]
    arrays = {"uid": np.array([str(row // _EACH) for row in range(rows)], dtype=object)}
    of_rows = {"data_source": "a source", "reward_model": {"ground_truth": "4"}, "extra_info": {"index": 0}}
    arrays |= {name: np.array([value] * rows, dtype=object) for name, value in of_rows.items()}
    for name in method["arrays"]:
        given = [texts[row % len(texts)] if values == "texts" else float(row) for row in range(rows)]
        arrays[name] = np.array(given, dtype=object)
    batch = side.get("verl.protocol:DataProto").from_dict(tensors=tensors, non_tensors=arrays)
    batch.meta_info.update(global_steps=3)
    return batch


def _make_mask() -> torch.Tensor:
    lengths = torch.tensor([_LENGTH - row % 3 for row in range(_PROMPTS * _EACH)])
    return (torch.arange(_LENGTH)[None, :] < lengths[:, None]).float()


def _divide(mask: torch.Tensor, names: list[str]) -> dict[str, torch.Tensor]:
    """Give each mask its share of the response's tokens, shape (bs, response_length)."""
    positions = torch.arange(mask.shape[1]) * len(names) // mask.shape[1]
    return {name: mask * (positions == index) for index, name in enumerate(names)}


def _choose_column(batch: Any) -> Callable[[str], Any]:
    return lambda name: batch.batch[name] if name not in batch.non_tensor_batch else batch.non_tensor_batch[name]
