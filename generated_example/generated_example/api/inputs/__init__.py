# vextract:template base/__package__/api/inputs/__init__.py - edit freely
"""What a caller of the library brings in place of what the config says."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Given:
    """Holds what a caller brings; None: what the config says.

    Attributes:
        train_dataset, val_dataset: prompts, see `datasets.py`.
        reward_fn, val_reward_fn: score responses, see `rewards.py`; validation has training's if it has no other.
        reward_weights: of several reward functions.
        environment: gives prompts, plays responses, or takes turns with the model.
        model: a causal language model of transformers, loaded already; it is trained in place.
        tokenizer: of that model.
    """

    train_dataset: Any = None
    val_dataset: Any = None
    reward_fn: Any = None
    val_reward_fn: Any = None
    reward_weights: Any = None
    environment: Any = None
    model: Any = None
    tokenizer: Any = None
