# vextract:template - edit freely
"""Where the turns of the model are in the responses of a batch of episodes, and which episodes failed."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..training.batches import objects

# How an episode ends whose environment has failed.
FAILED = ("error", "timeout")


def turns_of_episodes(columns: Mapping[str, Any]) -> list[list[tuple[int, int]]]:
    """Return, for each episode, the places of each turn: its first token, and the one after its last."""
    pairs = zip(columns["turn_starts"], columns["turn_ends"], strict=True)
    return [[(start, end + 1) for start, end in zip(*row, strict=True) if end >= start] for row in pairs]


def shifted_turns(columns: Mapping[str, Any], shifts: Sequence[int]) -> dict[str, Any]:
    """Return the columns of places where each response has so many tokens more in front, of its first turn."""
    moved = {
        name: objects([place + n for place in row] for n, row in zip(shifts, columns[name], strict=True))
        for name in ("turn_starts", "turn_ends")
    }
    return {**moved, "turn_starts": objects([0, *row[1:]] for row in moved["turn_starts"])}


def own_tokens(columns: Mapping[str, Any], row: int, tokens: list[int]) -> list[int]:
    """Return the tokens of a response that the model has written."""
    turns = zip(columns["turn_starts"][row], columns["turn_ends"][row], strict=True)
    return [token for start, end in turns for token in tokens[start : end + 1]]


def has_failed(columns: Mapping[str, Any], row: int) -> bool:
    """Tell whether a row is an episode whose environment failed."""
    return "env_end" in columns and columns["env_end"][row] in FAILED
