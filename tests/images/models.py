"""Tiny models that see, with random weights, and their processors."""

from pathlib import Path
from typing import Any

SPECIAL = [
    "<eos>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
WORDS = ["red", "green", "blue", "yellow"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }} {% if m.content is string %}{{ m.content }}{% else %}"
    "{% for p in m.content %}{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}"
    "{{ p.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)


def save_model(kind: str, directory: Path) -> None:
    """Save a model and its processor: `Qwen2_5_VL` or `Qwen3VL`, with heads that vLLM computes on a CPU."""
    import torch
    import transformers

    tokenizer = _tokenizer()
    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in SPECIAL}
    seeing: dict[str, Any] = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 1, "patch_size": 14}
    seeing |= {"spatial_merge_size": 2, "temporal_patch_size": 2, "out_hidden_size": 64, "initializer_range": 0.1}
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]}
    if kind == "Qwen2_5_VL":
        seeing |= {"window_size": 56, "fullatt_block_indexes": [1]}
        films: Any = transformers.Qwen2VLVideoProcessor
    else:
        seeing |= {"num_position_embeddings": 64, "deepstack_visual_indexes": [0]}
        rope |= {"mrope_interleaved": True}
        films = transformers.Qwen3VLVideoProcessor
    text = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    text |= {"num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 512, "initializer_range": 0.1}
    text |= {"vocab_size": len(tokenizer), "rope_parameters": rope, "bos_token_id": None}
    text |= {"pad_token_id": ids["<eos>"], "eos_token_id": ids["<|im_end|>"]}
    tokens = {"image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"]}
    tokens |= {f"vision_{end}_token_id": ids[f"<|vision_{end}|>"] for end in ("start", "end")}
    config = getattr(transformers, f"{kind}Config")(
        text_config=text, vision_config=seeing, tie_word_embeddings=False, **tokens
    )
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForConditionalGeneration")(config)
    model.generation_config.pad_token_id, model.generation_config.eos_token_id = ids["<eos>"], ids["<|im_end|>"]
    sizes = {"patch_size": 14, "merge_size": 2}
    images = transformers.Qwen2VLImageProcessor(size={"shortest_edge": 4 * 784, "longest_edge": 64 * 784}, **sizes)
    processor = getattr(transformers, f"{kind}Processor")(images, tokenizer, films(**sizes), chat_template=TEMPLATE)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(directory)
    processor.save_pretrained(directory)


def _tokenizer() -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = ["Ġ", *"abcdefghijklmnopqrstuvwxyz?"]
    known = {token: index for index, token in enumerate(["<unk>", *SPECIAL, *WORDS, *letters])}
    made = Tokenizer(models.BPE(known, [], unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    made.add_tokens([AddedToken(token, special=False, normalized=False) for token in WORDS])
    ends = {"eos_token": "<|im_end|>", "pad_token": "<eos>", "unk_token": "<unk>", "padding_side": "left"}
    return PreTrainedTokenizerFast(tokenizer_object=made, chat_template=TEMPLATE, **ends)
