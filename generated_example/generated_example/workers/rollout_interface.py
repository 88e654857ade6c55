# vextract:template base/__package__/workers/rollout_interface.py - edit freely
"""What the trainer asks of a rollout engine. `rollout_choice.py` says which one this project has."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ..errors import ProjectError
from ..vendored.protocol import DataProto

# A key of `meta_info`: whether somebody will look at the log-probabilities that the engine can give.
WITH_LOG_PROBS = "with_log_probs"
CPU_KV_CACHE_BYTES = 2**28  # that vLLM gets for keys and values in a process of a CPU, unless it is told otherwise


class RolloutError(ProjectError):
    """The rollout engine failed. The text ends with a hint that says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}\nhint: {hint}")
        self.parts = (message, hint)


def gives_log_probs(rollout: Any, meta_info: Mapping[str, Any]) -> bool:
    """Tell whether an engine is to give the log-probabilities of what it writes, for which it needs time.

    Args:
        rollout: the section of that name, of the engine's config.
        meta_info: of the prompts. Where it says nothing, those of training are given, and those of validation are not.
    """
    asked = meta_info.get(WITH_LOG_PROBS, not meta_info.get("validate", False))
    return bool(rollout.calculate_log_probs and asked)


# Is told the row of a response that has ended, and its tokens.
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

        Raises:
            RolloutError: the engine cannot go on.
        """

    def session(self) -> AbstractContextManager[object]:
        """Give the engine its memory within it, to write responses. Every process must enter and leave it."""

    def finish(self) -> None:
        """Wait for the responses of other processes, if they need this one, which has all of its own."""

    def sync_weights(self) -> None:
        """Take over the policy's weights, after each update. Every process must call this."""

    def close(self) -> None:
        """Give back what the engine holds. Any process may call this alone, and more than once."""
