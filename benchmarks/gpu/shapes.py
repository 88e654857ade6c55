"""Models of random weights in the shapes of models that people train, and what a step of each consists of."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A model of Qwen2's architecture, and what it is trained on.

    Attributes:
        model: settings of its config.
        prompts: in a step.
        generations: responses to each.
        length: tokens of a response.
        micro_batch: responses in a forward and backward pass.
        settings: of a run, that a model of this size needs.
    """

    model: dict[str, int | bool]
    prompts: int
    generations: int
    length: int
    micro_batch: int
    settings: tuple[str, ...] = ()

    @property
    def responses(self) -> int:
        """Count the responses of a step."""
        return self.prompts * self.generations


CHECKPOINTING = "actor_rollout_ref.model.enable_gradient_checkpointing"
OFFLOAD = "actor_rollout_ref.actor.fsdp_config.optimizer_offload"


def _qwen(hidden: int, inner: int, layers: int, heads: int, tied: bool, vocabulary: int) -> dict[str, int | bool]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": max(2, heads // 7),
        "vocab_size": vocabulary,
        "max_position_embeddings": 32_768,
        "tie_word_embeddings": tied,
    }


# The shapes of Qwen2.5's models, whose config.json are public; `tiny` is for trying the list itself, on a CPU.
SHAPES = {
    "tiny": Shape(_qwen(128, 256, 2, 4, True, 1_024), 4, 2, 8, 4),
    "half": Shape(_qwen(896, 4_864, 24, 14, True, 151_936), 64, 8, 512, 32),
    "1.5b": Shape(_qwen(1_536, 8_960, 28, 12, True, 151_936), 32, 8, 512, 16),
    "7b": Shape(_qwen(3_584, 18_944, 28, 28, False, 152_064), 16, 8, 512, 8, (f"{OFFLOAD}=true",)),
}
