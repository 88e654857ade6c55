# vextract:template base/__package__/workers/sampling.py - edit freely
"""How tokens are drawn: as the run's config says, whatever stands in the generation_config.json of the model."""

import sys
from collections.abc import Mapping
from typing import Any

from ..run.distributed import Ranks

# The settings of sampling, of `rollout` and of `rollout.val_kwargs`, and the values with which they change nothing.
NEUTRAL = {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
GREEDY = {"temperature": 0.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0}
# What a generation config has besides, and rollouts take from elsewhere.
TOKENS = ("bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id", "transformers_version")


def sampling_of(rollout: Any, meta_info: Mapping[str, Any]) -> dict[str, float]:
    """Return how to draw the tokens of a batch: a value for each name in `NEUTRAL`; temperature 0 takes the likeliest.

    Args:
        rollout: the section of that name, of the whole config.
        meta_info: of the prompts. It may have do_sample, validate, and in training values of these names.
    """
    if meta_info.get("validate", False):
        found = {name: rollout.val_kwargs[name] for name in NEUTRAL}
    else:
        found = {name: meta_info.get(name, rollout[name]) for name in NEUTRAL}
    if not meta_info.get("do_sample", rollout.do_sample) or found["temperature"] == 0:
        found.update(GREEDY)
    return {**found, "top_k": int(found["top_k"]) if found["top_k"] > 0 else -1}


def ignored_from(generation_config: Any, rollout: Any) -> dict[str, Any]:
    """Return what a generation config sets of the text that is written, and the run's config has otherwise."""
    defaults: dict[str, Any] = getattr(generation_config, "_get_default_generation_params", dict)()
    unset = {**type(generation_config)().to_dict(), **{k: v for k, v in defaults.items() if k not in NEUTRAL}}
    return {
        name: value
        for name, value in sorted(generation_config.to_dict().items())
        if value
        and not name.startswith("_")
        and name not in TOKENS
        and value not in (unset.get(name), rollout.get(name))
    }


def unknown_to_trainer(rollout: Any) -> dict[str, float]:
    """Return the settings that make the engine draw from another distribution than the trainer's."""
    found = sampling_of(rollout, {"do_sample": True})
    return {name: value for name, value in found.items() if name != "temperature" and value != NEUTRAL[name]}


def warn_of(unknown: Mapping[str, float]) -> str:
    """Word a warning of such settings."""
    asked = ", ".join(f"rollout.{name}={value:g}" for name, value in unknown.items())
    return f"warning: the engine samples with {asked}, which the trainer's log-probabilities do not know"


def neutral_for(unknown: Mapping[str, float]) -> str:
    """Return how to set them so that the engine samples from the distribution that the trainer knows."""
    return "set " + " ".join(f"actor_rollout_ref.rollout.{name}={NEUTRAL[name]:g}" for name in unknown)


def say_sampling(model: Any, config: Any, ranks: Ranks) -> None:
    """Say what the generation config has and no rollout does, and what the trainer does not know. Rank 0 says it."""
    rollout = config.actor_rollout_ref.rollout
    if (unknown := unknown_to_trainer(rollout)) and rollout.do_sample and ranks.rank == 0:
        print(f"{warn_of(unknown)}\nhint: {neutral_for(unknown)}", file=sys.stderr)
    ignored = ignored_from(model.generation_config, rollout)
    if ignored and ranks.rank == 0:
        text = ", ".join(f"{name}={value}" for name, value in ignored.items())
        print(
            f"note: ignored from generation_config: {text}; actor_rollout_ref.rollout says how to sample",
            file=sys.stderr,
        )
