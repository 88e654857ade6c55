"""Make the shared inputs of cases: numbers, configs, tokenizer, models."""

import copy
import functools
import inspect
import string
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
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
ROLLOUT_CORRECTION = {
    "rollout_is": "token",
    "rollout_is_threshold": 1.5,
    "rollout_rs": "sequence",
    "rollout_rs_threshold": 1.4,
}


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
    """Return prompt names: groups of 4, 2 ("pairs") or 4-3-1 ("singletons")."""
    names = {"fours": "abbbabaa", "pairs": "abcbdacd", "singletons": "abbbacaa"}[kind]
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
    settings: dict[str, Any] = {
        "strategy": "fsdp2",
        "rollout_n": 1,
        "ppo_mini_batch_size": 4,
        "ppo_micro_batch_size_per_gpu": 2,
        "ppo_epochs": 1,
        "ppo_max_token_len_per_gpu": 40,
        "use_dynamic_bsz": False,
        "clip_ratio": 0.2,
        "clip_ratio_low": 0.17,
        "clip_ratio_high": 0.28,
        "clip_ratio_c": 3.0,
        "loss_agg_mode": "token-mean",
        "entropy_coeff": 0.01,
        "entropy_from_logits_with_chunking": False,
        "entropy_checkpointing": False,
        "use_kl_loss": True,
        "kl_loss_type": "low_var_kl",
        "kl_loss_coef": 0.05,
        "use_torch_compile": False,
        "grad_clip": 1.0,
        "ulysses_sequence_parallel_size": 1,
        "policy_loss": {
            "loss_mode": "vanilla",
            "clip_cov_ratio": 0.2,
            "clip_cov_lb": -5.0,
            "clip_cov_ub": 5.0,
            "kl_cov_ratio": 0.2,
            "ppo_kl_coef": 0.7,
        },
    }
    settings.update(changes)
    return settings


def call(function: Callable[..., Any], available: Mapping[str, Any], *, by_default: bool = False) -> Any:
    """Call a function with available inputs; `by_default` omits optional ones.

    Raises:
        TypeError: it needs something that is not available.
    """
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        needed = parameter.default is inspect.Parameter.empty
        if name in available and (needed or not by_default):
            value = available[name]
            arguments[name] = value.clone() if isinstance(value, torch.Tensor) and not value.requires_grad else value
        elif needed and parameter.kind not in (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL):
            raise TypeError(f"verify has no input for its parameter {name!r}")
    return function(**arguments)


class ListsOfTokens(PreTrainedTokenizerFast):
    """Returns lists from its chat template, as before transformers 5."""

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
    """Return a small random float32 Qwen2; reset the random seed."""
    found = copy.deepcopy(_build_model(kind, tuple(sorted(changes.items()))))
    torch.manual_seed(7)
    return found


@functools.cache
def _build_model(kind: str, changes: tuple[tuple[str, Any], ...]) -> Any:
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
