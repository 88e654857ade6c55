# vextract:template base/__package__/training/run_identity.py
"""What a run is of besides its weights: data, their order, the tokenizer. One that goes on with others says so.

Such a run trains all the same, and so it may be meant; but prompts of an epoch may come twice or not at all then, and
weights that know other tokens learn from nothing.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trainer import LocalPPOTrainer

PLACES = 64  # rows, evenly spread, that tell one set of data from another
TOKENS = 4096
SETTINGS = {
    "data.shuffle": "prompts of this epoch may come twice, or not at all",
    "data.seed": "the order of this epoch is that of the checkpoint",
    "local.seed": "random numbers go on from where they were",
}


def identity(trainer: "LocalPPOTrainer") -> dict[str, Any]:
    """Return what tells this run's data, their order and its tokenizer from others. Rank 0 alone has the data."""
    dataset = trainer.train_loader.dataset
    rows = len(dataset)
    table: Any = getattr(dataset, "dataframe", None)
    step, held = max(rows // PLACES, 1), hashlib.sha256()
    for index in range(0, rows, step) if table is not None and len(table) == rows else ():
        held.update(repr(table[index]).encode(errors="replace"))
    config, tokens = trainer.config, hashlib.sha256()
    size = len(trainer.tokenizer)
    with contextlib.suppress(KeyError, IndexError, TypeError, ValueError):  # one of the owner's own may have gaps
        words = trainer.tokenizer.convert_ids_to_tokens(list(range(0, size, max(size // TOKENS, 1))))
        tokens.update(repr(words).encode(errors="replace"))
    settings = {"data.shuffle": config.data.shuffle, "data.seed": config.data.seed, "local.seed": config.local.seed}
    return {**settings, "rows": rows, "data": held.hexdigest(), "tokens": tokens.hexdigest()}


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a run that goes on is to be told, from what its checkpoint noted and what is so now."""
    for key, what in SETTINGS.items():
        if key in then and then[key] != now[key]:
            yield f"{key} was {then[key]} when the checkpoint was written, and is {now[key]}: {what}"
    if (then.get("rows"), then.get("data")) != (now["rows"], now["data"]) and "rows" in then:
        other = "other rows" if then["rows"] == now["rows"] else f"{now['rows']} rows in place of {then['rows']}"
        yield f"the training data are {other}: prompts of this epoch may come twice, or not at all"
    if then.get("tokens", now["tokens"]) != now["tokens"]:
        yield "the tokenizer is another one: the checkpoint's weights know other tokens (actor_rollout_ref.model.path)"
