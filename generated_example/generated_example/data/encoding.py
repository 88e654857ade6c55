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
        items = [dict(self.dataset[index]) for index in indices]
        pairs = zip(indices, items, strict=True)
        asked = [(index, item) for index, item in pairs if "raw_prompt" in item and "input_ids" not in item]
        for item in items:
            item.pop("dummy_tensor", None)
        tokenizer, texts = self._tokenizer, []
        for _, item in asked:
            messages = item["raw_prompt"] if self._keeps_chat else item.pop("raw_prompt")
            given = {"add_generation_prompt": True, "tokenize": False, **self._template}
            texts.append(tokenizer.apply_chat_template(messages, **given))
            if self._keeps_text:
                item["full_prompts"] = texts[-1]
        tokenized = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        for (index, item), tokens in zip(asked, tokenized, strict=True):
            item.update(self._padded(index, tokens))
        return items

    def _padded(self, index: int, prompt: list[int]) -> dict[str, Any]:
        """Return what a prompt is as tokens, each tensor of (max_prompt_length,): padded on the left, or cut."""
        tokens, most = torch.tensor([prompt], dtype=torch.long), self._limits["max_length"]
        if self._limits["truncation"] == "error" and len(prompt) > most:
            raise DataError(
                f"prompt {index} has {len(prompt)} tokens, more than data.max_prompt_length={most}",
                "set data.truncation=left, or a larger data.max_prompt_length",
            )
        input_ids, attention_mask = postprocess_data(
            tokens, torch.ones_like(tokens), pad_token_id=self._tokenizer.pad_token_id, left_pad=True, **self._limits
        )
        return {
            "input_ids": input_ids[0],
            "attention_mask": attention_mask[0],
            "position_ids": compute_position_id_with_mask(attention_mask)[0],
            "raw_prompt_ids": input_ids[0][attention_mask[0].bool()].tolist(),
        }
