# vextract:template - edit freely
"""The decoding loop of transformers' `generate`, for many rows that end at different times.

transformers' own loop copies keys and values where several heads share them, computes rows that have ended as if they
had not, and draws a random number for each word of the vocabulary. Here rows that have ended are taken out, a prompt is
read once for all its responses, and each token takes one random number, which is its row's own: what a row says does
not depend on the rows beside it. The settings of the sampling, and the cache, are transformers' own code.
"""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from transformers import AttentionInterface, GenerationMixin
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.generation import logits_process, stopping_criteria
from transformers.generation.utils import GenerateDecoderOnlyOutput
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from ..switches import OVERLAP

SHARED_HEADS = "sdpa_shared_heads"
# What looks at each row for itself.
PROCESSORS = (
    logits_process.TemperatureLogitsWarper,
    logits_process.TopKLogitsWarper,
    logits_process.TopPLogitsWarper,
    logits_process.MinPLogitsWarper,
    logits_process.RepetitionPenaltyLogitsProcessor,
)
CRITERIA = (stopping_criteria.MaxLengthCriteria, stopping_criteria.EosTokenCriteria)
ARGUMENTS = {"attention_mask", "past_key_values", "position_ids", "cache_position", "logits_to_keep", "use_cache"}


@torch.no_grad()
def decode(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    *,
    uniforms: torch.Tensor | None,
    log_probs: list[torch.Tensor] | None = None,
    **arguments: Any,
) -> Any:
    """Write responses: what `generate` calls as its `custom_generate`.

    Args:
        model: a causal language model.
        input_ids: the prompts, (bs, prompt_length) int64, padded on the left.
        logits_processor: what changes the distribution of the next token.
        stopping_criteria: the longest sequence, and the tokens that end one.
        generation_config: whether tokens are drawn, and the token for padding.
        uniforms: a random number in [0, 1) for each token, (bs, tokens or more) float64; None: tokens are not drawn.
        log_probs: receives those of the tokens, as they were drawn: (bs, tokens) float32, 0 after the end of a row;
            None: they are not computed. It stays empty where transformers' own loop does the work.
        arguments: what else goes to the model; attention_mask is (bs, prompt_length), or None: no padding.

    Returns:
        `sequences`, (bs, prompt_length + longest response) int64, padded on the right.

    Raises:
        RuntimeError: the model gives no probabilities.
    """
    if OVERLAP:
        tell = arguments.pop("ended", None)  # is told the rows that have ended while others go on, and their tokens
    if not _fits(model, logits_processor, stopping_criteria, arguments):
        return GenerationMixin._sample(
            model, input_ids, logits_processor, stopping_criteria, generation_config, **arguments
        )
    most = min(one.max_length for one in stopping_criteria if hasattr(one, "max_length"))
    ends = [one.eos_token_id.to(input_ids.device) for one in stopping_criteria if hasattr(one, "eos_token_id")]
    padding, cache = generation_config._pad_token_tensor, arguments["past_key_values"]
    bs, start = input_ids.shape
    tokens = input_ids.new_full((bs, most), 0 if padding is None else int(padding))
    tokens[:, :start] = input_ids
    mask = torch.ones_like(tokens, dtype=torch.bool)
    if arguments.get("attention_mask") is not None:
        mask[:, :start] = arguments["attention_mask"].bool()
    is_padded, read = not bool(mask.all()), mask[:, :start].sum(dim=-1)
    found = None if log_probs is None else torch.zeros(tokens.shape, device=input_ids.device)
    rows = torch.arange(bs, device=input_ids.device)  # that have not ended
    logits = _read_prompts(model, input_ids, mask[:, :start], cache, is_padded)
    with _shared_heads(model):
        for place in range(start, most):
            logits, written = logits.to(torch.float32, copy=True), tokens[rows, :place]
            if is_padded:  # which nobody has written, and what looks at the tokens may not see
                written = torch.where(mask[rows, :place], written, written[:, start - 1 : start])
            scores = logits_processor(written, logits)
            if uniforms is not None and generation_config.do_sample:
                last = draw(scores, uniforms[rows, place - start])
            else:
                last = scores.argmax(dim=-1)
            tokens[rows, place] = last
            if found is not None:
                found[rows, place] = scores.gather(-1, last[:, None])[:, 0] - scores.logsumexp(dim=-1)
            going = ~torch.isin(last, torch.cat(ends)) if ends else torch.ones_like(last, dtype=torch.bool)
            if place + 1 == most or not (count := int(going.sum())):
                break
            if count < len(rows):
                if OVERLAP and tell is not None:
                    for row in rows[~going].tolist():
                        tell(row, tokens[row, start : place + 1].tolist())
                rows = rows[going]
                cache.batch_select_indices(going.nonzero()[:, 0])
            seen = mask[rows, : place + 1] if is_padded else None
            logits = _read_last(model, tokens[rows, place], read[rows] + place - start, cache, seen)
    if log_probs is not None and found is not None:
        log_probs.append(found[:, start : place + 1])
    return GenerateDecoderOnlyOutput(sequences=tokens[:, : place + 1])


def draw(scores: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Draw a token from each row's distribution, by the inverse of its cumulative probabilities.

    Args:
        scores: logits, (rows, vocabulary) float32; -inf where a token may not be.
        uniforms: in [0, 1), (rows,) float64.

    Raises:
        RuntimeError: a row has no probabilities.
    """
    cumulative = torch.softmax(scores, dim=-1).cumsum(dim=-1, dtype=torch.float64)
    if not torch.isfinite(cumulative[:, -1]).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    # To the right: a token without probability ends where the one before it does, and is never the first beyond.
    below = (uniforms.to(cumulative.device) * cumulative[:, -1])[:, None]
    return torch.searchsorted(cumulative, below, right=True)[:, 0]


def _read_prompts(
    model: Any, prompts: torch.Tensor, mask: torch.Tensor, cache: DynamicCache, is_padded: bool
) -> torch.Tensor:
    """Run the model over the prompts, each of which it reads once, and return what follows: (rows, vocabulary)."""
    both = torch.cat([prompts, mask.long()], dim=-1)
    different, prompt_of = torch.unique(both, dim=0, return_inverse=True)
    prompts, real = different.split(prompts.shape[-1], dim=-1)
    logits: torch.Tensor = model(
        input_ids=prompts,
        attention_mask=real if is_padded else None,
        position_ids=(real.cumsum(dim=-1) - 1).clamp(min=0),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits
    cache.batch_select_indices(prompt_of)
    return logits[prompt_of, -1]


def _read_last(
    model: Any, tokens: torch.Tensor, positions: torch.Tensor, cache: DynamicCache, mask: torch.Tensor | None
) -> torch.Tensor:
    """Run the model over the last token of each row, and return what follows: (rows, vocabulary)."""
    if mask is not None and model.config._attn_implementation == SHARED_HEADS:
        mask = mask[:, None, None]  # as the attention takes it: transformers makes another from it otherwise
    outputs = model(
        input_ids=tokens[:, None],
        attention_mask=mask,
        position_ids=positions[:, None],
        past_key_values=cache,
        use_cache=True,
    )
    logits: torch.Tensor = outputs.logits[:, -1]
    return logits


def _fits(model: Any, processors: Any, criteria: Any, arguments: dict[str, Any]) -> bool:
    """Tell whether this loop is enough for a model, its cache and these settings."""
    cache = arguments.get("past_key_values")
    given = {name for name, value in arguments.items() if value is not None and value is not False}
    takes = inspect.signature(model.forward).parameters
    return (
        isinstance(cache, DynamicCache)
        and bool(cache.layers)
        and all(type(layer) is DynamicLayer for layer in cache.layers)
        and cache.get_seq_length() == 0
        and not model.config.is_encoder_decoder
        and type(model).prepare_inputs_for_generation is GenerationMixin.prepare_inputs_for_generation
        and {"position_ids", "logits_to_keep"} <= takes.keys()
        and given <= ARGUMENTS
        and all(isinstance(one, PROCESSORS) for one in processors)
        and all(isinstance(one, CRITERIA) for one in criteria)
    )


def _attend(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Any, **arguments: Any
) -> tuple[torch.Tensor, None]:
    """Attend with one token of each row, (rows, heads, 1, head_dim), to the keys and values that its heads share.

    torch's attention takes the heads that share keys as so many tokens: nothing is copied for them.
    """
    rows, heads, length, size = query.shape
    if length != 1 or heads == key.shape[1] or arguments.get("position_bias") is not None:
        found: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **arguments
        )
        return found
    output = torch.nn.functional.scaled_dot_product_attention(
        query.reshape(rows, key.shape[1], -1, size), key, value, attention_mask, scale=arguments.get("scaling")
    )
    return output.reshape(rows, 1, heads, -1), None


AttentionInterface.register(SHARED_HEADS, _attend)


@contextlib.contextmanager
def _shared_heads(model: Any) -> Iterator[None]:
    """Have the model attend as above within it, if torch's attention is what it uses and takes from transformers."""
    before = model.config._attn_implementation
    if before != "sdpa" or not getattr(model, "_supports_attention_backend", False):
        yield
        return
    model.config._attn_implementation = SHARED_HEADS
    try:
        yield
    finally:
        model.config._attn_implementation = before
