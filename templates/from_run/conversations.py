# vextract:hook  yours: written once, never touched by an upgrade
"""The messages of a response, for a reward manager that reads them."""

import itertools
from typing import Any

import numpy as np


def conversations(data: Any, tokenizer: Any) -> Any:
    """Return the messages of each row, as verl's SGLang rollout has them: the prompt, and the response by turns."""
    found, asked = np.empty(len(data), dtype=object), data.non_tensor_batch.get("raw_prompt")
    tensors, length = data.batch, data.batch["prompts"].shape[-1]
    valid = tensors["attention_mask"][:, length:].bool()
    sampled = tensors.get("response_mask", valid)
    for row, tokens in enumerate(tensors["responses"]):
        prompt = tokenizer.decode(tensors["prompts"][row][tensors["attention_mask"][row, :length].bool()])
        messages = [{"role": "user", "content": prompt}] if asked is None else list(asked[row])
        written = zip(tokens[valid[row]].tolist(), sampled[row][valid[row]].tolist(), strict=True)
        for by_model, part in itertools.groupby(written, key=lambda item: bool(item[1])):
            text = tokenizer.decode([token for token, _ in part], skip_special_tokens=True)
            messages.append({"role": "assistant" if by_model else "tool", "content": text})
        found[row] = {"messages": messages}
    return found
