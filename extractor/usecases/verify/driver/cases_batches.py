"""Cases of `DataProto` and of helpers for TensorDict."""

import os
import pickle
from typing import Any
from unittest import mock

import numpy as np
import torch
from tensordict import TensorDict

from . import inputs
from .cases import Call, Cases, family, kind_of, outcome, printed
from .sides import Side

MODULE = "verl.protocol"
ROWS = torch.arange(12).reshape(6, 2)
NAMES = np.array(list("abcdef"), dtype=object)


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


def arrays_only(side: Side, size: int = inputs.BATCH) -> Any:
    """Return a DataProto without tensors."""
    numbers = np.arange(size)
    arrays = {"uid": numbers.astype(object), "pairs": np.stack([numbers, numbers + 0.5], axis=1)}
    return side.get(f"{MODULE}:DataProto").from_dict(non_tensors=arrays, meta_info={"more": 1})


class OnBatch:
    """Makes cases of a batch's methods."""

    def __init__(self, call: Call, make: Any = batch) -> None:
        self._call = call
        self._make = make

    def __call__(self, method: str, *args: Any, size: int = inputs.BATCH, meta: Any = None, **kwargs: Any) -> Any:
        """Return a case that calls a method of a new batch."""
        return self._call.on(lambda: self._make(self._call.side, size, **(meta or {})), method, *args, **kwargs)


def _apply_change(data: Any, change: Any) -> Any:
    """Return what changing a batch returns, and the batch after it."""
    return change(data), data


@family("protocol.make", MODULE)
def making(call: Call) -> Cases:
    """Yield cases of construction and the checks in it."""
    side, cls, arrays = call.side, call.get("DataProto"), {"b": NAMES}
    for label, given in {
        "tensors only": {"tensors": {"a": ROWS}},
        "arrays only": {"non_tensors": {"a": NAMES}},
        "two dimensions": {"tensors": {"a": ROWS}, "num_batch_dims": 2},
        "sizes differ": {"tensors": {"a": ROWS, "b": ROWS[:3]}},
        "array sizes differ": {"tensors": {"a": ROWS}, "non_tensors": {"b": NAMES[:2]}},
        "lists": {"tensors": {"a": ROWS}, "non_tensors": {"b": list("abcdef")}},
        "padding": {"tensors": {"a": ROWS}, "auto_padding": True},
        "no dimension": {"tensors": {"a": ROWS}, "num_batch_dims": 0},
        "arrays of two dimensions": {"tensors": {"a": ROWS}, "non_tensors": arrays, "num_batch_dims": 2},
    }.items():
        yield f"from_dict/{label}", call(cls.from_dict, **given)
    yield "from_single_dict", call(cls.from_single_dict, {"a": ROWS, "b": NAMES}, meta_info={"x": 1}, auto_padding=True)
    yield "from_single_dict/bad", call(cls.from_single_dict, {"a": [1]})
    yield "empty", lambda: [len(cls()), cls()]

    def with_arrays() -> Any:
        made = cls.from_tensordict(batch(side).to_tensordict())
        return made, made.meta_info

    if hasattr(cls, "from_tensordict") and hasattr(cls, "to_tensordict"):
        yield "from_tensordict/arrays", with_arrays
    if hasattr(cls, "get_data_info"):
        info = {"nested": {"a": [1, 2]}, "pair": (1, "b"), "long": [1, 2, 3, "a"], "none": [], "no keys": {}}
        yield "get_data_info", OnBatch(call)("get_data_info", meta=info)


@family("protocol.index", MODULE)
def indexing(call: Call) -> Cases:
    """Take rows, slices, selections."""
    side, on, on_arrays = call.side, OnBatch(call), OnBatch(call, arrays_only)
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
        yield f"getitem/{label}", on("__getitem__", key)
    for label in ("int", "slice", "list", "bool array"):
        yield f"getitem/{label}/arrays only", on_arrays("__getitem__", keys[label])
    yield "select_idxs/list of flags", on("select_idxs", [True, False] * 4)
    yield "select", on("select", ["ids"], ["uid"], ["temperature"])
    yield "select/all", on("select")
    for deepcopy in (None, True):
        yield f"select/copy/{deepcopy}", call(_edit_selection, side, deepcopy)
    taken = {"batch_keys": ["ids"], "non_tensor_batch_keys": ["uid"], "meta_info_keys": ["temperature"]}
    yield "pop", lambda: _apply_change(batch(side), lambda data: data.pop(**taken))
    yield "pop/nothing", lambda: list(_apply_change(batch(side), lambda data: data.pop()))
    yield "rename", on("rename", "ids", "tokens")
    yield "rename/number", on("rename", 3, "a")
    yield "rename/bad", on("rename", ["ids"], ["a", "b"])


def _edit_selection(side: Side, deepcopy: bool | None) -> Any:
    """Modify a selection; return it with its source batch."""
    data = batch(side, nested={"a": [1]})
    taken = data.select(["scores"], **({} if deepcopy is None else {"deepcopy": deepcopy}))
    taken.non_tensor_batch["extra"][0]["index"] = 70
    taken.meta_info["nested"]["a"].append(2)
    return taken, data


@family("protocol.combine", MODULE)
def combining(call: Call) -> Cases:
    """Unite, concatenate, repeat, cut, order."""
    side, cls, on, on_arrays = call.side, call.get("DataProto"), OnBatch(call), OnBatch(call, arrays_only)

    def other(**tensors: torch.Tensor) -> Any:
        return cls.from_dict(tensors=tensors, meta_info={"more": 2})

    more = other(extra=torch.ones(inputs.BATCH, 2))
    yield "union/same", on("union", batch(side))
    yield "union/clash", kind_of(on("union", other(ids=torch.ones(inputs.BATCH, 6))))
    yield "union/size", kind_of(on("union", other(extra=torch.ones(3))))
    yield "union/state", lambda: [(data := batch(side)).union(more) is data, data]
    metrics = [batch(side, metrics=[{"a": 1.0}]), batch(side, metrics={"a": 2.0})]
    for label, parts in {
        "concat": [batch(side), batch(side)[2:5]],
        "concat/one": [batch(side)],
        "concat/metrics": metrics,
        "concat/meta clash": [batch(side, x=1), batch(side, x=2)],
        "concat/arrays only": [arrays_only(side), arrays_only(side, 2)],
        "concat/nothing": [],
        "concat/no metrics": [batch(side, metrics=None), batch(side, metrics=None)],
    }.items():
        yield label, call(cls.concat, parts)
    for interleave in (True, False):
        yield f"repeat/arrays only/{interleave}", on_arrays("repeat", 3, interleave=interleave)
        for times in (1, 3):
            yield f"repeat/{times}/{interleave}", on("repeat", times, interleave)
    some = ([2, 0, 1], (1, 1, 3), torch.tensor([1, 2, 1]))
    yield "sample_level_repeat", lambda: [batch(side, 3).sample_level_repeat(times) for times in some]
    yield "sample_level_repeat/array", on("sample_level_repeat", np.array([1, 2, 2]), size=3)
    yield "sample_level_repeat/arrays only", on_arrays("sample_level_repeat", [2, 0, 1], size=3)
    yield "unfold_column_chunks", on("unfold_column_chunks", 2, split_keys=["ids", "scores"])
    yield "unfold_column_chunks/arrays only", on_arrays("unfold_column_chunks", 2, split_keys=["pairs"])
    for chunks in (1, 2, 3, 8):
        yield f"chunk/{chunks}", on("chunk", chunks)
        yield f"chunk/arrays only/{chunks}", on_arrays("chunk", chunks)
    yield "chunk/padding", on("chunk", 3, size=7, meta={"_verl_auto_padding": True})
    for size in (3, 8, 100):
        yield f"split/{size}", on("split", size)
    order = torch.tensor([7, 0, 3, 1, 2, 6, 5, 4])
    yield "reorder", lambda: _apply_change(batch(side), lambda data: data.reorder(order))[1]


@family("protocol.pad", MODULE)
def padding(call: Call) -> Cases:
    """Yield cases of padding to a divisor and back."""

    def there_and_back(size: int, divisor: int) -> Any:
        padded, count = call.get("pad_dataproto_to_divisor")(batch(call.side, size), divisor)
        return padded, count, call.get("unpad_dataproto")(padded, count)

    def pad(candidate: str) -> Any:
        data = batch(call.side, 5)
        data.padding(3, candidate)
        data.padding(0, candidate)
        return data

    def enabled() -> Any:
        settings = call.get("DataProtoConfig")
        found = [batch(call.side).is_padding_enabled(), settings.auto_padding]
        settings.auto_padding = True
        found += [batch(call.side).is_padding_enabled(), outcome(setattr, settings, "auto_padding", 3)]
        settings.auto_padding = False
        return found

    def by_environment(value: str) -> Any:
        with mock.patch.dict(os.environ, {"VERL_AUTO_PADDING": value}):
            return call.get("DataProtoConfig").auto_padding, outcome(batch(call.side, 7).chunk, 3)

    for size, divisor in ((8, 4), (7, 4), (3, 8), (1, 5), (3, 7)):
        yield f"{size} to {divisor}", call(there_and_back, size, divisor)
    yield "no batch", kind_of(call("pad_dataproto_to_divisor", [1, 2, 3], 2))
    for candidate in ("first", "last"):
        yield candidate, call(pad, candidate)
    yield "enabled", enabled
    for value in ("TRUE", "true", "1", "FALSE", "0", "yes"):
        yield f"enabled/{value}", call(by_environment, value)


@family("protocol.store", MODULE)
def storing(call: Call) -> Cases:
    """Pickle, write to files, iterate."""
    side, cls = call.side, call.get("DataProto")

    def pickled(data: Any, method: str = "") -> Any:
        with mock.patch.dict(os.environ, {"VERL_DATAPROTO_SERIALIZATION_METHOD": method}):
            return pickle.loads(pickle.dumps(data))

    def on_disk() -> Any:
        path = side.scratch / "batch.pkl"
        batch(side).save_to_disk(path)
        return cls.load_from_disk(path)

    def moved() -> Any:
        data = batch(side)
        there = data.to("meta")
        return [batch(side).to("cpu"), [there is data, str(there.batch["ids"].device)]]

    ragged = torch.nested.as_nested_tensor([torch.arange(3.0), torch.arange(5.0)], layout=torch.jagged)
    yield "pickle/numpy", lambda: [pickled(made(side), "numpy") for made in (batch, arrays_only)]
    yield (
        "pickle/numpy/nested",
        lambda: outcome(pickled, cls.from_dict(tensors={"rows": ragged, "plain": torch.arange(2)}), "numpy"),
    )
    yield "pickle/arrays only", lambda: pickle.loads(pickle.dumps(cls.from_dict(non_tensors={"a": np.arange(3)})))
    yield "pickle/no tensor left", lambda: pickle.loads(pickle.dumps(batch(side).select(batch_keys=[])))
    yield "disk", on_disk
    yield "to", moved
    for make in (batch, arrays_only):
        yield f"print_size/{make.__name__}", lambda: printed(make(side).print_size, "batch")
    for seed in (None, 3):
        options = {"seed": seed, "dataloader_kwargs": {"shuffle": seed is not None}}
        yield f"make_iterator/{seed}", lambda: list(batch(side).make_iterator(2, 2, **options))
    yield "make_iterator/by default", lambda: list(batch(side).make_iterator(4, 1))


# Values of two arrays that are united, by what they share.
ARRAYS: dict[str, tuple[list[Any], list[Any]]] = {
    "equal": ([np.nan, 1.0], [np.nan, 1.0]),
    "value": ([1.0, 2.0], [1.0, 3.0]),
    "kind": ([1, 2], [1.0, 2.0]),
    "length": ([1.0, 2.0], [1.0]),
    "objects": (["a", None, {"x": 1}], ["a", None, {"x": 1}]),
    "nested": ([np.array([1.0, np.nan]), "a"], [np.array([1.0, np.nan]), "a"]),
    "nested value": ([np.array([1.0, 2.0]), "a"], [np.array([1.0, 3.0]), "a"]),
    "last object": (["a", "a", "b"], ["a", "a", "c"]),
    "one of two not a number": ([float("nan"), "a"], [1.0, "a"]),
}


@family("protocol.functions", MODULE)
def functions(call: Call) -> Cases:
    """Yield what stands beside the class."""
    rows = torch.arange(8).reshape(4, 2)
    shorter = TensorDict({"b": rows[:2]}, batch_size=[2])
    yield "union_tensor_dict/sizes", call("union_tensor_dict", TensorDict({"a": rows}, batch_size=[4]), shorter)
    for label, both in ARRAYS.items():
        numbers = all(isinstance(value, (int, float)) for values in both for value in values)
        made = [np.array(values) if numbers else np.empty(len(values), dtype=object) for values in both]
        for array, values in zip(made, both, strict=True):
            array[:] = values
        yield f"union_numpy_dict/{label}", call("union_numpy_dict", {"a": made[0]}, {"a": made[1]})
    listed = "list_of_dict_to_dict_of_list"
    yield listed, lambda: [call.get(listed)(rows) for rows in ([], [{"a": 1}, {"a": 2}])]


@family("protocol.fold", MODULE, fixes=("reshape-newshape",))
def folding(call: Call) -> Cases:
    """Yield cases of folding batch dimensions; upstream fails on numpy 2.4+."""

    def folded() -> Any:
        return call.get("fold_batch_dim")(batch(call.side), 4)

    yield "fold_batch_dim", folded
    yield "unfold_batch_dim", lambda: call.get("unfold_batch_dim")(folded(), batch_dims=2)


@family("tensordict_utils", "verl.utils.tensordict_utils")
def tensor_dictionaries(call: Call) -> Cases:
    """Call the helpers for TensorDict."""
    module, rows = call.side.module(call.module), torch.arange(8).reshape(4, 2)

    def made_of_lists() -> Any:
        given: dict[str, Any] = {"a": rows, "b": list("wxyz")}
        return call("get_tensordict", given, {"c": 1})(), given

    def selected(indices: Any) -> Any:
        return call("index_select_tensor_dict", TensorDict({"a": rows}, batch_size=[4]), indices)()

    yield "get_tensordict", made_of_lists
    yield "get_tensordict/tensors", call("get_tensordict", {"a": rows})
    if hasattr(module, "assign_non_tensor"):
        for label, values in {
            "texts": {"a": "x", "b": 3},
            "lists": {"a": [[1], []], "b": [{"c": 1}, {}]},
            "nothing": {},
        }.items():
            yield f"assign_non_tensor/{label}", call(_assign_values, module, values)
        for label, value in {
            "lengths": {"a": rows, "b": ["x"]},
            "tensors in a list": {"a": [rows]},
            "array": {"a": np.arange(4), "b": rows},
            "text": {"a": "wxyz"},
            "strided": {"a": torch.nested.nested_tensor([rows[0], rows[0]])},
            "nothing": {},
        }.items():
            yield f"get_tensordict/{label}", call("get_tensordict", value)
    yield "index_select_tensor_dict", lambda: [selected([2, 0]), selected(torch.tensor([1, 1]))]


def _assign_values(module: Any, values: dict[str, Any]) -> Any:
    data = TensorDict({"rows": torch.arange(2)}, batch_size=[2])
    returned = module.assign_non_tensor(data, **values)
    found = [module.get_non_tensor_data(data, key, 7) for key in ("a", "b", "none")]
    return returned is data, found, outcome(module.assign_non_tensor, {}, a=1)
