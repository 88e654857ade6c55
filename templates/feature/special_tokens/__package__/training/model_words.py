# vextract:template - edit freely
"""What rewards read of responses: the words of the model.

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

from ..episodes.places import shifted_turns, turns_of_episodes
from ..switches import EPISODES
from ..vendored.protocol import DataProto

# So many tokens before a response are looked at for what the template has begun it with.
_NEAR = 64
_ASKED, _SAID = "XASKEDX", "XSAIDX"  # no template strips or changes letters
# How a response begins where no template says it: with a tag that is opened.
_OPENING = re.compile(r"(?:<(?:\w+:)?(?:think|thought|reason|answer|solution|scratchpad)\w*>|\[THINK\]|◁think▷)\s*$")


class ModelWords:
    """Says what rewards read of responses.

    Args:
        tokenizer: of the policy.
        keeps: `local.keep_special_tokens`.
        template: further arguments for the chat template: `data.apply_chat_template_kwargs`.

    Attributes:
        ends: the tokens that end a turn, which are no words.
        decoder: decodes responses; reward managers get it for a tokenizer.
    """

    def __init__(self, tokenizer: Any, keeps: bool = False, template: Any = None) -> None:
        self.tokenizer = tokenizer
        self.keeps = keeps
        self.template = dict(template or {})
        self.ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
        self.decoder: Any = _KeepingDecoder(tokenizer, self.ends) if keeps else tokenizer
        self._special: set[int] | None = None
        self._begins: str | None = None  # how the template begins a turn of the model; "": that is not known
        self._said: set[str] = set()

    @classmethod
    def of(cls, config: Any, tokenizer: Any) -> "ModelWords":
        """Return what the config says of them."""
        template = config.data.get("apply_chat_template_kwargs")
        return cls(tokenizer, bool(config.local.keep_special_tokens), template)

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

    def seen(self, batch: DataProto) -> tuple[DataProto, Callable[[Any], Any]]:
        """Return a batch as a reward manager gets it, and a function from its scores to those of the batch.

        Args:
            batch: rolled-out prompts, or one of them: prompts, responses, attention_mask.
        """
        return self._with_openings(batch) if self.keeps else (batch, lambda scores: scores)

    def note(self, batch: DataProto) -> None:
        """Say once what a reward does not get of a batch."""
        if not self.keeps and self.is_unsaid("left out") and (left := self._left_out(batch)):
            self.say("left out", f"rewards do not get {left}; local.keep_special_tokens=true keeps them")

    def is_unsaid(self, name: str) -> bool:
        """Tell whether a note is still to be printed by this process; rank 0 prints each once."""
        return name not in self._said and os.environ.get("RANK", "0") == "0"

    def say(self, name: str, text: str) -> None:
        """Print a note, if it is still to be printed."""
        if self.is_unsaid(name):
            self._said.add(name)
            print(f"note: {text} (shown once)", file=sys.stderr, flush=True)

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

    def _with_openings(self, batch: DataProto) -> tuple[DataProto, Callable[[Any], Any]]:
        """Return a batch whose responses begin with what the template has begun them with, taken from the prompts."""
        openings = [self.opening(prompt_tokens(batch, row)) for row in range(len(batch))]
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
        if EPISODES and "turn_starts" in columns:
            columns |= shifted_turns(columns, shifts)

        def back(scores: Any) -> Any:
            if not isinstance(scores, torch.Tensor) or scores.shape != (count, width + most):
                return scores  # which is refused
            placed = torch.stack([row[n : n + width] for n, row in zip(shifts, scores, strict=True)])
            for row, n in enumerate(shifts):  # of an empty response the last token is the template's
                placed[row, 0] += scores[row, :n].sum()
            return placed

        return DataProto.from_dict(tensors, columns, batch.meta_info), back

    def _left_out(self, batch: DataProto) -> str:
        """Describe which words of the model decoding leaves out; "": none."""
        tokenizer = self.tokenizer
        if self._special is None:
            added = getattr(tokenizer, "added_tokens_decoder", {})
            self._special = {token for token, what in added.items() if getattr(what, "special", False)}
        special = self._special - {*self.ends, tokenizer.unk_token_id}  # what is unknown is no word
        found: Counter[int] = Counter()
        responses = batch.batch["responses"]
        if special and torch.isin(responses, responses.new_tensor(sorted(special))).any():
            for tokens, spans in zip(responses.tolist(), turns_of(batch), strict=True):
                found.update(token for start, stop in spans for token in tokens[start : stop - 1] if token in special)
        named = [f"{tokenizer.decode([token])} ({number} times)" for token, number in found.most_common(5)]
        parts = [f"special tokens that were sampled, {', '.join(named)}"] if named else []
        opening = self.opening(prompt_tokens(batch, 0)) if len(batch) else []
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


def turns_of(batch: DataProto) -> list[list[tuple[int, int]]]:
    """Return where the turns of the model are in each response: first token, and the one after the last."""
    if EPISODES and "turn_starts" in batch.non_tensor_batch:
        return turns_of_episodes(batch.non_tensor_batch)
    width = batch.batch["responses"].shape[1]
    return [[(0, length)] for length in batch.batch["attention_mask"][:, -width:].sum(dim=-1).tolist()]


def prompt_tokens(batch: DataProto, row: int) -> list[int]:
    """Return the tokens of a prompt, without padding."""
    prompt = batch.batch["prompts"][row]
    tokens: list[int] = prompt[batch.batch["attention_mask"][row, : len(prompt)].bool()].tolist()
    return tokens
