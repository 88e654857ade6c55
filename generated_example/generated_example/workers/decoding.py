# vextract:template engine/hf/__package__/workers/decoding.py - edit freely
"""The decoding loop of transformers' `generate`, for many rows that end at different times.

transformers' own loop copies all keys and values to append a token; it computes rows that have ended as if they had
not; and it draws a random number for each word of the vocabulary. Here a token is appended in place, rows that have
ended are taken out, and each token takes one random number, which is its row's own: what a row says does not depend on
the rows beside it. The settings of the sampling are transformers' own code.
"""

import inspect
from typing import Any

import torch
from transformers import GenerationMixin
from transformers.cache_utils import DynamicCache, DynamicLayer
from transformers.generation import logits_process, stopping_criteria
from transformers.generation.utils import GenerateDecoderOnlyOutput

from ..errors import DivergenceError

# What looks at each row for itself.
PROCESSORS = (
    logits_process.TemperatureLogitsWarper,
    logits_process.TopKLogitsWarper,
    logits_process.TopPLogitsWarper,
    logits_process.MinPLogitsWarper,
    logits_process.RepetitionPenaltyLogitsProcessor,
)
ROOM = 256  # tokens of keys and values; when they are spent, what there is moves to where as many more fit
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
        arguments: what else goes to the model; attention_mask is (bs, prompt_length), or None: no padding.

    Returns:
        `sequences`, (bs, prompt_length + longest response) int64, padded on the right.

    Raises:
        DivergenceError: the model gives no probabilities.
    """
    if not _fits(model, logits_processor, stopping_criteria, arguments):
        return GenerationMixin._sample(
            model, input_ids, logits_processor, stopping_criteria, generation_config, **arguments
        )
    most = min(one.max_length for one in stopping_criteria if hasattr(one, "max_length"))
    ends = [one.eos_token_id.to(input_ids.device) for one in stopping_criteria if hasattr(one, "eos_token_id")]
    mask = arguments.get("attention_mask")
    mask = torch.ones_like(input_ids) if mask is None else mask
    rows = _Rows(input_ids, mask, most, generation_config._pad_token_tensor)
    logits = rows.read_prompts(model, arguments["past_key_values"])
    while True:
        logits = logits.to(torch.float32, copy=True)
        scores = logits_processor(rows.written(), logits)
        if uniforms is not None and generation_config.do_sample:
            tokens = draw(scores, uniforms[rows.origin[: rows.count], rows.length - rows.prompt_length])
        else:
            tokens = scores.argmax(dim=-1)
        rows.append(tokens)
        if ends:
            have_ended = torch.isin(tokens, torch.cat(ends))
            rows.take_out(have_ended)
        if rows.count == 0 or rows.length == most:
            return GenerateDecoderOnlyOutput(sequences=rows.sequences())
        logits = rows.read_last(model)


def draw(scores: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Draw a token from each row's distribution, by the inverse of its cumulative probabilities.

    Args:
        scores: logits, (rows, vocabulary) float32; -inf where a token may not be.
        uniforms: in [0, 1), (rows,) float64.

    Raises:
        DivergenceError: a row has no probabilities.
    """
    cumulative = torch.softmax(scores, dim=-1).cumsum(dim=-1, dtype=torch.float64)
    if not torch.isfinite(cumulative[:, -1]).all():
        raise DivergenceError(
            "the run has diverged: the policy's probabilities are NaN or infinite\n"
            "hint: lower actor_rollout_ref.actor.optim.lr; after `vextract add watch` such weights are not saved"
        )
    # To the right: a token without probability ends where the one before it does, and is never the first beyond.
    below = (uniforms.to(cumulative.device) * cumulative[:, -1])[:, None]
    return torch.searchsorted(cumulative, below, right=True)[:, 0]


class GrowingLayer(DynamicLayer):
    """A layer of transformers' `DynamicCache` whose keys and values are views of tensors with room at the end.

    Under autocast they are held in its dtype: the attention would otherwise cast all of them each time.

    Args:
        filled: the layer that the prompts went through, (prompts, heads, prompt_length, head_dim).
        prompt_of: for each row, its prompt: (rows,) int64.
        most: tokens that a row may have with its prompt.
    """

    def __init__(self, filled: DynamicLayer, prompt_of: torch.Tensor, most: int) -> None:
        super().__init__()
        assert filled.keys is not None and filled.values is not None
        self._most = most
        self._rows, self._length = len(prompt_of), filled.keys.shape[-2]
        self.dtype, self.device, self.is_initialized = filled.dtype, filled.device, True
        self._held = [self._with_room(states, prompt_of) for states in (filled.keys, filled.values)]
        self._show()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append keys and values, (rows, heads, tokens, head_dim), and return all of them."""
        end = self._length + key_states.shape[-2]
        if end > self._held[0].shape[-2]:
            self._held = [self._with_room(held[: self._rows, :, : self._length]) for held in self._held]
        for held, states in zip(self._held, (key_states, value_states), strict=True):
            held[: self._rows, :, self._length : end] = states
        self._length = end
        return self._show()

    def keep(self, rows: int, holes: torch.Tensor, movers: torch.Tensor) -> None:
        """Keep the first `rows` rows, after those at `movers` have taken the places at `holes`; both int64."""
        for held in self._held:
            held[holes, :, : self._length] = held[movers, :, : self._length]
        self._rows = rows
        self._show()

    def _show(self) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (held[: self._rows, :, : self._length] for held in self._held)
        self.keys, self.values = keys, values
        return keys, values

    def _with_room(self, states: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor:
        """Return a tensor with more room that begins with these states, or with those at `rows`."""
        device = states.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else states.dtype
        _, heads, length, size = states.shape
        held = states.new_empty((self._rows, heads, min(length + ROOM, max(self._most, length)), size), dtype=dtype)
        held[:, :, :length] = states if rows is None else states[rows]
        return held


class _Rows:
    """The rows that are being written: those that go on come first, in any order.

    Attributes:
        tokens: of all rows, (bs, most) int64, with the prompts.
        count: how many rows go on.
        length: tokens that these have, with the prompt's padding.
        origin: for each place, the row of the batch that is there, (bs,) int64.
    """

    def __init__(self, prompts: torch.Tensor, mask: torch.Tensor, most: int, padding: torch.Tensor | None) -> None:
        self.count, self.prompt_length = prompts.shape
        self.length = self.prompt_length
        self.origin = torch.arange(self.count, device=prompts.device)
        self.tokens = prompts.new_full((self.count, most), 0 if padding is None else int(padding))
        self.tokens[:, : self.length] = prompts
        self._mask = torch.ones((self.count, most), dtype=torch.bool, device=prompts.device)
        self._mask[:, : self.length] = mask.bool()
        self._positions = mask.sum(dim=-1)  # of the next token
        self._is_padded = not bool(mask.all())
        self._layers: list[GrowingLayer] = []

    def read_prompts(self, model: Any, cache: DynamicCache) -> torch.Tensor:
        """Run the model over the prompts, each of which it reads once, and return what follows: (rows, vocabulary)."""
        both = torch.cat([self.tokens[:, : self.length], self._mask[:, : self.length].long()], dim=-1)
        different, prompt_of = torch.unique(both, dim=0, return_inverse=True)
        prompts, mask = different.split(self.length, dim=-1)
        logits = model(
            input_ids=prompts,
            attention_mask=mask if self._is_padded else None,
            position_ids=(mask.cumsum(dim=-1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        self._layers = [GrowingLayer(layer, prompt_of, self.tokens.shape[-1]) for layer in cache.layers]  # type: ignore
        cache.layers = self._layers  # type: ignore[assignment]
        self._cache = cache
        return logits[prompt_of, -1]

    def read_last(self, model: Any) -> torch.Tensor:
        """Run the model over the last token of each row, and return what follows: (rows, vocabulary)."""
        mask = None
        if self._is_padded:
            mask = self._mask[: self.count, : self.length]
            if model.config._attn_implementation == "sdpa" and getattr(model, "_supports_attention_backend", False):
                mask = mask[:, None, None]  # as the attention takes it: transformers makes another from it otherwise
        outputs = model(
            input_ids=self.tokens[: self.count, self.length - 1 : self.length],
            attention_mask=mask,
            position_ids=self._positions[: self.count, None] - 1,
            past_key_values=self._cache,
            use_cache=True,
        )
        return outputs.logits[:, -1]

    def written(self) -> torch.Tensor:
        """Return the tokens of each row, for what looks at them: padding, which nobody has written, is none of them."""
        tokens = self.tokens[: self.count, : self.length]
        if not self._is_padded:
            return tokens
        mask = self._mask[: self.count, : self.length]
        return torch.where(mask, tokens, tokens[:, self.prompt_length - 1 : self.prompt_length])

    def append(self, tokens: torch.Tensor) -> None:
        """Append a token to each row, (rows,) int64."""
        self.tokens[: self.count, self.length] = tokens
        self.length += 1
        self._positions += 1

    def take_out(self, ended: torch.Tensor) -> None:
        """Take out the rows that have ended, (rows,) bool: the last of the others take their places."""
        left = self.count - int(ended.sum())
        if left in (self.count, 0):
            self.count = left
            return
        holes = ended[:left].nonzero()[:, 0]
        movers = (~ended[left:]).nonzero()[:, 0] + left
        for layer in self._layers:
            layer.keep(left, holes, movers)
        for column in (self.tokens, self._mask, self._positions, self.origin):
            column[holes], column[movers] = column[movers], column[holes]
        self.count = left

    def sequences(self) -> torch.Tensor:
        """Return all rows, in the order of the batch: (bs, prompt_length + longest response)."""
        found = torch.empty_like(self.tokens)
        found[self.origin] = self.tokens
        return found[:, : self.length]


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
