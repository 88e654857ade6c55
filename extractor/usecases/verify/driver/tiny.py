# mypy: disable-error-code="misc, no-untyped-call"
"""Build a tokenizer and models; the same weights each time."""

from __future__ import annotations

import copy
import functools
import string
from typing import Any

import torch
from transformers import PreTrainedTokenizerFast

VOCABULARY = ("<pad>", "<eos>", "<unk>", *string.ascii_lowercase, *string.digits, *" .:+-=<>|?\n")
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)


class ListsOfTokens(PreTrainedTokenizerFast):
    """A tokenizer whose chat template returns a list of tokens, as before transformers 5."""

    def apply_chat_template(self, *args: Any, **kwargs: Any) -> Any:
        """Return no dictionary unless asked for one."""
        return super().apply_chat_template(*args, **{"return_dict": False, **kwargs})


def tokenizer(*, lists: bool = False) -> Any:
    """Return a tokenizer with a token per character.

    Args:
        lists: Its chat template returns lists of tokens.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    ids = {token: index for index, token in enumerate(VOCABULARY)}
    raw = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), behavior="isolated")
    raw.decoder = decoders.Fuse()
    cls = ListsOfTokens if lists else PreTrainedTokenizerFast
    found = cls(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left")
    found.chat_template = TEMPLATE
    return found


def model(kind: str = "Qwen2ForCausalLM", **changes: Any) -> Any:
    """Return a Qwen2 of two layers with random weights, float32; the generator begins anew with it."""
    found = copy.deepcopy(_built(kind, tuple(sorted(changes.items()))))
    torch.manual_seed(7)
    return found


@functools.cache
def _built(kind: str, changes: tuple[tuple[str, Any], ...]) -> Any:
    import transformers

    settings = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,
        "attention_dropout": 0.0,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": None,
        "num_labels": 1,
        "attn_implementation": "sdpa",
        **dict(changes),
    }
    torch.manual_seed(7)
    config = transformers.Qwen2Config(**settings)
    built = getattr(transformers, kind)(config).float()
    if hasattr(built, "dropout"):
        built.dropout = torch.nn.Identity()
    return built
