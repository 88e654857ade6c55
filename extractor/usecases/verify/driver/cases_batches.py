"""Cases of batches and metrics that take more than one call."""

import os
import pickle
from typing import Any
from unittest import mock

import numpy as np
import torch

from .cases import CaseMaker, Cases, capture_outcome, family
from .pool import make_arrays_only, make_balanced, make_batch
from .sides import Side

MODULE = "verl.protocol"


@family("protocol.pad", MODULE)
def padding(call: CaseMaker) -> Cases:
    """Yield cases of when batches are padded."""

    def enabled() -> Any:
        settings = call.get("DataProtoConfig")
        found = [make_batch(call.side).is_padding_enabled(), settings.auto_padding]
        settings.auto_padding = True
        found += [make_batch(call.side).is_padding_enabled(), capture_outcome(setattr, settings, "auto_padding", 3)]
        type(settings)._config.clear()  # as it was: other cases read it
        return found

    def by_environment(value: str) -> Any:
        with mock.patch.dict(os.environ, {"VERL_AUTO_PADDING": value}):
            return call.get("DataProtoConfig").auto_padding, capture_outcome(make_batch(call.side, 7).chunk, 3)

    yield "enabled", enabled
    for value in ("TRUE", "true", "1", "FALSE", "0", "yes"):
        yield f"enabled/{value}", call(by_environment, value)


@family("protocol.store", MODULE)
def storing(call: CaseMaker) -> Cases:
    """Pickle, write to files, edit a selection."""
    side, cls = call.side, call.get("DataProto")

    def pickled(data: Any, method: str = "") -> Any:
        with mock.patch.dict(os.environ, {"VERL_DATAPROTO_SERIALIZATION_METHOD": method}):
            return pickle.loads(pickle.dumps(data))

    def on_disk() -> Any:
        path = side.scratch / "batch.pkl"
        make_batch(side).save_to_disk(path)
        return cls.load_from_disk(path)

    ragged = torch.nested.as_nested_tensor([torch.arange(3.0), torch.arange(5.0)], layout=torch.jagged)
    rows = {"rows": ragged, "plain": torch.arange(2)}
    yield "pickle/numpy", lambda: [pickled(made(side), "numpy") for made in (make_batch, make_arrays_only)]
    yield "pickle/numpy/nested", lambda: capture_outcome(pickled, cls.from_dict(tensors=rows), "numpy")
    yield "pickle/arrays only", lambda: pickle.loads(pickle.dumps(cls.from_dict(non_tensors={"a": np.arange(3)})))
    yield "pickle/no tensor left", lambda: pickle.loads(pickle.dumps(make_batch(side).select(batch_keys=[])))
    yield "disk", on_disk
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


@family("protocol.unfold", MODULE)
def unfolding(call: CaseMaker) -> Cases:
    """Unfold what was folded; upstream fails on numpy 2.4+."""
    folded = call("fold_batch_dim", make_batch(call.side), 4)
    yield "unfold_batch_dim", lambda: call.get("unfold_batch_dim")(folded(), batch_dims=2)


@family("seqlen_balancing.batch", "verl.utils.seqlen_balancing")
def balancing(call: CaseMaker) -> Cases:
    """Divide a batch by a budget of tokens, and put it together again."""

    def there_and_back() -> Any:
        parts, order = call.get("prepare_dynamic_batch")(make_balanced(call.side), max_token_len=45)
        scores = torch.cat([part.batch["scores"] for part in parts])
        return parts, order, call.get("restore_dynamic_batch")(scores, order)

    yield "there and back", there_and_back


@family("metric.gathered", "verl.utils.metric.utils")
def gather_metrics(call: CaseMaker) -> Cases:
    """Gather values, and compute means, maxima and minima of them."""
    if not hasattr(call.side.module(call.module), "Metric"):
        return
    cls = call.get("Metric")

    def gathered(kind: str) -> Any:
        one, other = cls(kind, value=1.0), cls(kind)
        one.append(4)
        other.append(torch.tensor(2.5))
        other.extend([7.5, one])
        one.append(cls(kind, value=-3))
        mean = call.get("reduce_metrics")({"max": other})
        another = cls("mean" if kind == "sum" else "sum")
        wrong = [capture_outcome(one.append, value) for value in ("text", torch.ones(2), np.float32(7), another)]
        alike = [cls(kind, value=value) for value in (1.0, 3.5)]
        ranks = [capture_outcome(cls.aggregate_dp, ranks) for ranks in (alike, [one, other], [])]
        return one.values, other.values, other.aggregate(), mean, wrong, ranks, one.init_list().values

    for kind in ("mean", "sum", "min", "max", "none"):
        yield f"gathered/{kind}", call(gathered, kind)
