# mypy: disable-error-code="misc"
"""Cases of the functions of upstream's trainer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from . import inputs
from .cases import Thunk, family, outcome
from .sides import Side

MODULE = "verl.trainer.ppo.ray_trainer"
CORE = "verl.trainer.ppo.core_algos"


def rewarded_batch(side: Side, *, with_mask: bool = True, groups: str = "fours") -> Any:
    """Return a batch as it is before the advantages."""
    mask = inputs.response_mask(holes=groups == "pairs")
    prompt = torch.ones(inputs.BATCH, inputs.PROMPT, dtype=torch.long)
    tensors = {
        "responses": torch.ones(inputs.BATCH, inputs.LENGTH, dtype=torch.long),
        "attention_mask": torch.cat([prompt, mask], dim=1),
        "token_level_scores": inputs.rewards(dense=True, mask=mask),
        "token_level_rewards": inputs.rewards(dense=False, mask=mask),
        "values": inputs.normal(inputs.BATCH, inputs.LENGTH, seed=401),
        "old_log_probs": inputs.log_probs(402),
        "ref_log_prob": inputs.log_probs(403),
        "reward_baselines": inputs.normal(inputs.BATCH, seed=404),
        "sum_pi_squared": inputs.log_probs(405).exp(),
        "prompts": prompt,
    }
    if with_mask:
        tensors["response_mask"] = mask
    arrays = {"uid": inputs.groups(groups), "a": inputs.normal(inputs.BATCH, seed=406).numpy()}
    return side.get("verl.protocol:DataProto").from_dict(tensors=tensors, non_tensors=arrays)


@family("trainer_functions", MODULE)
def functions(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Compute masks, KL in the reward, advantages."""
    yield "compute_response_mask", lambda: side.get(f"{MODULE}:compute_response_mask")(rewarded_batch(side))
    for penalty in ("kl", "abs", "mse", "low_var_kl"):

        def apply(penalty: str = penalty) -> Any:
            controller = side.get(f"{CORE}:AdaptiveKLController")(0.02, 0.1, 1000)
            result = side.get(f"{MODULE}:apply_kl_penalty")(rewarded_batch(side), controller, penalty)
            return result, float(controller.value)

        yield f"apply_kl_penalty/{penalty}", apply

    def by_default() -> Any:
        controller = side.get(f"{CORE}:FixedKLController")(0.2)
        data = rewarded_batch(side, groups="pairs")
        data.batch["response_mask"][5] = 0
        return side.get(f"{MODULE}:apply_kl_penalty")(data, controller), float(controller.value)

    yield "apply_kl_penalty/by default", by_default
    for estimator in side.get(f"{CORE}:AdvantageEstimator"):
        for label, more in (("pairs", {}), ("pairs/no deviation", {"norm_adv_by_std_in_grpo": False})):
            yield (
                f"compute_advantage/{estimator.value}/{label}",
                lambda estimator=estimator, more=more: outcome(
                    side.get(f"{MODULE}:compute_advantage"),
                    rewarded_batch(side, groups="pairs"),
                    estimator,
                    **more,
                    config=inputs.config(gdpo_reward_keys=["a"], gamma=1.0, lam=1.0),
                ),
            )
        for label, settings in (
            ("plain", None),
            ("settings", {"gamma": 0.97, "lam": 0.9, "norm_adv_by_std_in_grpo": True}),
            (
                "reweighted",
                {
                    "gamma": 0.97,
                    "lam": 0.9,
                    "norm_adv_by_std_in_grpo": False,
                    "use_pf_ppo": True,
                    "pf_ppo": {"reweight_method": "pow", "weight_pow": 2.0},
                },
            ),
        ):
            yield (
                f"compute_advantage/{estimator.value}/{label}",
                lambda estimator=estimator, settings=settings: outcome(
                    side.get(f"{MODULE}:compute_advantage"),
                    rewarded_batch(side, with_mask=estimator.value != "gae"),
                    adv_estimator=estimator,
                    gamma=0.97,
                    lam=0.9,
                    num_repeat=4,
                    config=None if settings is None else inputs.config(**settings),
                ),
            )
