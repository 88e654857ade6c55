"""The model that judges responses: what a release calls the project's settings of it, and what it asks for besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extractor.importers.config.keys import Key, Status
from extractor.importers.config.release import Defaults

_ENABLED = ("reward.reward_model.enable", "reward_model.enable")
_LOOP = "reward_model.use_reward_loop"
# Of a release whose reward models are servers.
_ENGINE, _PARALLEL = "reward.reward_model.rollout.name", "reward.reward_model.rollout.tensor_model_parallel_size"
_OLDER = "reward_model.model.input_tokenizer"
_LENGTH = ("local.reward_model.max_length", "reward_model.max_length")
_SIZE = ("local.reward_model.micro_batch_size_per_gpu", "reward_model.micro_batch_size_per_gpu")

_TOKENIZER, _POLICY = "local.reward_model.input_tokenizer", "actor_rollout_ref.model.path"

# The project's settings where its release's reward models are servers, and what releases call them that run the model
# in their workers.
_NAMES = {
    "local.reward_model.input_tokenizer": "reward_model.model.input_tokenizer",
    "local.reward_model.max_length": "reward_model.max_length",
    "local.reward_model.micro_batch_size_per_gpu": "reward_model.micro_batch_size_per_gpu",
    "local.reward_model.param_offload": "reward_model.model.fsdp_config.param_offload",
    "local.reward_model.trust_remote_code": "reward_model.model.trust_remote_code",
}


def is_on(flat: Mapping[str, Any]) -> bool:
    """Tell whether a model judges the project's responses."""
    return any(flat.get(key) for key in _ENABLED)


def is_served(defaults: Defaults) -> bool:
    """Tell whether all that a release can do with a reward model is to serve it."""
    return _OLDER not in defaults


def changes(flat: Mapping[str, Any], defaults: Defaults) -> dict[str, tuple[Any, str]]:
    """Return the settings of a reward model that have another value in a release, and why."""
    if not is_on(flat) or is_served(defaults):
        return {}
    responses = flat["data.train_batch_size"] * flat["actor_rollout_ref.rollout.n"]
    why = "null: all responses in one pass, for which verl has no word"
    return {key: (responses, why) for key in _SIZE if key in flat and flat[key] is None}


def as_keys(keys: list[Key], changed: Mapping[str, tuple[Any, str]], defaults: Defaults, release: str) -> list[Key]:
    """Return what becomes of the project's own settings of a reward model, if a model judges the responses.

    Args:
        keys: All of the project's.
        changed: Of `changes`.
        defaults, release: The release.
    """
    flat = {key.key: key.value for key in keys}
    if not is_on(flat):
        return keys
    return [_as_key(key, flat, changed, defaults, release) if key.key in _NAMES else key for key in keys]


def _as_key(
    key: Key, flat: Mapping[str, Any], changed: Mapping[str, tuple[Any, str]], defaults: Defaults, release: str
) -> Key:
    name = _NAMES[key.key]
    if is_served(defaults):  # which keeps some of these names for scripts of old, and does not read them
        return Key(key.key, key.value, Status.DROPPED, reason=f"verl {release} runs reward models as servers")
    if key.key == _TOKENIZER and key.value is not None and key.value == flat.get(_POLICY):
        return Key(key.key, key.value, Status.DEFAULT, name, key.value)  # it follows the policy's path there, too
    value, why = changed.get(key.key, (key.value, f"its name in verl {release}"))
    return Key(key.key, key.value, Status.RENAMED if value == key.value else Status.CHANGED, name, value, reason=why)


def further(flat: Mapping[str, Any], defaults: Defaults) -> dict[str, Any]:
    """Return what a release must be told so that the reward model runs as it does in the project."""
    if not is_on(flat):
        return {}
    if is_served(defaults):  # which has no default for the engine, and one for a machine with two GPUs
        engine = "sglang" if flat.get("actor_rollout_ref.rollout.name") == "sglang" else "vllm"
        return {_ENGINE: engine, _PARALLEL: 1}
    # With a loop of its own 0.7.0 serves the model, and reads none of these settings.
    return {_LOOP: False} if _LOOP in defaults else {}


def remarks(flat: Mapping[str, Any], defaults: Defaults, release: str) -> list[str]:
    """Return what a user should know of a reward model that becomes a server."""
    if not is_on(flat) or not is_served(defaults):
        return []
    found = [
        f"verl {release} serves the reward model, with {further(flat, defaults)[_ENGINE]}: each conversation is put "
        "into the reward model's own chat template"
    ]
    if any(flat.get(key) is not None for key in _LENGTH):
        found.append(f"reward_model.max_length: a server of verl {release} reads all of a response")
    return found
