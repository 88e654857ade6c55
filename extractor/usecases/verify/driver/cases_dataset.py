# mypy: disable-error-code="misc, import-untyped"
"""RLHFDataset on a small Parquet file, with a tokenizer built on the spot."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import inputs, tiny
from .cases import Thunk, family, outcome
from .sides import Side

MODULE = "verl.utils.dataset.rl_dataset"
TEXTS = ("1 + 2 = ?", "say abc", "a long question: " + "abcdefghij" * 4, "", "x?y?z\nnext line")


def prompts_file(folder: Path) -> str:
    """Write the prompts, and return the file's path."""
    import datasets

    path = folder / "prompts.parquet"
    rows = [
        {
            "data_source": "vextract/tiny",
            "prompt": [{"role": "u", "content": text}],
            "reward_model": {"style": "rule", "ground_truth": str(index)},
            "extra_info": {"index": index, "split": "train"},
        }
        for index, text in enumerate(TEXTS)
    ]
    if not path.exists():
        datasets.Dataset.from_list(rows).to_parquet(str(path))
    return str(path)


@family("rl_dataset", MODULE)
def dataset(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Read items under each setting, filters, resuming, batches."""
    variants: dict[str, dict[str, Any]] = {
        "plain": {"max_prompt_length": 70},
        "raw chat": {"max_prompt_length": 70, "return_raw_chat": True, "return_full_prompt": True},
        "filtered": {"max_prompt_length": 30, "filter_overlong_prompts": True},
        "left": {"max_prompt_length": 20, "truncation": "left"},
        "right": {"max_prompt_length": 20, "truncation": "right"},
        "middle": {"max_prompt_length": 20, "truncation": "middle"},
        "error": {"max_prompt_length": 20, "truncation": "error"},
    }
    for label, changes in variants.items():

        def items(changes: dict[str, Any] = changes) -> Any:
            made = make(side, **changes)
            return len(made), [outcome(made.__getitem__, index) for index in range(len(made))]

        yield label, items
    yield "several files", lambda: len(make(side, files=2))
    for samples in (2, 100):

        def some(samples: int = samples) -> Any:
            made = outcome(make, side, max_samples=samples, shuffle=True, seed=3)
            return made if isinstance(made, Exception) else [made[index] for index in range(len(made))]

        yield f"max samples/{samples}", some

    def resumed() -> Any:
        made = pickle.loads(pickle.dumps(make(side)))
        made.resume_dataset_state()
        return len(made), made[1]

    yield "resumed", resumed

    def state() -> Any:
        made = make(side)
        made.serialize_dataset = True
        return sorted(made.__getstate__()), sorted(make(side).__getstate__())

    yield "state", state

    def collated() -> Any:
        made = make(side, max_prompt_length=70)
        return side.get(f"{MODULE}:collate_fn")([made[index] for index in (3, 0, 1)])

    yield "collate_fn", collated

    def looped() -> Any:
        from torchdata.stateful_dataloader import StatefulDataLoader

        made = make(side, max_prompt_length=70)
        loader = StatefulDataLoader(made, batch_size=2, collate_fn=side.get(f"{MODULE}:collate_fn"))
        return [side.get("verl.protocol:DataProto").from_single_dict(rows) for rows in loader]

    yield "loader", looped


def make(side: Side, *, files: int = 1, max_samples: int | None = None, **changes: Any) -> Any:
    """Return the dataset; `max_samples` only where the release has it."""
    path = prompts_file(side.scratch)
    settings = {
        "cache_dir": str(side.scratch / "cache"),
        "max_prompt_length": 70,
        "filter_overlong_prompts": False,
        "filter_overlong_prompts_workers": 1,
        **changes,
    }
    more = {} if max_samples is None else {"max_samples": max_samples}
    return side.get(f"{MODULE}:RLHFDataset")(
        data_files=[path] * files if files > 1 else path,
        # Fix overlong-prompt-filter: the project asks for a list of tokens where transformers 5 returns a dictionary.
        tokenizer=tiny.tokenizer(lists=side.upstream and "overlong-prompt-filter" in side.fixes),
        config=inputs.config(**settings),
        **more,
    )
