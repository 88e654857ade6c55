# vextract:template - edit freely
"""The policy, trained on demonstrations: upstream's supervised loss in the place of that of PPO."""

from typing import Any

from ..run.distributed import Ranks
from ..vendored.algorithms.losses import sft_loss
from ..vendored.protocol import DataProto
from ..vendored.utils import tensordict_utils as tu
from ..vendored.utils.dataset.dataset_utils import DatasetPadMode
from ..vendored.workers.utils.padding import no_padding_2_padding
from .policy import Policy


def supervised_loss(config: Any, model_output: dict[str, Any], data: Any, dp_group: Any = None) -> Any:
    """Compute upstream's `sft_loss` of a pass: its part of the mean over all tokens that the batch has to learn.

    Args:
        config: of the actor.
        model_output: `log_probs` of all tokens, nested.
        data: the pass, with `response_mask` (bs, response_length).
        dp_group: the processes that compute other passes.

    Returns:
        The loss, and no metrics.
    """
    aligned = data.copy()
    tu.assign_non_tensor(aligned, pad_mode=DatasetPadMode.RIGHT)  # how the columns below are: a token's, and its mask
    log_probs = {"log_probs": no_padding_2_padding(model_output["log_probs"], data)}
    return sft_loss(config=config, model_output=log_probs, data=aligned, dp_group=dp_group)


class SupervisedPolicy(Policy):
    """A policy that learns what responses say, whatever they would be rewarded by.

    Args:
        config, tokenizer, ranks, path, total_steps: see `Policy`.
    """

    compares = False

    def __init__(self, config: Any, tokenizer: Any, ranks: Ranks, path: str, total_steps: int) -> None:
        super().__init__(config, tokenizer, ranks, path, total_steps)
        self.actor.loss = supervised_loss

    def with_old_log_probs(self, batch: DataProto) -> DataProto:
        """Return the batch as it is: the loss compares with no earlier probabilities."""
        return batch
