"""Cases of `DataProto` and TensorDict that take more than one call."""

import os
import pickle
from typing import Any
from unittest import mock

import numpy as np
import torch
from tensordict import TensorDict

from .cases import Call, Cases, family, outcome, printed
from .pool import make_arrays_only, make_batch
from .sides import Side

MODULE = "verl.protocol"


@family("protocol.pad", MODULE)
def padding(call: Call) -> Cases:
    """Yield cases of padding to a divisor and back."""

    def there_and_back(size: int, divisor: int) -> Any:
        padded, count = call.get("pad_dataproto_to_divisor")(make_batch(call.side, size), divisor)
        return padded, count, call.get("unpad_dataproto")(padded, count)

    def pad(candidate: str) -> Any:
        data = make_batch(call.side, 5)
        data.padding(3, candidate)
        data.padding(0, candidate)
        return data

    def enabled() -> Any:
        settings = call.get("DataProtoConfig")
        found = [make_batch(call.side).is_padding_enabled(), settings.auto_padding]
        settings.auto_padding = True
        found += [make_batch(call.side).is_padding_enabled(), outcome(setattr, settings, "auto_padding", 3)]
        settings.auto_padding = False
        return found

    def by_environment(value: str) -> Any:
        with mock.patch.dict(os.environ, {"VERL_AUTO_PADDING": value}):
            return call.get("DataProtoConfig").auto_padding, outcome(make_batch(call.side, 7).chunk, 3)

    for size, divisor in ((8, 4), (7, 4), (3, 8), (1, 5), (3, 7)):
        yield f"{size} to {divisor}", call(there_and_back, size, divisor)
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
        make_batch(side).save_to_disk(path)
        return cls.load_from_disk(path)

    def moved() -> Any:
        data = make_batch(side)
        there = data.to("meta")
        return [make_batch(side).to("cpu"), [there is data, str(there.batch["ids"].device)]]

    ragged = torch.nested.as_nested_tensor([torch.arange(3.0), torch.arange(5.0)], layout=torch.jagged)
    rows = {"rows": ragged, "plain": torch.arange(2)}
    yield "pickle/numpy", lambda: [pickled(made(side), "numpy") for made in (make_batch, make_arrays_only)]
    yield "pickle/numpy/nested", lambda: outcome(pickled, cls.from_dict(tensors=rows), "numpy")
    yield "pickle/arrays only", lambda: pickle.loads(pickle.dumps(cls.from_dict(non_tensors={"a": np.arange(3)})))
    yield "pickle/no tensor left", lambda: pickle.loads(pickle.dumps(make_batch(side).select(batch_keys=[])))
    yield "disk", on_disk
    yield "to", moved
    for make in (make_batch, make_arrays_only):
        yield f"print_size/{make.__name__}", lambda: printed(make(side).print_size, "batch")
    for seed in (None, 3):
        options = {"seed": seed, "dataloader_kwargs": {"shuffle": seed is not None}}
        yield f"make_iterator/{seed}", lambda: list(make_batch(side).make_iterator(2, 2, **options))
    yield "make_iterator/by default", lambda: list(make_batch(side).make_iterator(4, 1))
    for deepcopy in (None, True):
        yield f"select/copy/{deepcopy}", call(_edit_selection, side, deepcopy)
    if hasattr(cls, "from_tensordict") and hasattr(cls, "to_tensordict"):
        yield "from_tensordict/arrays", lambda: cls.from_tensordict(make_batch(side).to_tensordict())


def _edit_selection(side: Side, deepcopy: bool | None) -> Any:
    """Modify a selection; return it with its source batch."""
    data = make_batch(side, nested={"a": [1]})
    taken = data.select(["scores"], **({} if deepcopy is None else {"deepcopy": deepcopy}))
    taken.non_tensor_batch["extra"][0]["index"] = 70
    taken.meta_info["nested"]["a"].append(2)
    return taken, data


@family("protocol.unfold", "verl.protocol", fixes=("reshape-newshape",))
def unfolding(call: Call) -> Cases:
    """Unfold what was folded; upstream fails on numpy 2.4+."""
    folded = call("fold_batch_dim", make_batch(call.side), 4)
    yield "unfold_batch_dim", lambda: call.get("unfold_batch_dim")(folded(), batch_dims=2)


NON_TENSORS: dict[str, dict[str, Any]] = {
    "texts": {"a": "x", "b": 3},
    "lists": {"a": [[1], []], "b": [{"c": 1}, {}]},
    "nothing": {},
}


@family("tensordict_utils.assign", "verl.utils.tensordict_utils")
def non_tensors(call: Call) -> Cases:
    """Assign what is no tensor, and read it again."""
    if hasattr(call.side.module(call.module), "assign_non_tensor"):
        yield from call.each("", _assign_values, NON_TENSORS, call.side.module(call.module))


def _assign_values(module: Any, **values: Any) -> Any:
    data = TensorDict({"rows": torch.arange(2)}, batch_size=[2])
    returned = module.assign_non_tensor(data, **values)
    found = [module.get_non_tensor_data(data, key, 7) for key in ("a", "b", "none")]
    return returned is data, found, outcome(module.assign_non_tensor, {}, a=1)
