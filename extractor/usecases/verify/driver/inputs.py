"""Make the shared inputs of cases: numbers, configs, tokenizer, models."""

import copy
import functools
import string
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from omegaconf import OmegaConf
from transformers import PreTrainedTokenizerFast

BATCH = 8
LENGTH = 12
PROMPT = 7
VOCABULARY = ("<pad>", "<eos>", "<unk>", *string.ascii_lowercase, *string.digits, *" .:+-=<>|?\n")
TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
# Tables of settings: settings.yaml.
SETTINGS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("settings.yaml").read_text(encoding="utf-8"))


def normal(*shape: int, seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normally distributed numbers."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * scale).to(dtype)


def draw_per_token(seed: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normally distributed numbers of shape (BATCH, LENGTH)."""
    return normal(BATCH, LENGTH, seed=seed, scale=scale, dtype=dtype)


def integers(*shape: int, seed: int, low: int = 0, high: int) -> torch.Tensor:
    """Return whole numbers below `high`."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def prompt_mask() -> torch.Tensor:
    """Return a mask of left-padded prompts, shape (BATCH, PROMPT)."""
    return (torch.arange(PROMPT)[None, :] >= torch.tensor([0, 3, 1, 2, 0, 5, 4, 6])[:, None]).long()


def response_mask(*, empty: bool = False, holes: bool = False) -> torch.Tensor:
    """Return a response mask, shape (BATCH, LENGTH), with varied lengths.

    Args:
        empty: One row has no token at all.
        holes: Some rows have masked tokens in the middle, as the observations of an environment are.
    """
    lengths = torch.tensor([12, 1, 5, 9, 12, 3, 7, 10])
    mask = (torch.arange(LENGTH)[None, :] < lengths[:, None]).long()
    if empty:
        mask[5] = 0
    if holes:
        mask[0, 3:6] = 0
        mask[4, 7] = 0
    return mask


def log_probs(seed: int) -> torch.Tensor:
    """Return log-probabilities of shape (BATCH, LENGTH)."""
    return -draw_per_token(seed).abs() - 0.1


def rewards(*, dense: bool, mask: torch.Tensor) -> torch.Tensor:
    """Return token-level rewards: at each row's last token, or everywhere."""
    if dense:
        return draw_per_token(11) * mask
    values = torch.tensor([1.0, 0.0, 0.25, 1.0, -0.5, 0.125, 0.7, 0.3])
    found = torch.zeros(BATCH, LENGTH)
    last = (mask.sum(-1) - 1).clamp(min=0)
    found[torch.arange(BATCH), last] = values
    return found


def groups(kind: str = "fours") -> np.ndarray[Any, Any]:
    """Return prompt names: groups of 4, of 4 "in order", of 2 ("pairs") or 4-3-1 ("singletons")."""
    names = {"fours": "abbbabaa", "in order": "aaaabbbb", "pairs": "abcbdacd", "singletons": "abbbacaa"}[kind]
    return np.array(list(names), dtype=object)


def edges(seed: int) -> torch.Tensor:
    """Return numbers with zeros and one-signed rows, shape (BATCH, LENGTH)."""
    values = draw_per_token(seed)
    values[1], values[2] = values[1].abs(), -values[2].abs()
    values[:, ::3] = 0
    return values


def config(**changes: Any) -> Any:
    """Return an OmegaConf configuration with these values."""
    return OmegaConf.create(changes)


def actor_settings(**changes: Any) -> dict[str, Any]:
    """Return the actor's settings by upstream's keys, for a CPU."""
    return {**copy.deepcopy(SETTINGS["actor"]), **changes}


def tokenizer() -> Any:
    """Return a tokenizer with a token per character."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    ids = {token: index for index, token in enumerate(VOCABULARY)}
    raw = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex("[\\s\\S]"), behavior="isolated")
    raw.decoder = decoders.Fuse()
    names = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    found = PreTrainedTokenizerFast(tokenizer_object=raw, padding_side="left", **names)
    found.chat_template = TEMPLATE
    return found


def model(kind: str = "Qwen2ForCausalLM", **changes: Any) -> Any:
    """Return a small random float32 Qwen2; reset the random seed."""
    found = copy.deepcopy(_build_model(kind, tuple(sorted(changes.items()))))
    torch.manual_seed(7)
    return found


@functools.cache
def _build_model(kind: str, changes: tuple[tuple[str, Any], ...]) -> Any:
    import transformers

    settings = {**SETTINGS["model"], "vocab_size": len(VOCABULARY), **dict(changes)}
    torch.manual_seed(7)
    config = transformers.Qwen2Config(**settings)
    built = getattr(transformers, kind)(config).float()
    if hasattr(built, "dropout"):
        built.dropout = torch.nn.Identity()
    return built
