# mypy: disable-error-code="misc"
"""Cases of `DataProto`."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import torch

from . import inputs
from .cases import Thunk, family, outcome, printed
from .sides import Side

MODULE = "verl.protocol"


def batch(side: Side, size: int = inputs.BATCH, **meta: Any) -> Any:
    """Return a DataProto with tensors, arrays and meta information."""
    generator = torch.Generator().manual_seed(201)
    return side.get(f"{MODULE}:DataProto").from_dict(
        tensors={
            "ids": torch.randint(0, 50, (size, 6), generator=generator),
            "scores": torch.randn(size, 4, generator=generator),
            "flags": torch.randn(size, generator=generator) > 0,
        },
        non_tensors={
            "uid": np.array([f"row {index % 3}" for index in range(size)], dtype=object),
            "extra": np.array([{"index": index} for index in range(size)], dtype=object),
            "number": np.arange(size) * 1.5,
        },
        meta_info={"temperature": 0.7, **meta},
    )


@family("protocol.make", MODULE)
def making(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of construction and the checks in it."""
    cls = side.get(f"{MODULE}:DataProto")
    rows = torch.arange(12).reshape(6, 2)
    names = np.array(list("abcdef"), dtype=object)
    yield "from_dict", lambda: batch(side)
    yield "from_dict/tensors only", lambda: cls.from_dict(tensors={"a": rows})
    yield "from_dict/arrays only", lambda: cls.from_dict(non_tensors={"a": names})
    yield "from_dict/two dimensions", lambda: outcome(cls.from_dict, tensors={"a": rows}, num_batch_dims=2)
    yield "from_dict/sizes differ", lambda: outcome(cls.from_dict, tensors={"a": rows, "b": rows[:3]})
    yield (
        "from_dict/array sizes differ",
        lambda: outcome(cls.from_dict, tensors={"a": rows}, non_tensors={"b": names[:2]}),
    )
    yield "from_single_dict", lambda: cls.from_single_dict({"a": rows, "b": names}, meta_info={"x": 1})
    yield "from_single_dict/padding", lambda: cls.from_single_dict({"a": rows, "b": names}, auto_padding=True)
    yield "from_single_dict/bad", lambda: outcome(cls.from_single_dict, {"a": [1]})
    yield "from_single_dict/by default", lambda: cls.from_single_dict({"a": rows})
    yield "from_dict/lists", lambda: cls.from_dict(tensors={"a": rows}, non_tensors={"b": list("abcdef")})
    yield "from_dict/padding", lambda: cls.from_dict(tensors={"a": rows}, auto_padding=True)
    yield "from_dict/no dimension", lambda: outcome(cls.from_dict, tensors={"a": rows}, num_batch_dims=0)
    yield (
        "from_dict/arrays of two dimensions",
        lambda: outcome(cls.from_dict, tensors={"a": rows}, non_tensors={"b": names}, num_batch_dims=2),
    )
    yield "from_dict/shared meta", lambda: _shared_meta(cls, rows)
    yield "no arrays", lambda: outcome(cls, batch(side).batch, {"a": [1]})
    yield "empty", lambda: [len(cls()), cls()]
    yield "len", lambda: [len(batch(side)), len(cls.from_dict(non_tensors={"a": names}))]

    def from_tensordict() -> Any:
        from tensordict import TensorDict

        return outcome(cls.from_tensordict, TensorDict({"a": rows}, batch_size=6), meta_info={"x": 1})

    def with_arrays() -> Any:
        made = cls.from_tensordict(batch(side).to_tensordict())
        return made, made.meta_info

    if hasattr(cls, "from_tensordict") and hasattr(cls, "to_tensordict"):
        yield "from_tensordict/arrays", with_arrays
    yield "from_tensordict", lambda: from_tensordict() if hasattr(cls, "from_tensordict") else None
    yield "to_tensordict", lambda: outcome(batch(side).to_tensordict) if hasattr(cls, "to_tensordict") else None
    info: dict[str, Any] = {
        "nested": {"a": [1, 2]},
        "pair": (1, "b"),
        "long": [1, 2, 3, "a"],
        "none": [],
        "no keys": {},
    }
    yield "get_data_info", lambda: outcome(batch(side, **info).get_data_info) if hasattr(cls, "get_data_info") else None


def _shared_meta(cls: Any, rows: torch.Tensor) -> Any:
    """Change one batch's meta information, and see that of others."""
    given: dict[str, Any] = {"x": 1}
    first, second = cls.from_dict(tensors={"a": rows}, meta_info=given), cls.from_dict(tensors={"a": rows})
    first.meta_info["y"] = second.meta_info["z"] = 2
    return given, first.repeat(2).meta_info is first.meta_info, cls.from_dict(tensors={"a": rows}).meta_info


@family("protocol.index", MODULE)
def indexing(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Take rows, slices, selections."""
    keys: dict[str, Any] = {
        "int": 3,
        "negative": -1,
        "numpy int": np.int64(2),
        "slice": slice(1, 5),
        "step": slice(0, 7, 3),
        "open": slice(None, -2),
        "list": [4, 0, 2],
        "array": np.array([1, 1, 6]),
        "bool array": np.array([True, False] * 4),
        "tensor": torch.tensor([7, 3]),
        "bool tensor": torch.tensor([True, False, False, True] * 2),
        "text": "a",
    }
    for label, key in keys.items():
        yield f"getitem/{label}", lambda key=key: outcome(batch(side).__getitem__, key)
    for label in ("list", "array", "tensor", "bool tensor"):
        yield f"select_idxs/{label}", lambda key=keys[label]: batch(side).select_idxs(key)
    for label in ("int", "slice", "list", "bool array"):
        yield f"getitem/{label}/arrays only", lambda key=keys[label]: arrays_only(side)[key]
    yield "select_idxs/list of flags", lambda: batch(side).select_idxs([True, False] * 4)
    yield "slice", lambda: [batch(side).slice(2, 6), batch(side).slice(None, None, 2)]
    yield "select", lambda: batch(side).select(["ids"], ["uid"], ["temperature"])
    yield "select/all", lambda: batch(side).select()
    for deepcopy in (None, True):
        yield f"select/copy/{deepcopy}", lambda deepcopy=deepcopy: _selected(side, deepcopy)
    yield "pop", lambda: _popped(batch(side))
    yield "pop/nothing", lambda: [(data := batch(side)).pop(), data]
    yield "pop/missing array", lambda: outcome(batch(side).pop, non_tensor_batch_keys=["none"])
    yield "pop/missing meta", lambda: outcome(batch(side).pop, meta_info_keys=["none"])
    yield "pop/missing", lambda: outcome(batch(side).pop, batch_keys=["none"])
    yield "rename", lambda: batch(side).rename("ids", "tokens")
    yield "rename/several", lambda: outcome(batch(side).rename, ["ids", "flags"], ["a", "b"])
    yield "rename/number", lambda: outcome(batch(side).rename, 3, "a")
    yield "rename/bad", lambda: outcome(batch(side).rename, ["ids"], ["a", "b"])


def arrays_only(side: Side, size: int = inputs.BATCH) -> Any:
    """Return a DataProto without tensors."""
    numbers = np.arange(size)
    arrays = {"uid": numbers.astype(object), "pairs": np.stack([numbers, numbers + 0.5], axis=1)}
    return side.get(f"{MODULE}:DataProto").from_dict(non_tensors=arrays, meta_info={"more": 1})


def _selected(side: Side, deepcopy: bool | None) -> Any:
    """Change what was selected, and see what that does to where it comes from."""
    data = batch(side, nested={"a": [1]})
    taken = data.select(["scores"], **({} if deepcopy is None else {"deepcopy": deepcopy}))
    taken.non_tensor_batch["extra"][0]["index"] = 70
    taken.meta_info["nested"]["a"].append(2)
    return taken, data


def _popped(data: Any) -> Any:
    taken = data.pop(batch_keys=["ids"], non_tensor_batch_keys=["uid"], meta_info_keys=["temperature"])
    return taken, data


@family("protocol.combine", MODULE)
def combining(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Unite, concatenate, repeat, cut, order."""
    cls = side.get(f"{MODULE}:DataProto")

    def other(**tensors: torch.Tensor) -> Any:
        return cls.from_dict(tensors=tensors, meta_info={"more": 2})

    yield "union", lambda: batch(side).union(other(extra=torch.ones(inputs.BATCH, 2)))
    yield "union/same", lambda: batch(side).union(batch(side))
    yield "union/clash", lambda: type(outcome(batch(side).union, other(ids=torch.ones(inputs.BATCH, 6)))).__name__
    yield "union/size", lambda: type(outcome(batch(side).union, other(extra=torch.ones(3)))).__name__

    def arrays(value: Any) -> Any:
        return cls.from_dict(non_tensors={"a": np.array([value, {"x": np.nan}, float("nan")], dtype=object)})

    yield "union/arrays", lambda: outcome(arrays("s").union, arrays("s"))
    yield "union/arrays clash", lambda: type(outcome(arrays("s").union, arrays("t"))).__name__
    yield "union/nested arrays", lambda: outcome(arrays(np.array([1.0, np.nan])).union, arrays(np.array([1.0, np.nan])))
    yield "concat", lambda: cls.concat([batch(side), batch(side)[2:5]])
    yield "concat/one", lambda: cls.concat([batch(side)])
    yield (
        "concat/metrics",
        lambda: outcome(cls.concat, [batch(side, metrics=[{"a": 1.0}]), batch(side, metrics={"a": 2.0})]),
    )
    yield "concat/meta clash", lambda: outcome(cls.concat, [batch(side, x=1), batch(side, x=2)])
    yield "concat/arrays only", lambda: cls.concat([arrays_only(side), arrays_only(side, 2)])
    yield "concat/nothing", lambda: outcome(cls.concat, [])
    yield "concat/no metrics", lambda: outcome(cls.concat, [batch(side, metrics=None), batch(side, metrics=None)])
    yield "union/arrays only", lambda: outcome(arrays_only(side).union, arrays_only(side))
    yield "union/state", lambda: [(data := batch(side)).union(other(extra=torch.ones(inputs.BATCH, 2))) is data, data]
    yield "repeat/by default", lambda: batch(side).repeat()
    for interleave in (True, False):
        yield (
            f"repeat/arrays only/{interleave}",
            lambda interleave=interleave: arrays_only(side).repeat(3, interleave=interleave),
        )
    for times in (1, 3):
        for interleave in (True, False):
            yield (
                f"repeat/{times}/{interleave}",
                lambda times=times, interleave=interleave: batch(side).repeat(times, interleave),
            )
    yield (
        "sample_level_repeat",
        lambda: [
            batch(side, 3).sample_level_repeat(times) for times in ([2, 0, 1], (1, 1, 3), torch.tensor([1, 2, 1]))
        ],
    )
    yield "sample_level_repeat/array", lambda: batch(side, 3).sample_level_repeat(np.array([1, 2, 2]))
    for repeats in ("text", torch.tensor([[1, 2]]), np.array([[1, 2]])):
        yield (
            f"sample_level_repeat/{type(repeats).__name__}",
            lambda repeats=repeats: outcome(batch(side, 2).sample_level_repeat, repeats),
        )
    yield "sample_level_repeat/arrays only", lambda: arrays_only(side, 3).sample_level_repeat([2, 0, 1])
    yield "unfold_column_chunks", lambda: batch(side).unfold_column_chunks(2, split_keys=["ids", "scores"])
    yield "unfold_column_chunks/arrays only", lambda: arrays_only(side).unfold_column_chunks(2, split_keys=["pairs"])
    yield "unfold_column_chunks/by default", lambda: outcome(batch(side).unfold_column_chunks, 2)
    for chunks in (1, 2, 3, 8):
        yield f"chunk/{chunks}", lambda chunks=chunks: outcome(batch(side).chunk, chunks)
        yield f"chunk/arrays only/{chunks}", lambda chunks=chunks: outcome(arrays_only(side).chunk, chunks)
    yield "chunk/padding", lambda: outcome(batch(side, 7, _verl_auto_padding=True).chunk, 3)
    for size in (3, 8, 100):
        yield f"split/{size}", lambda size=size: outcome(batch(side).split, size)
    yield "reorder", lambda: _reordered(batch(side))


def _reordered(data: Any) -> Any:
    data.reorder(torch.tensor([7, 0, 3, 1, 2, 6, 5, 4]))
    return data


@family("protocol.pad", MODULE)
def padding(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of padding to a divisor and back."""
    for size, divisor in ((8, 4), (7, 4), (3, 8), (1, 5), (3, 7)):

        def run(size: int = size, divisor: int = divisor) -> Any:
            padded, count = side.get(f"{MODULE}:pad_dataproto_to_divisor")(batch(side, size), divisor)
            return padded, count, side.get(f"{MODULE}:unpad_dataproto")(padded, count)

        yield f"{size} to {divisor}", run
    for candidate in ("first", "last"):

        def pad(candidate: str = candidate) -> Any:
            data = batch(side, 5)
            data.padding(3, candidate)
            data.padding(0, candidate)
            return data

        yield candidate, pad

    def enabled() -> Any:
        settings = side.get(f"{MODULE}:DataProtoConfig")
        found = [batch(side).is_padding_enabled(), settings.auto_padding]
        settings.auto_padding = True
        found += [batch(side).is_padding_enabled(), outcome(setattr, settings, "auto_padding", 3)]
        settings.auto_padding = False
        return found

    yield "enabled", enabled
    for value in ("TRUE", "true", "1", "FALSE", "0", "yes"):

        def by_environment(value: str = value) -> Any:
            with mock.patch.dict(os.environ, {"VERL_AUTO_PADDING": value}):
                return side.get(f"{MODULE}:DataProtoConfig").auto_padding, outcome(batch(side, 7).chunk, 3)

        yield f"enabled/{value}", by_environment


@family("protocol.store", MODULE)
def storing(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Pickle, write to files, iterate."""

    def pickled(method: str = "", data: Any = None) -> Any:
        os.environ["VERL_DATAPROTO_SERIALIZATION_METHOD"] = method
        try:
            return pickle.loads(pickle.dumps(batch(side) if data is None else data))
        finally:
            del os.environ["VERL_DATAPROTO_SERIALIZATION_METHOD"]

    yield "pickle", pickled
    yield "pickle/numpy", lambda: pickled("numpy")
    yield "pickle/numpy/arrays only", lambda: pickled("numpy", arrays_only(side))

    def nested() -> Any:
        rows = torch.nested.as_nested_tensor([torch.arange(3.0), torch.arange(5.0)], layout=torch.jagged)
        data = side.get(f"{MODULE}:DataProto").from_dict(tensors={"rows": rows, "plain": torch.arange(2)})
        return pickled("numpy", data)

    yield "pickle/numpy/nested", lambda: outcome(nested)
    yield (
        "pickle/arrays only",
        lambda: pickle.loads(pickle.dumps(side.get(f"{MODULE}:DataProto").from_dict(non_tensors={"a": np.arange(3)}))),
    )

    def on_disk() -> Any:
        path = side.scratch / "batch.pkl"
        batch(side).save_to_disk(path)
        return side.get(f"{MODULE}:DataProto").load_from_disk(path)

    yield "disk", on_disk
    yield "to", lambda: [batch(side).to("cpu"), _on_meta(batch(side))]
    yield "to/arrays only", lambda: arrays_only(side).to("meta")
    for prefix in ("batch", ""):
        yield f"print_size/{prefix}", lambda prefix=prefix: printed(batch(side).print_size, prefix)
    yield "print_size/arrays only", lambda: printed(arrays_only(side).print_size)
    yield "pickle/no tensor left", lambda: pickle.loads(pickle.dumps(batch(side).select(batch_keys=[])))
    for seed in (None, 3):
        yield (
            f"make_iterator/{seed}",
            lambda seed=seed: list(
                batch(side).make_iterator(2, 2, seed=seed, dataloader_kwargs={"shuffle": seed is not None})
            ),
        )
    yield "make_iterator/by default", lambda: list(batch(side).make_iterator(4, 1))
    yield "make_iterator/uneven", lambda: outcome(batch(side).make_iterator, 3, 1)


def _on_meta(data: Any) -> list[Any]:
    """Return whether a batch moves, and where to."""
    moved = data.to("meta")
    return [moved is data, str(moved.batch["ids"].device)]


@family("protocol.functions", MODULE)
def functions(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield what stands beside the class."""
    from tensordict import TensorDict

    def tensors(**values: torch.Tensor) -> Any:
        return TensorDict(values, batch_size=[4])

    rows = torch.arange(8).reshape(4, 2)
    yield (
        "union_tensor_dict",
        lambda: side.get(f"{MODULE}:union_tensor_dict")(tensors(a=rows), tensors(a=rows, b=rows + 1)),
    )
    yield (
        "union_tensor_dict/sizes",
        lambda: outcome(
            side.get(f"{MODULE}:union_tensor_dict"), tensors(a=rows), TensorDict({"b": rows[:2]}, batch_size=[2])
        ),
    )
    for label, ours, theirs in (
        ("equal", [np.nan, 1.0], [np.nan, 1.0]),
        ("value", [1.0, 2.0], [1.0, 3.0]),
        ("kind", [1, 2], [1.0, 2.0]),
        ("length", [1.0, 2.0], [1.0]),
        ("objects", ["a", None, {"x": 1}], ["a", None, {"x": 1}]),
        ("nested", [np.array([1.0, np.nan]), "a"], [np.array([1.0, np.nan]), "a"]),
        ("nested value", [np.array([1.0, 2.0]), "a"], [np.array([1.0, 3.0]), "a"]),
        ("last object", ["a", "a", "b"], ["a", "a", "c"]),
        ("one of two not a number", [float("nan"), "a"], [1.0, "a"]),
    ):

        def united(ours: list[Any] = ours, theirs: list[Any] = theirs) -> Any:
            made = [np.empty(len(values), dtype=object) for values in (ours, theirs)]
            if all(isinstance(value, (int, float)) for value in (*ours, *theirs)):
                made = [np.array(values) for values in (ours, theirs)]
            else:
                for array, values in zip(made, (ours, theirs), strict=True):
                    array[:] = values
            return outcome(side.get(f"{MODULE}:union_numpy_dict"), {"a": made[0]}, {"a": made[1]})

        yield f"union_numpy_dict/{label}", united
    yield "union_numpy_dict", lambda: side.get(f"{MODULE}:union_numpy_dict")({"a": np.arange(3)}, {"b": np.arange(2)})
    yield (
        "list_of_dict_to_dict_of_list",
        lambda: [side.get(f"{MODULE}:list_of_dict_to_dict_of_list")(rows) for rows in ([], [{"a": 1}, {"a": 2}])],
    )
    yield "collate_fn", lambda: side.get(f"{MODULE}:collate_fn")([batch(side)[index] for index in (2, 0)])


@family("protocol.fold", MODULE, fixes=("reshape-newshape",))
def folding(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield a second batch dimension; upstream's fails on numpy 2.4 and later."""
    yield "fold_batch_dim", lambda: side.get(f"{MODULE}:fold_batch_dim")(batch(side), 4)
    yield (
        "unfold_batch_dim",
        lambda: side.get(f"{MODULE}:unfold_batch_dim")(
            side.get(f"{MODULE}:fold_batch_dim")(batch(side), 4), batch_dims=2
        ),
    )


@family("tensordict_utils", "verl.utils.tensordict_utils")
def tensor_dictionaries(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Call the helpers for TensorDict."""
    module = "verl.utils.tensordict_utils"
    rows = torch.arange(8).reshape(4, 2)

    def made_of_lists() -> Any:
        given: dict[str, Any] = {"a": rows, "b": list("wxyz")}
        return outcome(side.get(f"{module}:get_tensordict"), given, {"c": 1}), given

    yield "get_tensordict", made_of_lists
    yield "get_tensordict/tensors", lambda: outcome(side.get(f"{module}:get_tensordict"), {"a": rows})

    def selected(indices: Any) -> Any:
        from tensordict import TensorDict

        return outcome(side.get(f"{module}:index_select_tensor_dict"), TensorDict({"a": rows}, batch_size=[4]), indices)

    if hasattr(side.module(module), "assign_non_tensor"):
        for label, values in (
            ("texts", {"a": "x", "b": 3}),
            ("lists", {"a": [[1], []], "b": [{"c": 1}, {}]}),
            ("nothing", {}),
        ):
            yield f"assign_non_tensor/{label}", lambda values=values: _assigned(side.module(module), values)
        for label, value in (
            ("lengths", {"a": rows, "b": ["x"]}),
            ("tensors in a list", {"a": [rows]}),
            ("array", {"a": np.arange(4), "b": rows}),
            ("text", {"a": "wxyz"}),
            ("strided", {"a": torch.nested.nested_tensor([rows[0], rows[0]])}),
            ("nothing", {}),
        ):
            yield f"get_tensordict/{label}", lambda value=value: outcome(side.get(f"{module}:get_tensordict"), value)
        yield "get_tensordict/clash", lambda: outcome(side.get(f"{module}:get_tensordict"), {"a": rows}, {"a": 1})
    yield "index_select_tensor_dict", lambda: [selected([2, 0]), selected(torch.tensor([1, 1]))]


def _assigned(module: Any, values: dict[str, Any]) -> Any:
    from tensordict import TensorDict

    data = TensorDict({"rows": torch.arange(2)}, batch_size=[2])
    returned = module.assign_non_tensor(data, **values)
    found = [module.get_non_tensor_data(data, key, 7) for key in ("a", "b", "none")]
    return returned is data, found, outcome(module.assign_non_tensor, {}, a=1)
