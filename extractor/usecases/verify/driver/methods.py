"""Run methods of a fork or project on a made-up batch."""

import importlib
import os
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf

from .calling import compute
from .inputs import make_step
from .run import Job, run_case
from .sides import NotVendored, Side

_EACH = 4  # answers to a prompt


def run_methods(job: Job) -> dict[str, Any]:
    """Run the methods of a job and return their results.

    The job has side, root, roots, package, modules, methods, config and scratch.
    """
    torch.set_num_threads(1)
    os.chdir(job["scratch"])
    root, scratch = Path(job["root"]), Path(job["scratch"])
    is_fork = job["side"] == "fork"
    side = Side(root, scratch, None if is_fork else job["modules"])
    sys.path[1:1] = job["roots"]
    if is_fork:
        config = OmegaConf.create(job["config"])
    else:
        package = importlib.import_module(job["package"])
        importlib.import_module(f"{job['package']}.custom.algorithms")  # another hook may lack a package
        os.chdir(root)  # files that it names lie there
        config = package.load_config("data.train_files=null", "data.val_files=null")  # which need not be here
        os.chdir(scratch)
        OmegaConf.resolve(config)
    OmegaConf.set_struct(config, False)
    config.actor_rollout_ref.rollout.n = _EACH
    results = {method["key"]: _compute(side, method, config, job["package"]) for method in job["methods"]}
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
        batch=batch,
        config=config,
        step=3,
        total_steps=10,
        tokenizer=None,
        column=lambda name: (batch.non_tensor_batch if name in batch.non_tensor_batch else batch.batch)[name],
    )
    if side.is_upstream:
        given = eval(f"dict({', '.join(method['arguments'])})", {"now": now})  # by this package alone
        function = side.get(method["symbol"])
        result = function(batch, **given) if method["is_branch"] else function(**given)
        if not method["is_branch"]:
            return result[:2]
        data = result[0] if isinstance(result, tuple) else result
        return data.batch["advantages"], data.batch["returns"]
    hooks = importlib.import_module(f"{package}.hooks")
    if hasattr(hooks, "at_hand"):  # by the feature step_hooks, which a hook that asks for it brings
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
    data = make_step(side).batch
    given = {
        "old_log_prob": data["old_log_probs"],
        "log_prob": (data["old_log_probs"] + 0.3 * data["advantages"]).requires_grad_(),
        "advantages": data["advantages"],
        "response_mask": data["response_mask"].float(),
        "loss_agg_mode": "token-mean",
        "config": _make_actor_config(side, config.actor_rollout_ref.actor, method["name"]),
        "rollout_is_weights": None,
    }
    batch = _make_batch(side, method, values)
    of_pass = {**batch.batch, **batch.non_tensor_batch, "entropy": batch.batch["entropys"]}
    if side.is_upstream or not method["is_hook"]:
        own, arguments = side.get(method["symbol"]), f"dict({', '.join(method['arguments'])})"

        def function(**named: Any) -> Any:
            return own(**eval(arguments, {**named, "now": of_pass}))  # by this package alone
    else:
        hooks = importlib.import_module(f"{package}.custom.algorithms")
        if hasattr(hooks, "of_pass"):  # what a fork's loss reads of its micro-batch
            hooks.of_pass.set(of_pass)
        function = importlib.import_module(f"{package}.registries").get_policy_loss_fn(method["name"])

    def call(**named: Any) -> Any:
        result = function(**named)
        return result[0] if isinstance(result, tuple) else result

    return compute(call, **given)


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
    """Return the batch of a step, with the columns that a method reads."""
    # What only some methods take is left out.
    batch = make_step(side, groups="in order", global_steps=3, without=["reward_baselines", "sum_pi_squared"])
    rows, mask = len(batch), batch.batch["response_mask"].float()
    shape = mask.shape if values != "rows" else (rows,)
    nothing = torch.zeros_like(batch.batch["prompts"])
    masks = [name for name in method["tensors"] if name.endswith("mask")]
    share = torch.arange(mask.shape[1]) * len(masks) // mask.shape[1]
    tensors = {
        "response_mask": mask,
        "loss_mask": torch.cat([nothing, mask], dim=1),
        "entropys": torch.randn(mask.shape),
        **{name: torch.rand(shape) for name in method["tensors"]},
        **{name: mask * (share == index) for index, name in enumerate(masks)},  # each has its share of the response
    }
    for name, value in tensors.items():
        batch.batch[name] = value
    texts = method["texts"] or ["a text", "another"]
    of_rows = {"data_source": "a source", "reward_model": {"ground_truth": "4"}, "extra_info": {"index": 0}}
    columns = {name: [value] * rows for name, value in of_rows.items()}
    for name in method["arrays"]:
        columns[name] = [texts[row % len(texts)] if values == "texts" else float(row) for row in range(rows)]
    batch.non_tensor_batch.update({name: np.array(column, dtype=object) for name, column in columns.items()})
    return batch
