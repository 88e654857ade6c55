"""Chat templates in the shape of those that families of models have, and a tokenizer for each."""

from dataclasses import dataclass
from typing import Any

# `{content}` and `{role}` stand for those of a message.
_LOOP = "{{% for message in messages %}}{body}{{% endfor %}}{{% if add_generation_prompt %}}{start}{{% endif %}}"


def _template(others: str, model: str, start: str, before: str = "", after: str = "") -> str:
    """A template that writes messages of the model and those of others."""
    parts = (
        part.replace("{content}", "{{ message['content'] }}").replace("{role}", "{{ message['role'] }}")
        for part in (others, model)
    )
    others, model = parts
    body = f"{{% if message['role'] == 'assistant' %}}{model}{{% else %}}{others}{{% endif %}}"
    return before + _LOOP.format(body=body, start=start) + after


@dataclass(frozen=True)
class Family:
    """What a family's tokenizer and generation config say.

    Attributes:
        special: its special tokens, the tokenizer's end of sequence first.
        template: the chat template.
        end: with what that ends a conversation's last turn of the model; None: with nothing.
        ends: those that may end a turn, as its generation config has them.
        builder: upstream's class, by its name before ContinuousTokenBuilder; None: upstream leaves out what stands
            between messages.
        opens: what the model writes before its answer.
    """

    special: tuple[str, ...]
    template: str
    end: str | None
    ends: tuple[str, ...]
    builder: str | None = ""
    opens: str = ""


FAMILIES = {
    "qwen": Family(
        ("<|im_end|>", "<|im_start|>", "<|endoftext|>"),
        _template(
            "<|im_start|>{role}\n{content}<|im_end|>\n", "<|im_start|>assistant\n{content}<|im_end|>\n",
            "<|im_start|>assistant\n",
        ),
        "<|im_end|>", ("<|im_end|>", "<|endoftext|>"), "Qwen",
    ),
    "llama-3": Family(
        (
            "<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|end_of_text|>",
            "<|eom_id|>",
        ),
        _template(
            "<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>",
            "<|start_header_id|>assistant<|end_header_id|>\n\n{content}<|eot_id|>",
            "<|start_header_id|>assistant<|end_header_id|>\n\n", before="<|begin_of_text|>",
        ),
        "<|eot_id|>", ("<|eot_id|>", "<|end_of_text|>", "<|eom_id|>"),
    ),
    "gemma": Family(
        ("<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
        _template(
            "<start_of_turn>{role}\n{content}<end_of_turn>\n", "<start_of_turn>model\n{content}<end_of_turn>\n",
            "<start_of_turn>model\n", before="<bos>",
        ),
        "<end_of_turn>", ("<eos>", "<end_of_turn>"), None,
    ),
    "mistral": Family(
        ("</s>", "<s>", "[INST]", "[/INST]"), _template("[INST]{content}[/INST]", "{content}</s>", "", before="<s>"),
        "</s>", ("</s>",),
    ),
    "llama-2": Family(
        ("</s>", "<s>"), _template("[INST] {content} [/INST]", " {content} </s><s>", "", before="<s>"),
        "</s>", ("</s>",), None, opens=" ",
    ),
    "phi": Family(
        ("<|endoftext|>", "<|user|>", "<|system|>", "<|assistant|>", "<|end|>"),
        _template(
            "<|{role}|>\n{content}<|end|>\n", "<|assistant|>\n{content}<|end|>\n", "<|assistant|>\n",
            after="{% if not add_generation_prompt %}<|endoftext|>{% endif %}",
        ),
        "<|end|>", ("<|endoftext|>", "<|end|>", "<|assistant|>"), None,
    ),
    "deepseek": Family(
        ("<｜end▁of▁sentence｜>", "<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"),
        _template(
            "<｜User｜>{content}", "<｜Assistant｜>{content}<｜end▁of▁sentence｜>", "<｜Assistant｜>",
            before="<｜begin▁of▁sentence｜>",
        ),
        "<｜end▁of▁sentence｜>", ("<｜end▁of▁sentence｜>",), "DeepSeek",
    ),
    "glm": Family(
        ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
        _template("<|{role}|>\n{content}", "<|assistant|>\n{content}", "<|assistant|>\n", before="[gMASK]<sop>"),
        None, ("<|endoftext|>", "<|user|>", "<|observation|>"), "GLM",
    ),
    "gpt-oss": Family(
        ("<|return|>", "<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|call|>", "<|endoftext|>"),
        _template(
            "<|start|>{role}<|message|>{content}<|end|>",
            "<|start|>assistant<|channel|>final<|message|>{content}"
            "{% if loop.last and not add_generation_prompt %}<|return|>{% else %}<|end|>{% endif %}",
            "<|start|>assistant",
        ),
        "<|return|>", ("<|return|>", "<|call|>", "<|endoftext|>"), "GptOss",
        opens="<|channel|>final<|message|>",
    ),
}  # fmt: skip


def tokenizer_of(family: Family) -> Any:
    """A tokenizer of bytes, in which `ab` is a token as well, with a family's special tokens and template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {piece: index for index, piece in enumerate([*letters, "ab"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("a", "b")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=family.special[0], extra_special_tokens=list(family.special[1:])
    )
    fast.pad_token = fast.eos_token
    fast.chat_template = family.template
    return fast
