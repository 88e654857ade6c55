# mypy: disable-error-code="misc, import-untyped"
"""Cases of RLHFDataset on a small Parquet file."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import inputs, tiny
from .cases import Thunk, family, outcome
from .sides import Side

MODULE = "verl.utils.dataset.rl_dataset"
# Of episodes with tools; in a file of its own one row has none of it.
EXTRA: tuple[dict[str, Any], ...] = (
    {"need_tools_kwargs": True, "tools_kwargs": {"a": 1}, "interaction_kwargs": {"b": 2}},
    {"need_tools_kwargs": False, "tools_kwargs": None, "interaction_kwargs": None},
)
TEXTS = ("1 + 2 = ?", "say abc", "a long question: " + "abcdefghij" * 4, "", "x?y?z\nnext line")


def prompts_file(folder: Path, suffix: str = "parquet") -> str:
    """Write the prompts, and return the file's path."""
    import datasets

    path = folder / f"prompts.{suffix}"
    rows = [
        {
            "data_source": "vextract/tiny",
            "prompt": [{"role": "u", "content": text}],
            "reward_model": {"style": "rule", "ground_truth": str(index)},
            "extra_info": None
            if index == 3 and suffix == "bare.parquet"
            else EXTRA[index % 2] | {"index": index, "split": "train"},
        }
        for index, text in enumerate(TEXTS)
    ]
    if not path.exists():
        made = datasets.Dataset.from_list(rows)
        made.to_parquet(str(path)) if suffix.endswith("parquet") else made.to_json(str(path))
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
        "middle, odd": {"max_prompt_length": 19, "truncation": "middle"},
        "error": {"max_prompt_length": 20, "truncation": "error"},
    }
    for label, changes in {**variants, **_borders()}.items():

        def items(changes: dict[str, Any] = changes) -> Any:
            made = outcome(make, side, **changes)
            if isinstance(made, Exception):
                return type(made).__name__
            return len(made), [outcome(made.__getitem__, index) for index in range(len(made))]

        yield label, items
    yield "several files", lambda: len(make(side, files=2))
    yield "no such format", lambda: type(outcome(make, side, suffix="csv")).__name__
    for samples, changes in SAMPLES:
        label = "/".join(str(value) for value in (samples, *changes.values()))
        yield f"max samples/{label}", functools.partial(_sampled, side, samples, changes)
    for parts in (2, 3, 6, 0, "2") if hasattr(side.get(f"{MODULE}:RLHFDataset"), "split") else ():
        yield f"split/{parts!r}", functools.partial(_divided, side, parts)

    def resumed() -> Any:
        made = pickle.loads(pickle.dumps(make(side)))
        made.resume_dataset_state()
        return len(made), made[1]

    yield "resumed", resumed

    texts = {"video_key": "v", "image_key": "i", "audio_key": "a", "prompt_key": "prompt", "image_patch_size": 7}
    turned = {**texts, **dict.fromkeys(("need_tools_kwargs", "shuffle", "use_shm"), True), "filter_prompts": False}
    turned |= {"return_multi_modal_inputs": False, "seed": 5}
    unset = {"max_prompt_length": None, "filter_overlong_prompts": None}
    for label, changes in (("said", {}), ("turned", turned), ("by default", unset)):

        def attributes(changes: dict[str, Any] = changes) -> Any:
            made = make(side, **changes)
            return {
                name: value
                for name, value in vars(made).items()
                if isinstance(value, (bool, int, str, type(None))) and name not in ("cache_dir", "num_workers")
            }

        yield f"attributes/{label}", attributes

    def state() -> Any:
        made = make(side)
        made.serialize_dataset = True
        whole = made.__getstate__()
        return sorted(whole), sorted(make(side).__getstate__()), whole is made.__dict__

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


def _borders() -> dict[str, dict[str, Any]]:
    """Return settings by which the first prompt is as long as one may be, or longer by one; and what is left unsaid."""
    length = len(tiny.tokenizer()(f"<u>{TEXTS[0]}\n<a>")["input_ids"])
    found: dict[str, dict[str, Any]] = {
        f"{truncation}/{most - length}": {"max_prompt_length": most, "truncation": truncation}
        for most in (length - 1, length)
        for truncation in ("left", "right", "middle", "error")
    }
    for most in (length - 1, length):
        found[f"filtered/{most - length}"] = {"max_prompt_length": most, "filter_overlong_prompts": True}
    bare = {"chat_template": "{{ messages[0]['content'] }}"}
    return found | {
        "by default": {"max_prompt_length": None, "filter_overlong_prompts": None},
        "lines": {"suffix": "jsonl", "need_tools_kwargs": True},
        "no extra": {"suffix": "bare.parquet", "need_tools_kwargs": True},
        "another key": {"prompt_key": "question"},
        "template": {"apply_chat_template_kwargs": bare},
        "template, filtered": {
            "apply_chat_template_kwargs": bare,
            "max_prompt_length": len(TEXTS[0]),
            "filter_overlong_prompts": True,
        },
    }


# Without a seed a shuffled choice is anybody's: only its size is compared.
SAMPLES: tuple[tuple[int, dict[str, Any]], ...] = (
    (1, {}),
    (4, {}),
    (5, {}),
    (100, {"shuffle": True, "seed": 3}),
    (2, {"shuffle": True, "seed": 3}),
    (5, {"shuffle": True, "seed": 3}),
    (3, {"shuffle": True}),
)


def _sampled(side: Side, samples: int, changes: dict[str, Any]) -> Any:
    made = outcome(make, side, max_samples=samples, **changes)
    if isinstance(made, Exception):
        return made
    return [made[index] for index in range(len(made))] if "seed" in changes or not changes else len(made)


def _divided(side: Side, parts: Any) -> Any:
    found = outcome(make(side, filter_overlong_prompts=True).split, parts)
    if isinstance(found, Exception):
        return found
    return [([part[index]["index"] for index in range(len(part))], part.serialize_dataset) for part in found]


def make(side: Side, *, files: int = 1, max_samples: int | None = None, suffix: str = "parquet", **changes: Any) -> Any:
    """Return the dataset; `max_samples` only where the release has it, and without a setting that is None."""
    path = prompts_file(side.scratch, suffix)
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
        config=inputs.config(**{name: value for name, value in settings.items() if value is not None}),
        **more,
    )
