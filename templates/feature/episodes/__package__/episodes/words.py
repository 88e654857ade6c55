# vextract:template - edit freely
"""What rewards and environments read of an episode: the words of the model, and no others as if it had written them.

A reward function gets the turns of the model, one below the other. (Upstream's managers decode what the environment
has said as well.) `extra_info["conversation"]` has the whole conversation: messages, from the prompt to the last turn.
"""

from collections.abc import Sequence
from typing import Any

import torch

from ..switches import TOOLS
from ..training.batches import objects
from ..training.model_words import ModelWords, prompt_tokens, turns_of
from ..vendored.protocol import DataProto

PACKAGE = __name__.partition(".")[0]
# Where the managers are that decode responses and hand the text to a function.
OF_TEXT = tuple(f"{PACKAGE}.{folder}." for folder in ("vendored", "rewards"))
# The key of extra_info, and the column, that messages of an episode are under.
CONVERSATION = "conversation"
SEPARATOR = "\n"  # between turns


def text_of_turn(words: ModelWords, context: Sequence[int], turn: Sequence[int]) -> str:
    """Return a turn of the model as text; `context`: the tokens before it."""
    tokens = [*words.opening(context), *turn] if words.keeps else list(turn)
    text: str = words.decoder.decode(tokens, skip_special_tokens=True)
    return text


def without_answers(batch: DataProto, reward_fn: Any, words: ModelWords) -> DataProto:
    """Return a batch as a reward manager gets it; a batch of single turns as it is.

    Managers that hand text to a function find the tokens of environments replaced by padding, which decodes to
    nothing. One that reads tokens itself, of the owner's, has response_mask to tell them apart.

    Args:
        batch: rolled-out prompts, or one of them: prompts, responses, attention_mask; of episodes the columns
            turn_starts, turn_ends and conversation.
        reward_fn: the manager.
        words: finds how turns begin.
    """
    if "turn_starts" not in batch.non_tensor_batch:
        return batch
    batch = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), batch.meta_info)
    batch.non_tensor_batch["extra_info"] = _with_conversations(batch, words)
    if _reads_text(reward_fn):
        batch.batch["responses"] = _own_tokens(batch, words)
    return batch


def note_turns(batch: DataProto, reward_fn: Any, words: ModelWords) -> None:
    """Say once what a reward gets otherwise than upstream's managers hand it over."""
    manager = _innermost(reward_fn)
    scores = "rm_scores" not in batch.batch.keys() or getattr(manager, "weights", None)
    if scores and "turn_starts" in batch.non_tensor_batch and words.is_unsaid("turns"):
        what = "the reward gets the model's turns as one text, where verl's managers add what the environment says"
        if not _reads_text(reward_fn):
            what = f"{type(manager).__name__} reads tokens itself: response_mask tells which the model has written"
        words.say("turns", f'{what}; extra_info["{CONVERSATION}"] has all messages')


def _with_conversations(batch: DataProto, words: ModelWords) -> Any:
    columns = batch.non_tensor_batch
    infos = [dict(info or {}) for info in columns.get("extra_info", [None] * len(batch))]
    for row, info in enumerate(infos):
        info[CONVERSATION] = [*_prompt(batch, row, words), *columns[CONVERSATION][row]]
        if TOOLS and "tool_rewards" in columns:
            info["tool_rewards"] = columns["tool_rewards"][row]
    return objects(infos)


def _prompt(batch: DataProto, row: int, words: ModelWords) -> list[dict[str, Any]]:
    if "raw_prompt" in batch.non_tensor_batch:
        return [dict(message) for message in batch.non_tensor_batch["raw_prompt"][row]]
    text = words.tokenizer.decode(prompt_tokens(batch, row), skip_special_tokens=True)
    return [{"role": "user", "content": text}]


def _own_tokens(batch: DataProto, words: ModelWords) -> torch.Tensor:
    """Return responses with padding in place of what is not the model's, but for separators."""
    tokenizer = words.tokenizer
    responses: torch.Tensor = batch.batch["responses"].clone()
    separator = tokenizer(SEPARATOR, add_special_tokens=False)["input_ids"]
    if SEPARATOR not in tokenizer.decode(separator, skip_special_tokens=True):
        separator = []  # there is no such token
    ends = (tokenizer.pad_token_id, tokenizer.eos_token_id)
    silent = next((end for end in ends if not tokenizer.decode([end], skip_special_tokens=True)), ends[0])
    for row, turns in enumerate(turns_of(batch)):
        given, own = responses[row].tolist(), [silent] * responses.shape[1]
        prompt = prompt_tokens(batch, row)
        last = 0
        for start, stop in turns:
            if 0 < last < start:
                opening = words.opening([*prompt, *given[:start]]) if words.keeps else []
                own[start - len(opening) : start] = opening
                room = separator[: start - len(opening) - last]
                own[last : last + len(room)] = room
            own[start:stop] = given[start:stop]
            last = stop
        responses[row] = torch.tensor(own)
    return responses


def _innermost(reward_fn: Any) -> Any:
    while hasattr(reward_fn, "manager"):  # behind a reward model, in an event loop, or begun early
        reward_fn = reward_fn.manager
    return reward_fn


def _reads_text(reward_fn: Any) -> bool:
    """Tell whether a manager decodes responses and hands the text on: verl's own and the project's do."""
    kind = type(_innermost(reward_fn))
    call = getattr(kind, "run_single", None) or kind.__call__
    return str(getattr(call, "__module__", "")).startswith(OF_TEXT)
