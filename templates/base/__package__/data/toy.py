# vextract:template
"""A toy model for the first run: a character tokenizer and a small random-init Qwen2, saved as Hugging Face does.

It needs no download and learns the exercises of `custom/env_wrapper.py` on a CPU within a minute. For anything real,
set `actor_rollout_ref.model.path` to your model and forget this file.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from .toy_size import HEADS, HIDDEN_SIZE, INITIALIZER_RANGE

ALPHABET = "0123456789+-=?!.,:"
# For tasks whose prompts are sentences: every printable character of ASCII, and some words in one piece.
TEXT = "".join(map(chr, range(32, 127))) + "\n"
WORDS = {"gsm8k": ("#### ",), "reasoning": ("<think>", "</think>", "<answer>", "</answer>")}
# Decoding skips <eos>, which also pads, and <unk>. Other tokens in a response show, and cost reward.
TOKENS = ("<eos>", "<unk>", "<system>", "<user>", "<assistant>")

# `<user>37=<assistant>`; an assistant's turn ends with the end-of-sequence token.
CHAT_TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}"
    "{% if message['role'] == 'assistant' %}<eos>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)

# The tasks in digits, and the layers that learn them in under a minute on one core.
LAYERS = {"add1": 1, "guess": 1, "succ": 2, "succ2": 1}


def ensure_toy_model(
    directory: str | Path, *, task: str = "succ2", seed: int = 0, layers: int | None = None, **settings: Any
) -> Path:
    """Create the toy model, unless the directory holds a model.

    Args:
        directory: where the model goes: all files together or none, the same for the same arguments.
        task: chooses the alphabet (digits for the toy's own tasks, printable ASCII for any other name), and the number
            of layers unless `layers` does.
        seed: of the initial weights. The global random state is left as it was.
        settings: of the model besides, such as tie_word_embeddings.

    Returns:
        The directory, to be given as `actor_rollout_ref.model.path`.
    """
    directory = Path(directory)
    if (directory / "config.json").is_file():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}-", dir=directory.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        size = _save_tokenizer(made, ALPHABET if task in LAYERS else TEXT, WORDS.get(task, ()))
        _save_model(made, size, seed, num_hidden_layers=layers or LAYERS.get(task, 1), **settings)
        os.replace(made, directory)
    return directory


def _save_tokenizer(directory: Path, alphabet: str, words: tuple[str, ...]) -> int:
    """Save the tokenizer; returns how many tokens it has."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    # Byte pairs without merges: what transformers 5 takes any tokenizer beside a Qwen2 model for.
    characters = [{" ": "Ġ", "\n": "Ċ"}.get(character, character) for character in alphabet]
    vocabulary = {token: index for index, token in enumerate([*TOKENS, *words, *characters])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in (*TOKENS[2:], *words)])
    ends = {"eos_token": "<eos>", "pad_token": "<eos>", "unk_token": "<unk>", "padding_side": "left"}
    made = {"tokenizer_object": tokenizer, "clean_up_tokenization_spaces": False, "model_max_length": 512}
    fast = PreTrainedTokenizerFast(**ends, **made)
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(directory)
    return len(fast)


def _save_model(directory: Path, size: int, seed: int, **settings: Any) -> None:
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM
    from transformers.utils import logging

    config = Qwen2Config(
        vocab_size=size,
        hidden_size=HIDDEN_SIZE,
        intermediate_size=256,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=512,
        initializer_range=INITIALIZER_RANGE,
        pad_token_id=TOKENS.index("<eos>"),
        eos_token_id=TOKENS.index("<eos>"),
        bos_token_id=None,
        **settings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config).to(torch.float32)
    model.generation_config.pad_token_id = config.pad_token_id
    model.generation_config.eos_token_id = config.eos_token_id
    logging.disable_progress_bar()
    model.save_pretrained(directory)
