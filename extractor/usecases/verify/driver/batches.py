"""What cases do with batches and datasets, and the configurations that they make."""

import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from .calling import capture_outcome
from .inputs import PROTOCOL, build_actor_config, config, make_arrays_only, make_batch
from .inputs import tokenizer as make_tokenizer
from .sides import Side

DATASET = "verl.utils.dataset.rl_dataset"
# Of episodes with tools; in a file of its own one row has none of it.
EXTRA: tuple[dict[str, Any], ...] = (
    {"need_tools_kwargs": True, "tools_kwargs": {"a": 1}, "interaction_kwargs": {"b": 2}},
    {"need_tools_kwargs": False, "tools_kwargs": None, "interaction_kwargs": None},
)
TEXTS = ("1 + 2 = ?", "say abc", "a long question: " + "abcdefghij" * 4, "", "x?y?z\nnext line")


# Batches


def switch_padding(side: Side, variable: str | None = None) -> Any:
    """Return whether batches are padded, by an environment variable or by the setting."""
    settings = side.get("verl.protocol:DataProtoConfig")
    with mock.patch.dict(os.environ, {} if variable is None else {"VERL_AUTO_PADDING": variable}):
        outcomes = [make_batch(side).is_padding_enabled(), settings.auto_padding]
        outcomes.append(capture_outcome(make_batch(side, 7).chunk, 3))
    if variable is None:
        settings.auto_padding = True
        outcomes += [make_batch(side).is_padding_enabled(), capture_outcome(setattr, settings, "auto_padding", 3)]
        type(settings)._config.clear()  # as it was: other cases read it
    return outcomes


def pickle_batches(side: Side, method: str) -> Any:
    """Return batches after pickling, one of them by a file."""
    cls, path = side.get(PROTOCOL), side.scratch / "batch.pkl"
    ragged = torch.nested.as_nested_tensor([torch.arange(3.0), torch.arange(5.0)], layout=torch.jagged)
    nested = cls.from_dict(tensors={"rows": ragged, "plain": torch.arange(2)})
    batches = [make_batch(side), make_arrays_only(side), make_batch(side).select(batch_keys=[]), nested]
    with mock.patch.dict(os.environ, {"VERL_DATAPROTO_SERIALIZATION_METHOD": method}):
        outcomes = [capture_outcome(lambda made=made: pickle.loads(pickle.dumps(made))) for made in batches]
        make_batch(side).save_to_disk(path)
        return outcomes, cls.load_from_disk(path)


# Datasets


def _write_prompts(folder: Path, suffix: str) -> str:
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


def _make_dataset(
    side: Side, suffix: str = "parquet", around: int | None = None, max_samples: int | None = None, **changes: Any
) -> Any:
    """Return a dataset over prompt files; `around` is a length beside that of the first prompt."""
    if around is not None:
        changes["max_prompt_length"] = around + len(f"<u>{TEXTS[0]}\n<a>")
    settings = {
        "cache_dir": str(side.scratch / "cache"),
        "max_prompt_length": 70,
        "filter_overlong_prompts": False,
        "filter_overlong_prompts_workers": 1,
        **changes,
    }
    return side.get(f"{DATASET}:RLHFDataset")(
        data_files=_write_prompts(side.scratch, suffix),
        tokenizer=make_tokenizer(),
        config=config(**{name: value for name, value in settings.items() if value is not None}),
        **({} if max_samples is None else {"max_samples": max_samples}),
    )


def read_items(side: Side, **changes: Any) -> Any:
    """Return a dataset's items."""
    made = capture_outcome(_make_dataset, side, **changes)
    if isinstance(made, Exception):
        return type(made).__name__
    if changes.get("shuffle") and "seed" not in changes:
        return len(made)  # a choice without a seed is anybody's
    return len(made), [capture_outcome(made.__getitem__, index) for index in range(len(made))]


def split_dataset(side: Side, parts: Any) -> Any:
    """Return the rows of each part."""
    split = side.get(f"{DATASET}:RLHFDataset.split")(_make_dataset(side, filter_overlong_prompts=True), parts)
    return [([part[index]["index"] for index in range(len(part))], part.serialize_dataset) for part in split]


def read_files_again(side: Side) -> Any:
    """Return the names of the files that a dataset reads when it is told to read the original ones."""
    made = _make_dataset(side)
    made.original_data_files = [_write_prompts(side.scratch, "bare.parquet")]
    made._download(use_origin_parquet=True)
    return [Path(file).name for file in made.data_files]


def resume_dataset(side: Side) -> Any:
    """Return an item of a dataset that was pickled."""
    made = pickle.loads(pickle.dumps(_make_dataset(side)))
    made.resume_dataset_state()
    return len(made), made[1]


def make_actor_config(side: Side, engine: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Return an actor's settings, whose engine has settings of its own."""
    if engine:
        changes["fsdp_config"] = side.get("verl.workers.config.engine:FSDPEngineConfig")(**engine)
    return build_actor_config(side, **changes)


def make_critic_config(side: Side, **changes: Any) -> Any:
    """Return a critic's settings."""
    cls = side.get("verl.workers.config.critic:FSDPCriticConfig")
    # Where none is given, newer releases load one of their own from the model's directory.
    return cls(**({"model_config": SimpleNamespace()} if "model_config" in cls.__dataclass_fields__ else {}), **changes)


MADE = {"items": lambda side: [_make_dataset(side)[index] for index in range(3)]}
