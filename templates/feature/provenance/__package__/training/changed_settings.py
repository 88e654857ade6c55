# vextract:template - edit freely
"""What a run is of that may be otherwise when it goes on: a note says what comes of it."""

import sys
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

MAY_CHANGE = {
    "data.shuffle": "prompts of this epoch may come twice, or not at all",
    "data.seed": "the order of this epoch is that of the checkpoint",
    "local.seed": "random numbers go on from where they were",
    "rows": "prompts of this epoch may come twice, or not at all",  # of the training data
}


def identity_of(run: Any) -> dict[str, Any]:
    """Return the values of these settings, and how many rows are trained on. Every process must call this."""
    settings = {key: OmegaConf.select(run.config, key) for key in MAY_CHANGE}
    found: dict[str, Any] = run.ranks.on_driver(lambda: {**settings, "rows": len(run.train_loader.dataset)})
    return found


def note_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Say what was otherwise when the checkpoint was written, which may be meant."""
    for key, what in MAY_CHANGE.items():
        if (before := then.get(key, now[key])) != now[key]:
            text = f"{key} was {before} when the checkpoint was written, and is {now[key]}: {what}"
            print(f"note: {text}", file=sys.stderr)
