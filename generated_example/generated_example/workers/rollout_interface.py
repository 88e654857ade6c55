# vextract:template base/__package__/workers/rollout_interface.py - edit freely
"""What the trainer asks of a rollout engine: how tokens are drawn, what ends a response, and what comes back.

`rollout_engine.py` has the engine of this project.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ..run.distributed import Ranks
from ..vendored.protocol import DataProto

# The settings of sampling, of `rollout` and of `rollout.val_kwargs`, and the values with which they change nothing.
NEUTRAL = {"temperature": 1.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0}
GREEDY = {"temperature": 0.0, "top_k": -1, "top_p": 1.0, "min_p": 0.0}
# Stands for the model's turn where the template renders it; no template strips or changes letters.
TURN = "XTURNX"
# A callback: called with the row of a finished response, and its tokens.
Ended = Callable[[int, list[int]], None]


class RolloutEngine(Protocol):
    """Writes responses with the weights of the policy. Every process of a run has one.

    Attributes:
        ends: the tokens that end a response; an engine may do without it, then those count that the tokenizer names.
    """

    def generate_sequences(self, prompts: DataProto, ended: Ended | None = None) -> DataProto:
        """Write a response to each prompt, which are this process's own; others may call it more or less often.

        Args:
            prompts: input_ids, attention_mask, position_ids, (bs, prompt_length) int64, padded on the left. `meta_info`
                may have response_length (at most so many new tokens), and what `sampling_of` and `gives_log_probs`
                read.
            ended: is told of responses that are at their end while others are still written, from any thread, of each
                as often as the engine likes. An engine may do without it, and without this argument.

        Returns:
            prompts (bs, prompt_length), responses (bs, response_length), and for both together input_ids,
            attention_mask, position_ids, (bs, prompt_length + response_length); int64, padded on the right, on the CPU.
            Maybe also rollout_log_probs, (bs, response_length) float32.
        """

    def sync_weights(self) -> None:
        """Take over the policy's weights, after each update. Every process must call this."""

    def close(self) -> None:
        """Give back what the engine holds. Any process may call this alone, and more than once."""


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


def distorting_settings(rollout: Any) -> dict[str, float]:
    """Return the settings that make the engine draw from another distribution than the trainer's."""
    found = sampling_of(rollout, {"do_sample": True})
    return {name: value for name, value in found.items() if name != "temperature" and value != NEUTRAL[name]}


def warning_of(unknown: Mapping[str, float]) -> tuple[str, str]:
    """Word a warning of such settings, and say how to draw from the distribution that the trainer knows."""
    asked = ", ".join(f"rollout.{name}={value:g}" for name, value in unknown.items())
    neutral = " ".join(f"actor_rollout_ref.rollout.{name}={NEUTRAL[name]:g}" for name in unknown)
    return f"the engine samples with {asked}, which the trainer's log-probabilities do not know", f"set {neutral}"


def warn_about_sampling(model: Any, config: Any, ranks: Ranks) -> None:
    """Print, on rank 0, which sampling settings are ignored or bias the trainer's log-probabilities."""
    rollout = config.actor_rollout_ref.rollout
    if (unknown := distorting_settings(rollout)) and rollout.do_sample and ranks.rank == 0:
        print("warning: {}\nhint: {}".format(*warning_of(unknown)), file=sys.stderr)


def end_tokens(tokenizer: Any, model: Any = None, template_kwargs: Mapping[str, Any] | None = None) -> tuple[int, ...]:
    """Return the tokens that end a response: those of tokenizer, model, generation config and chat template.

    Args:
        tokenizer: of the policy; its own comes first.
        model: of transformers, with `config` and `generation_config`; None: what the tokenizer knows is enough.
        template_kwargs: further arguments for the chat template: `data.apply_chat_template_kwargs`.
    """
    config, found = getattr(model, "config", None), [tokenizer.eos_token_id]
    for section in (config, config and config.get_text_config(), getattr(model, "generation_config", None)):
        found += listed(getattr(section, "eos_token_id", None))
    try:
        # That of a conversation's last turn counts: gpt-oss ends earlier ones, and its analysis, by another token.
        after = tokenizer.chat_template and after_turn(tokenizer, [], template_kwargs, generation_prompt=False)
    except Exception:  # of any class: what a template does not render it raises for
        after = None
    if after:
        found.append(ending_of(tokenizer, tokenizer(after, add_special_tokens=False)["input_ids"])[0])
    return tuple(dict.fromkeys(int(token) for token in found if token is not None and token >= 0))


def listed(eos: int | Iterable[int] | None) -> list[int]:
    """Return as a list what configs have as `eos_token_id`: a token, several, or none."""
    return [] if eos is None else [eos] if isinstance(eos, int) else list(eos)


def ending_of(tokenizer: Any, tokens: Sequence[int]) -> tuple[int | None, int]:
    """Return the special token that tokens after a turn begin with, and how many they are with the space around it."""
    is_text = [bool(tokenizer.decode([token]).strip()) for token in tokens]
    first = is_text.index(True) if True in is_text else len(tokens)
    if first == len(tokens) or tokens[first] not in tokenizer.added_tokens_decoder:
        return None, 0
    return tokens[first], next((place for place in range(first + 1, len(tokens)) if is_text[place]), len(tokens))


def after_turn(
    tokenizer: Any, messages: list[Any], template_kwargs: Mapping[str, Any] | None, *, generation_prompt: bool
) -> str | None:
    """Return what the chat template puts after a turn of the model that these messages follow; None: it hides turns."""
    before = [{"role": "user", "content": "?"}, {"role": "assistant", "content": TURN}]
    text: str = tokenizer.apply_chat_template(
        [*before, *messages], add_generation_prompt=generation_prompt, tokenize=False, **(template_kwargs or {})
    )
    _, found, after = text.rpartition(TURN)
    return after if found else None
