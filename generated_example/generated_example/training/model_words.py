# vextract:template base/__package__/training/model_words.py - edit freely
"""What rewards and environments read of responses: the words of the model, and no others as if it had written them.

Of an episode of several turns a reward function gets the turns of the model, one below the other. (Upstream's managers
decode what the environment has said as well.) The whole conversation is in `extra_info["conversation"]`: messages, from
the prompt to the last turn.

Decoding leaves out special tokens, as upstream does, and a response has not got what the chat template has begun it
with. With `local.keep_special_tokens` both are handed over.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from ..vendored.protocol import DataProto
from .batches import objects

PACKAGE = __name__.partition(".")[0]
# Where the managers are that decode responses and hand the text to a function.
OF_TEXT = tuple(f"{PACKAGE}.{folder}." for folder in ("vendored", "rewards"))
# The key of extra_info, and the column, that messages of an episode are under.
CONVERSATION = "conversation"
SEPARATOR = "\n"  # between turns
# So many tokens before a response are looked at for what the template has begun it with.
_NEAR = 64
_ASKED, _SAID = "XASKEDX", "XSAIDX"  # no template strips or changes letters
# How a response begins where no template says it: with a tag that is opened.
_OPENING = re.compile(r"(?:<(?:\w+:)?(?:think|thought|reason|answer|solution|scratchpad)\w*>|\[THINK\]|◁think▷)\s*$")


class ModelWords:
    """Says what rewards and environments read of responses.

    Args:
        tokenizer: of the policy.
        keeps: `local.keep_special_tokens`.
        template: further arguments for the chat template: `data.apply_chat_template_kwargs`.
        ends: the tokens that end a turn, which are no words; None: the tokenizer's.

    Attributes:
        decoder: decodes responses; reward managers get it for a tokenizer.
    """

    def __init__(
        self, tokenizer: Any, keeps: bool = False, template: Any = None, ends: Collection[int] | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.keeps = keeps
        self.template = dict(template or {})
        self.ends = {*(ends or ()), tokenizer.eos_token_id, tokenizer.pad_token_id}
        self.decoder: Any = _KeepingDecoder(tokenizer, self.ends) if keeps else tokenizer
        self._special: set[int] | None = None
        self._begins: str | None = None  # how the template begins a turn of the model; "": that is not known
        self._notes = {"left out", "episodes"} if os.environ.get("RANK", "0") == "0" else set()

    @classmethod
    def of(cls, config: Any, tokenizer: Any, engine: Any = None) -> "ModelWords":
        """Return what the config says of them; `engine`: knows which tokens end a turn."""
        template = config.data.get("apply_chat_template_kwargs")
        return cls(tokenizer, bool(config.local.keep_special_tokens), template, getattr(engine, "ends", None))

    def text(self, context: Sequence[int], turn: Sequence[int]) -> str:
        """Return a turn of the model as text; `context`: the tokens before it."""
        tokens = [*self.opening(context), *turn] if self.keeps else list(turn)
        text: str = self.decoder.decode(tokens, skip_special_tokens=True)
        return text

    def opening(self, context: Sequence[int]) -> list[int]:
        """Return the tokens at the end of a context with which the template has begun the model's turn."""
        near = list(context[-_NEAR:])
        text: str = self.tokenizer.decode(near, skip_special_tokens=False)
        if self._begins is None:
            self._begins = self._beginning()
        _, found, opening = text.rpartition(self._begins) if self._begins else ("", "", "")
        if not found:
            match = _OPENING.search(text)
            opening = match[0] if match else ""
        if not opening.strip():
            return []
        lengths = (n for n in range(1, len(near)) if len(self.tokenizer.decode(near[-n:])) >= len(opening))
        return near[-next(lengths, len(near)) :]

    def seen(self, batch: DataProto, reward_fn: Any) -> tuple[DataProto, Callable[[Any], Any]]:
        """Return a batch as a reward manager gets it, and a function from its scores to those of the batch.

        Managers that hand text to a function find the tokens of environments replaced by padding, which decodes to
        nothing. One that reads tokens itself, of the owner's, has response_mask to tell them apart.

        Args:
            batch: rolled-out prompts, or one of them: prompts, responses, attention_mask; of episodes the columns
                turn_starts, turn_ends and conversation.
            reward_fn: the manager.
        """
        if "turn_starts" in batch.non_tensor_batch:
            batch = DataProto(batch.batch.copy(), dict(batch.non_tensor_batch), batch.meta_info)
            batch.non_tensor_batch["extra_info"] = self._with_conversations(batch)
            if _reads_text(reward_fn):
                batch.batch["responses"] = self._own_tokens(batch)
        return self._with_openings(batch) if self.keeps else (batch, lambda scores: scores)

    def note(self, batch: DataProto, reward_fn: Any) -> None:
        """Say once what a reward does not get of a batch, or gets otherwise than upstream's managers hand it over."""
        turns = _turns(batch) if self._notes else []
        if "left out" in self._notes and not self.keeps and (left := self._left_out(batch, turns)):
            self._notes.discard("left out")
            _say(f"rewards and environments do not get {left}; local.keep_special_tokens=true hands it over")
        manager = _innermost(reward_fn)
        scores = "rm_scores" not in batch.batch.keys() or getattr(manager, "weights", None)
        if "episodes" in self._notes and scores and "turn_starts" in batch.non_tensor_batch:
            self._notes.discard("episodes")
            what = "the reward gets the model's turns as one text, where verl's managers add what the environment says"
            if not _reads_text(reward_fn):
                what = f"{type(manager).__name__} reads tokens itself: response_mask tells which the model has written"
            _say(f'{what}; extra_info["{CONVERSATION}"] has all messages')

    def _beginning(self) -> str:
        """Return what the template writes between a message and the model's turn."""
        asked, later = {"role": "user", "content": _ASKED}, {"role": "user", "content": "?"}
        arguments = {"tokenize": False, **self.template}
        try:
            prompt = self.tokenizer.apply_chat_template([asked], add_generation_prompt=True, **arguments)
            said = [asked, {"role": "assistant", "content": _SAID}, later]
            whole = self.tokenizer.apply_chat_template(said, **arguments).partition(_SAID)[0]
        except Exception:  # of any class: there is no template, or it asks for something else
            return ""
        common = os.path.commonprefix([prompt, whole]).rpartition(_ASKED)[2]
        return _OPENING.sub("", common)

    def _with_conversations(self, batch: DataProto) -> Any:
        columns = batch.non_tensor_batch
        infos = columns.get("extra_info", [None] * len(batch))
        return objects(
            {**(info or {}), CONVERSATION: [*self._prompt(batch, row), *columns[CONVERSATION][row]]}
            for row, info in enumerate(infos)
        )

    def _prompt(self, batch: DataProto, row: int) -> list[dict[str, Any]]:
        if "raw_prompt" in batch.non_tensor_batch:
            return [dict(message) for message in batch.non_tensor_batch["raw_prompt"][row]]
        text = self.tokenizer.decode(_prompt_tokens(batch, row), skip_special_tokens=True)
        return [{"role": "user", "content": text}]

    def _own_tokens(self, batch: DataProto) -> torch.Tensor:
        """Return responses with padding in place of what is not the model's, but for separators."""
        responses: torch.Tensor = batch.batch["responses"].clone()
        separator = self.tokenizer(SEPARATOR, add_special_tokens=False)["input_ids"]
        if SEPARATOR not in self.tokenizer.decode(separator, skip_special_tokens=True):
            separator = []  # there is no such token
        ends = (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id)
        silent = next((end for end in ends if not self.tokenizer.decode([end], skip_special_tokens=True)), ends[0])
        for row, turns in enumerate(_turns(batch)):
            given, own = responses[row].tolist(), [silent] * responses.shape[1]
            prompt = _prompt_tokens(batch, row)
            last = 0
            for start, stop in turns:
                if 0 < last < start:
                    opening = self.opening([*prompt, *given[:start]]) if self.keeps else []
                    own[start - len(opening) : start] = opening
                    room = separator[: start - len(opening) - last]
                    own[last : last + len(room)] = room
                own[start:stop] = given[start:stop]
                last = stop
            responses[row] = torch.tensor(own)
        return responses

    def _with_openings(self, batch: DataProto) -> tuple[DataProto, Callable[[Any], Any]]:
        """Return a batch whose responses begin with what the template has begun them with, taken from the prompts."""
        openings = [self.opening(_prompt_tokens(batch, row)) for row in range(len(batch))]
        given, pad = batch.batch, self.tokenizer.pad_token_id
        (count, width), most, before = given["responses"].shape, max(map(len, openings)), given["prompts"].shape[1]
        if not most:
            return batch, lambda scores: scores

        def earlier(values: torch.Tensor, fill: int) -> torch.Tensor:
            """Return values of prompts without the openings at their end."""
            pairs = zip(openings, values, strict=True)
            return torch.stack([torch.cat([row.new_full((len(o),), fill), row[: before - len(o)]]) for o, row in pairs])

        def later(values: torch.Tensor, fill: int, first: int | None = None) -> torch.Tensor:
            """Return values of responses behind those of the openings: their tokens, or `first` for each."""
            rows = []
            for opening, row in zip(openings, values, strict=True):
                new = row.new_tensor(opening if first is None else [first] * len(opening))
                rows.append(torch.cat([new, row, row.new_full((most - len(opening),), fill)]))
            return torch.stack(rows)

        masks = given["attention_mask"].split([before, width], dim=-1)
        tensors = {"prompts": earlier(given["prompts"], pad), "responses": later(given["responses"], pad)}
        tensors["attention_mask"] = torch.cat([earlier(masks[0], 0), later(masks[1], 0, 1)], dim=-1)
        if "input_ids" in given.keys():
            whole = later(given["input_ids"][:, before:], pad)
            tensors["input_ids"] = torch.cat([tensors["prompts"], whole], dim=-1)
        for name, first in (("response_mask", 1), ("rm_scores", 0)):
            if name in given.keys():
                tensors[name] = later(given[name], 0, first)
        columns, shifts = dict(batch.non_tensor_batch), [len(opening) for opening in openings]
        for name in {"turn_starts", "turn_ends"} & columns.keys():
            columns[name] = objects([place + n for place in row] for n, row in zip(shifts, columns[name], strict=True))
        if "turn_starts" in columns:
            columns["turn_starts"] = objects([0, *row[1:]] for row in columns["turn_starts"])

        def back(scores: Any) -> Any:
            if not isinstance(scores, torch.Tensor) or scores.shape != (count, width + most):
                return scores  # which is refused
            placed = torch.stack([row[n : n + width] for n, row in zip(shifts, scores, strict=True)])
            for row, n in enumerate(shifts):  # of an empty response the last token is the template's
                placed[row, 0] += scores[row, :n].sum()
            return placed

        return DataProto.from_dict(tensors, columns, batch.meta_info), back

    def _left_out(self, batch: DataProto, turns: list[list[tuple[int, int]]]) -> str:
        """Describe which words of the model decoding leaves out; "": none."""
        tokenizer = self.tokenizer
        if self._special is None:
            added = getattr(tokenizer, "added_tokens_decoder", {})
            self._special = {token for token, what in added.items() if getattr(what, "special", False)}
        special = self._special - {*self.ends, tokenizer.unk_token_id}  # what is unknown is no word
        found: Counter[int] = Counter()
        responses = batch.batch["responses"]
        if special and torch.isin(responses, responses.new_tensor(sorted(special))).any():
            for tokens, spans in zip(responses.tolist(), turns, strict=True):
                found.update(token for start, stop in spans for token in tokens[start : stop - 1] if token in special)
        named = [f"{tokenizer.decode([token])} ({number} times)" for token, number in found.most_common(5)]
        parts = [f"special tokens that were sampled, {', '.join(named)}"] if named else []
        opening = self.opening(_prompt_tokens(batch, 0)) if len(batch) else []
        if opening:
            parts.append(f"{tokenizer.decode(opening).strip()!r}, with which the chat template begins a response")
        return ", and ".join(parts)


class _KeepingDecoder:
    """A tokenizer that decodes special tokens as well, whatever it is told, but for those that end a turn, or pad."""

    def __init__(self, tokenizer: Any, ends: Collection[int]) -> None:
        self.tokenizer = tokenizer
        self._ends = ends

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.tokenizer(*arguments, **named)

    def __len__(self) -> int:
        return len(self.tokenizer)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "tokenizer" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.tokenizer, name)

    def decode(self, token_ids: Any, *arguments: Any, **named: Any) -> Any:
        """Return tokens, or rows of tokens, as text."""
        tokens = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        tokens = [tokens] if isinstance(tokens, int) else list(tokens)
        if tokens and not isinstance(tokens[0], int):
            return self.batch_decode(tokens, *arguments, **named)
        kept = [token for token in tokens if token not in self._ends]
        return self.tokenizer.decode(kept, **{**named, "skip_special_tokens": False})

    def batch_decode(self, sequences: Any, *arguments: Any, **named: Any) -> list[str]:
        """Return rows of tokens as texts."""
        return [self.decode(sequence, *arguments, **named) for sequence in sequences]


def _turns(batch: DataProto) -> list[list[tuple[int, int]]]:
    """Return where the turns of the model are in each response: first token, and the one after the last."""
    columns = batch.non_tensor_batch
    if "turn_starts" in columns:
        pairs = zip(columns["turn_starts"], columns["turn_ends"], strict=True)
        return [[(start, end + 1) for start, end in zip(*row, strict=True) if end >= start] for row in pairs]
    width = batch.batch["responses"].shape[1]
    return [[(0, length)] for length in batch.batch["attention_mask"][:, -width:].sum(dim=-1).tolist()]


def _prompt_tokens(batch: DataProto, row: int) -> list[int]:
    prompt = batch.batch["prompts"][row]
    tokens: list[int] = prompt[batch.batch["attention_mask"][row, : len(prompt)].bool()].tolist()
    return tokens


def _innermost(reward_fn: Any) -> Any:
    while hasattr(reward_fn, "manager"):  # behind a reward model, in an event loop, or begun early
        reward_fn = reward_fn.manager
    return reward_fn


def _reads_text(reward_fn: Any) -> bool:
    """Tell whether a manager decodes responses and hands the text on: verl's own and the project's do."""
    kind = type(_innermost(reward_fn))
    call = getattr(kind, "run_single", None) or kind.__call__
    return str(getattr(call, "__module__", "")).startswith(OF_TEXT)


def _say(text: str) -> None:
    print(f"note: {text} (shown once)", file=sys.stderr, flush=True)
