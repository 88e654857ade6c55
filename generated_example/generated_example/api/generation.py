# vextract:template base/__package__/api/generation.py - edit freely
"""Responses to a few prompts, as text."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..run.distributed import random_state, set_random_state
from ..training.batches import generation_batch
from ..training.rollouts import Rollouts
from ..vendored.protocol import DataProto
from .datasets import batch_of


def generate_texts(
    rollouts: Rollouts, config: Any, tokenizer: Any, prompts: Iterable[Any], n: int, do_sample: bool
) -> list[str]:
    """Write responses to prompts. Leaves the global random state as it was.

    Args:
        rollouts: writes them.
        config: the whole config, which says how long they may be and how tokens are drawn.
        tokenizer: of the policy.
        prompts: texts, or lists of messages.
        n: responses to each, one behind the other.
        do_sample: whether tokens are drawn; otherwise the likeliest is taken each time.

    Raises:
        DataError: a prompt is too long, or no prompt.
    """
    rows = [{config.data.prompt_key: prompt} for prompt in ([prompts] if isinstance(prompts, str) else prompts)]
    before = random_state()
    batch = DataProto.from_single_dict(batch_of(rows, config, tokenizer)).repeat(n, interleave=True)
    batch.non_tensor_batch["uid"] = np.array([str(index // n) for index in range(len(batch))], dtype=object)
    prompt_batch = generation_batch(batch)
    prompt_batch.meta_info.update(do_sample=do_sample, global_steps=0)
    try:
        answers = rollouts.generate(prompt_batch)
    finally:
        set_random_state(before)
    lengths = answers.batch["attention_mask"][:, answers.batch["prompts"].shape[-1] :].sum(dim=-1).tolist()
    responses = [ids[:length] for ids, length in zip(answers.batch["responses"].tolist(), lengths, strict=True)]
    texts: list[str] = tokenizer.batch_decode(responses, skip_special_tokens=True)
    return texts
