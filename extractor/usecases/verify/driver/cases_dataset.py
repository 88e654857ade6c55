"""Cases of RLHFDataset on a small Parquet file."""

import pickle
from pathlib import Path
from typing import Any

from . import inputs
from .cases import CaseMaker, Cases, capture_outcome, family
from .inputs import SETTINGS
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


def make(side: Side, files: list[str] | None = None, *, suffix: str = "parquet", **changes: Any) -> Any:
    """Return a dataset over prompt files, without settings that are None."""
    more = {name: changes.pop(name) for name in ("max_samples", "processor") if name in changes}
    if "around" in changes:  # the length of the first prompt
        changes["max_prompt_length"] = changes.pop("around") + len(f"<u>{TEXTS[0]}\n<a>")
    settings = {
        "cache_dir": str(side.scratch / "cache"),
        "max_prompt_length": 70,
        "filter_overlong_prompts": False,
        "filter_overlong_prompts_workers": 1,
        **changes,
    }
    return side.get(f"{MODULE}:RLHFDataset")(
        data_files=files or prompts_file(side.scratch, suffix),
        tokenizer=inputs.tokenizer(),
        config=inputs.config(**{name: value for name, value in settings.items() if value is not None}),
        **more,
    )


@family("rl_dataset", MODULE)
def dataset(call: CaseMaker) -> Cases:
    """Read items under each setting, filters, resuming, batches."""
    side = call.side

    def items(**changes: Any) -> Any:
        made = capture_outcome(make, side, **changes)
        if isinstance(made, Exception):
            return type(made).__name__
        if changes.get("shuffle") and "seed" not in changes:
            return len(made)
        return len(made), [capture_outcome(made.__getitem__, index) for index in range(len(made))]

    def divided(parts: Any) -> Any:
        found = make(side, filter_overlong_prompts=True).split(parts)
        return [([part[index]["index"] for index in range(len(part))], part.serialize_dataset) for part in found]

    def looped() -> Any:
        from torchdata.stateful_dataloader import StatefulDataLoader

        loader = StatefulDataLoader(make(side), batch_size=2, collate_fn=call.get("collate_fn"))
        return [call.get("verl.protocol:DataProto").from_single_dict(rows) for rows in loader]

    def downloaded() -> Any:
        files = [prompts_file(side.scratch)]
        made = make(side, files)
        alike = made.data_files is files, made.original_data_files is files
        made.original_data_files = [prompts_file(side.scratch, "bare.parquet")]
        made._download(use_origin_parquet=True)
        return alike, [Path(file).name for file in (*files, *made.data_files)]

    def resumed() -> Any:
        made = pickle.loads(pickle.dumps(make(side)))
        made.resume_dataset_state()
        return len(made), made[1]

    yield from call.each("", items, SETTINGS["datasets"])
    yield from call.each("max samples/", items, SETTINGS["samples"])
    for parts in (2, 3, 6, 0, "2") if hasattr(call.get("RLHFDataset"), "split") else ():
        yield f"split/{parts!r}", call(divided, parts)
    yield "loader", looped
    yield "files again", call(downloaded)
    yield "resumed", call(resumed)
