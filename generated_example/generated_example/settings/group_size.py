# vextract:template base/__package__/settings/group_size.py - edit freely
"""Try upstream's advantage estimators with a small batch: do they run, and what do they make of a lone response?"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..training.registries import ADV_ESTIMATOR_REGISTRY, AdvantageEstimator, compute_advantage
from ..vendored import __name__ as vendored
from ..vendored.protocol import DataProto

SCORES = (1.0, 0.0, 1.0, 1.0)
ALONE, IN_PAIRS = "abcd", "aabb"
# What every release gives the estimators that ask for it.
GIVEN = {"token_level_rewards", "response_mask", "index", "values", "reward_baselines", "gamma", "lam", "config"}
REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def why_it_fails(algorithm: Any) -> str:
    """Return why the estimator of a config cannot be called at all, or "": its release gives it other arguments.

    Args:
        algorithm: the config's section; its estimator is registered. An owner's is not called here.
    """
    if _is_upstreams(algorithm) and _asks_for_more(ADV_ESTIMATOR_REGISTRY[algorithm.adv_estimator]):
        try:
            _advantages(algorithm, IN_PAIRS)
        except TypeError as error:
            return str(error)
        except Exception:  # it needs more than the batch has
            return ""
    return ""


def made_of_one(algorithm: Any) -> tuple[bool, bool]:
    """Tell what the estimator of a config makes of a prompt's only response.

    Args:
        algorithm: the config's section; its estimator is registered.

    Returns:
        Whether it has an advantage for it, and whether that is the one that it has beside others. Both of an owner's
        estimator, which is not called here, and of one that needs more than the batch has.
    """
    if not _is_upstreams(algorithm):
        return True, True
    try:
        compared = _advantages(algorithm, IN_PAIRS)
    except Exception:
        return True, True
    try:
        alone = _advantages(algorithm, ALONE)
    except (AssertionError, ValueError):
        return False, False
    return bool(alone.any()), torch.allclose(alone, compared)


def _asks_for_more(estimator: Callable[..., Any]) -> bool:
    """Tell whether an estimator needs what not every release gives it; only such a one is called to find out."""
    parameters = inspect.signature(estimator).parameters.values()
    return any(one.default is one.empty and one.name not in GIVEN and one.kind not in REST for one in parameters)


def _is_upstreams(algorithm: Any) -> bool:
    return ADV_ESTIMATOR_REGISTRY[algorithm.adv_estimator].__module__.startswith(vendored)


def _advantages(algorithm: Any, prompts: str) -> torch.Tensor:
    """Compute the advantages of four responses of one token, (4, 1), each to the prompt that a letter stands for."""
    scores, tokens = torch.tensor(SCORES)[:, None], torch.ones(len(SCORES), 1)
    scored = dict.fromkeys(("token_level_scores", "token_level_rewards"), scores)
    log_probs = dict.fromkeys(("old_log_probs", "rollout_log_probs"), -tokens)
    halves = dict.fromkeys(("sum_pi_squared", "values"), 0.5 * tokens)
    if algorithm.adv_estimator == AdvantageEstimator.REMAX:
        halves["reward_baselines"] = 0.5 * tokens[:, 0]
    masks = dict.fromkeys(("prompts", "response_mask", "responses"), tokens.long())
    masks["attention_mask"] = tokens.long().expand(-1, 2)
    components = dict.fromkeys(algorithm.get("gdpo_reward_keys") or (), np.array(SCORES, dtype=object))
    columns = {"uid": np.array([*prompts], dtype=object), **components}
    batch = DataProto.from_dict({**scored, **log_probs, **halves, **masks}, non_tensors=columns)
    settings = {name: algorithm[name] for name in ("adv_estimator", "gamma", "lam", "norm_adv_by_std_in_grpo")}
    done = compute_advantage(batch, num_repeat=1, config=algorithm, **settings)
    advantages: torch.Tensor = done.batch["advantages"]
    return advantages
