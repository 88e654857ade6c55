# vextract:template - edit freely
"""Responses to a few prompts, as tokens and as text."""

from collections.abc import Iterable
from typing import Any

from ..errors import DataError
from ..run.distributed import random_state, set_random_state
from ..vendored.algorithms.trainer_functions import compute_response_mask
from ..vendored.protocol import DataProto
from .batches import generation_batch, objects
from .given_datasets import batch_of
from .rollouts import Rollouts


def answer(rollouts: Rollouts, config: Any, tokenizer: Any, prompts: Any, n: int, **meta: Any) -> DataProto:
    """Write responses to prompts, with the global random numbers.

    Args:
        rollouts: writes them.
        config: the whole config, which says how long they may be and how tokens are drawn.
        tokenizer: of the policy.
        prompts: texts, or lists of messages; or a batch with input_ids, attention_mask, position_ids,
            (prompts, prompt_length) int64, padded on the left, which stays as it is.
        n: responses to each, one behind the other.
        meta: what the engine is told besides, such as do_sample.

    Returns:
        What a step of training has of them: prompts, responses, response_mask, and input_ids, attention_mask and
        position_ids of both together; with the prompts' columns, and `uid`, which is one for each prompt.

    Raises:
        DataError: there are no prompts, or one is too long, or is none.
    """
    if isinstance(prompts, DataProto):
        batch = DataProto(prompts.batch.copy(), dict(prompts.non_tensor_batch), dict(prompts.meta_info))
    else:
        if not isinstance(prompts, Iterable):
            raise DataError(f"the prompts are of type {type(prompts).__name__}", "give texts, or lists of messages")
        given = [prompts] if isinstance(prompts, str) else [*prompts]
        if not given or n < 1:
            raise DataError(f"{n} responses to {len(given)} prompts are asked for", "give one text at least, and n=1")
        rows = [{config.data.prompt_key: prompt} for prompt in given]
        batch = DataProto.from_single_dict(batch_of(rows, config, tokenizer))
    batch.non_tensor_batch.setdefault("uid", objects(str(index) for index in range(len(batch))))
    asked = generation_batch(batch)
    asked.meta_info.update(meta)
    answered: DataProto = batch.repeat(n, interleave=True).union(rollouts.generate(asked.repeat(n, interleave=True)))
    if "response_mask" not in answered.batch.keys():
        answered.batch["response_mask"] = compute_response_mask(answered)
    return answered


def generate_texts(
    rollouts: Rollouts, config: Any, tokenizer: Any, prompts: Iterable[Any], n: int, do_sample: bool
) -> list[str]:
    """Write responses to prompts, see `answer`, as text. Leaves the global random state as it was."""
    before = random_state()
    try:
        answers = answer(rollouts, config, tokenizer, prompts, n, do_sample=do_sample, global_steps=0)
    finally:
        set_random_state(before)
    return texts_of(answers, tokenizer)


def texts_of(answers: DataProto, tokenizer: Any) -> list[str]:
    """Return the responses of a batch as text."""
    lengths = answers.batch["attention_mask"][:, answers.batch["prompts"].shape[-1] :].sum(dim=-1).tolist()
    responses = [ids[:length] for ids, length in zip(answers.batch["responses"].tolist(), lengths, strict=True)]
    texts: list[str] = tokenizer.batch_decode(responses, skip_special_tokens=True)
    return texts
