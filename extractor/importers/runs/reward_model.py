"""Convert a run's reward model to the project's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extractor.importers.config.keys import JUDGE_ENABLED
from extractor.importers.runs.placeholders import find_unknowns
from extractor.importers.runs.unsupported_keys import Remark

_TOKENIZER = "reward_model.model.input_tokenizer"
_POLICY = "actor_rollout_ref.model.path"
# The project's settings, where its release has none, and what verl calls them where it has.
_LOCAL = {
    "local.reward_model.max_length": "reward_model.max_length",
    "local.reward_model.micro_batch_size_per_gpu": "reward_model.micro_batch_size_per_gpu",
    "local.reward_model.param_offload": "reward_model.model.fsdp_config.param_offload",
    "local.reward_model.trust_remote_code": "reward_model.model.trust_remote_code",
}
# What the servers of a generative reward model take; a classifier has nothing of it.
GENERATIVE = ("reward_router_address", "reward_model_tokenizer")


def convert_reward_model(
    flat: Mapping[str, Any], stated: Mapping[str, Any], project: Mapping[str, Any], function: str | None
) -> tuple[dict[str, Any], set[str], list[Remark]]:
    """Convert the run's reward model settings to the project's.

    verl puts each conversation into the reward model's own chat template: by default where `input_tokenizer` can be
    set, always where it cannot. With `input_tokenizer=null` the model reads the policy's tokens.

    Args:
        flat: The run's config.
        stated: What the run itself sets.
        project: The project's config.
        function: The text of the run's reward function; None where it has none.

    Returns:
        Settings by the project's keys, the run's keys that they are made from, and what a user should know.
    """
    enabled = next((key for key in JUDGE_ENABLED if flat.get(key)), None)
    if enabled is None:
        return {}, set(), []
    if function is not None and any(name in function for name in GENERATIVE):
        on = next((key for key in JUDGE_ENABLED if key in project), None)
        why = "a generative reward model is a server of verl's: serve it, and have the reward function ask it there"
        return ({} if on is None else {on: False}), {enabled}, [Remark(enabled, True, "to do", why)]
    found: dict[str, Any] = {}
    used = {enabled}
    name = next((key for key in (_TOKENIZER, "local.reward_model.input_tokenizer") if key in project), None)
    tokenizer = flat.get(_TOKENIZER, flat.get(_POLICY))
    if name is not None:
        own = tokenizer is None or tokenizer != flat.get(_POLICY)
        found[name] = tokenizer if own else f"${{{_POLICY}}}"
        used.add(_TOKENIZER)
    if tokenizer is not None:
        found["data.return_raw_chat"] = True
    for key, said in _LOCAL.items():
        if said in stated and key in project and not find_unknowns(flat.get(said)):
            found[key] = flat.get(said)
            used.add(said)
    return found, used, []
