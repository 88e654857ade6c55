# vextract:template - edit freely
"""Passes that compute a prompt once for all its responses, which this project does not have."""

from typing import Any, NoReturn


def forward_micro_batch_with_prefix_grouper(**kwargs: Any) -> NoReturn:
    """Refuse: each response is computed with its prompt.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(
        "use_prefix_grouper: this project computes each response with its prompt\n"
        "hint: leave actor_rollout_ref.actor.use_prefix_grouper out"
    )
