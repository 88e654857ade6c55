# vextract:template engine/hf/__package__/workers/growing_cache.py - edit freely
"""Keys and values of rows that are written, with room for those that follow: nothing is copied to append a token."""

import torch
from transformers.cache_utils import DynamicLayer

ROOM = 256  # tokens; when they are spent, what there is moves to where as many more fit


class GrowingLayer(DynamicLayer):
    """A layer of transformers' `DynamicCache` whose keys and values are views of tensors with room at the end.

    Under autocast they are held in its dtype, which the attention would otherwise cast them to, all of them, each time.

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
