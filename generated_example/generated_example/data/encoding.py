# vextract:template base/__package__/data/encoding.py - edit freely
"""From the items of a dataset to prompts as tokens.

In this release of verl a dataset gives messages, and the rollout encodes them. Here they are encoded as they are read,
as the releases before did, so that one that is too long is known before it is answered.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import Dataset

from ..errors import DataError
from ..vendored.utils.model import compute_position_id_with_mask
from ..vendored.utils.torch_functional import postprocess_data


def encoded(dataset: Dataset, tokenizer: Any, data: Any) -> Dataset:
    """Return a dataset of the same prompts, as tokens.

    Args:
        dataset: of prompts, as messages in `raw_prompt`; what it has encoded itself stays as it is.
        tokenizer: of the policy.
        data: the config's `data` section.
    """
    return EncodedPrompts(dataset, tokenizer, data)


class EncodedPrompts(Dataset):
    """A dataset with the prompts of another one, left-padded: input_ids, attention_mask, position_ids, raw_prompt_ids.

    What else one asks of it, the other dataset answers.
    """

    def __init__(self, dataset: Any, tokenizer: Any, data: Any) -> None:
        self.dataset = dataset
        self._tokenizer = tokenizer
        # Read once: reading a config takes longer than encoding a short prompt.
        self._template = dict(data.get("apply_chat_template_kwargs") or {})
        self._keeps_chat, self._keeps_text = data.get("return_raw_chat"), data.get("return_full_prompt")
        self._limits = {"max_length": data.max_prompt_length, "truncation": data.get("truncation", "error")}

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "dataset" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return the items of a batch: one call of the tokenizer takes a fraction of one for each."""
        whole = getattr(type(self.dataset), "__getitems__", None)
        given = whole(self.dataset, indices) if whole is not None else [self.dataset[index] for index in indices]
        items = [dict(item) for item in given]
        for item in items:
            item.pop("dummy_tensor", None)
        asked = [place for place, item in enumerate(items) if "raw_prompt" in item and "input_ids" not in item]
        if asked:
            self._encode([items[place] for place in asked], [indices[place] for place in asked])
        return items

    def _encode(self, items: list[dict[str, Any]], indices: Sequence[int]) -> None:
        """Add the tokens of items to them."""
        tokenizer = self._tokenizer
        texts = []
        for item in items:
            messages = item["raw_prompt"] if self._keeps_chat else item.pop("raw_prompt")
            texts.append(
                tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **self._template)
            )
            if self._keeps_text:
                item["full_prompts"] = texts[-1]
        tokenized = tokenizer(texts, add_special_tokens=False)["input_ids"]
        prompts = [self._cut(index, tokens) for index, tokens in zip(indices, tokenized, strict=True)]
        input_ids = torch.full((len(prompts), self._limits["max_length"]), tokenizer.pad_token_id)
        attention_mask = torch.zeros_like(input_ids)
        for row, tokens in enumerate(prompts):
            if tokens:
                input_ids[row, -len(tokens) :] = torch.tensor(tokens)
                attention_mask[row, -len(tokens) :] = 1
        position_ids = compute_position_id_with_mask(attention_mask)
        for row, (item, tokens) in enumerate(zip(items, prompts, strict=True)):
            item["input_ids"], item["attention_mask"] = input_ids[row], attention_mask[row]
            item["position_ids"], item["raw_prompt_ids"] = position_ids[row], tokens

    def _cut(self, index: int, tokens: list[int]) -> list[int]:
        """Return the tokens of a prompt, as many as `max_prompt_length` allows."""
        if len(tokens) <= self._limits["max_length"]:
            return tokens
        if self._limits["truncation"] == "error":
            raise DataError(
                f"prompt {index} has {len(tokens)} tokens, "
                f"more than data.max_prompt_length={self._limits['max_length']}",
                "set data.truncation=left, or a larger data.max_prompt_length",
            )
        whole = torch.tensor([tokens])
        ids, _ = postprocess_data(
            whole, torch.ones_like(whole), pad_token_id=self._tokenizer.pad_token_id, left_pad=True, **self._limits
        )
        cut: list[int] = ids[0].tolist()
        return cut
