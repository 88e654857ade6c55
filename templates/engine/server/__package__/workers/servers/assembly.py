# vextract:template - edit freely
"""From the tokens of responses to a batch of tensors."""

from collections.abc import Collection, Iterable, Sequence

import torch

from ...vendored.protocol import DataProto
from .interface import Response

# What stands after the end of a response in rollout_log_probs, as upstream has it.
LOG_PROB_PADDING = -1.0


def assemble(
    prompts: DataProto,
    responses: Sequence[Response],
    response_length: int,
    pad: int,
    eos: Iterable[int],
    with_log_probs: bool,
) -> DataProto:
    """Put prompts and their responses together, padded on the right.

    Args:
        prompts: input_ids, attention_mask, position_ids, (bs, prompt_length) int64, padded on the left.
        responses: one for each prompt.
        response_length: that they are padded to.
        pad, eos: the tokens for padding and for the end of a response.
        with_log_probs: whether to return those of the responses.

    Returns:
        prompts (bs, prompt_length), responses (bs, response_length), and for both together input_ids, attention_mask,
        position_ids, (bs, prompt_length + response_length); int64. With `with_log_probs` also rollout_log_probs,
        (bs, response_length) float32. The columns of the prompts come with it, but for raw_prompt_ids.
    """
    ids, mask, position_ids = (prompts.batch[name] for name in ("input_ids", "attention_mask", "position_ids"))
    ends_at = set(eos)
    tokens, masks, log_probs = [], [], []
    for response in responses:
        missing = response_length - len(response.tokens)
        length = counted(response.tokens, ends_at)
        tokens.append(response.tokens + [pad] * missing)
        masks.append([1] * length + [0] * (response_length - length))
        log_probs.append((response.log_probs or []) + [LOG_PROB_PADDING] * missing)
    response_ids = torch.tensor(tokens, dtype=ids.dtype)
    positions = position_ids[..., -1:] + torch.arange(1, response_length + 1)
    batch = {
        "prompts": ids,
        "responses": response_ids,
        "input_ids": torch.cat([ids, response_ids], dim=-1),
        "attention_mask": torch.cat([mask, torch.tensor(masks, dtype=mask.dtype)], dim=-1),
        "position_ids": torch.cat([position_ids, positions], dim=-1),
    }
    if with_log_probs:
        batch["rollout_log_probs"] = torch.tensor(log_probs, dtype=torch.float32)
    output: DataProto = DataProto.from_dict(batch)
    output.non_tensor_batch = {k: v for k, v in prompts.non_tensor_batch.items() if k != "raw_prompt_ids"}
    return output


def counted(tokens: Sequence[int], eos: Collection[int]) -> int:
    """Return how many tokens of a response count: with ignore_eos none after the first end, as upstream has it."""
    return next((index + 1 for index, token in enumerate(tokens) if token in eos), len(tokens))
