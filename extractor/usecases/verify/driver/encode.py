"""Encode results as JSON without losing a bit.

A node is a list that starts with its kind:
    ["v", value]                       None, a bool, a number or a string
    ["t", dtype, [shape], [values]]    a tensor or an array, its elements in C order; "with a graph" if it learns
    ["r", text]                        a large one, by its digest
    ["s", kind, [nodes]]               a sequence: "list", "tuple", "set" (sorted) or "array" (of objects)
    ["d", [[key, node], ...]]          a mapping in its own order, or an object's fields
    ["r", text]                        anything else, by its type and text
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from hashlib import sha256
from typing import Any

import numpy as np
import torch

Node = list[Any]
_LARGE = 4000
_PLAIN = (type(None), bool, int, float)
_STEPS = 21  # of a schedule


def encode(value: Any) -> Node:
    """Encode any value."""
    if isinstance(value, Enum):
        return ["r", f"{type(value).__name__}.{value.name}"]
    if isinstance(value, torch.Tensor):
        if value.is_nested:
            return _encode_sequence("nested", value.unbind())
        if value.is_meta:
            return ["r", f"{value.dtype}{list(value.shape)} without values"]
        value = getattr(value, "full_tensor", lambda: value)()
        kind = f"{value.dtype}{' with a graph' * value.requires_grad}"
        values = value.detach().cpu().contiguous().flatten()
        if len(values) > _LARGE:
            return ["r", f"{kind}{list(value.shape)}, sha256 {sha256(values.view(torch.uint8).numpy()).hexdigest()}"]
        return ["t", kind, list(value.shape), values.tolist()]
    if isinstance(value, (np.generic, np.ndarray)):
        array = np.asarray(value)
        if array.dtype == object:
            return _encode_sequence(f"array{list(array.shape)}", array.reshape(-1))
        return ["t", f"numpy.{array.dtype}", list(array.shape), array.reshape(-1).tolist()]
    if isinstance(value, (*_PLAIN, str)):
        return ["v", value]
    return _encode_container(value, type(value).__name__)


def _encode_container(value: Any, name: str) -> Node:
    if isinstance(value, (torch.Size, torch.dtype, torch.device)):
        return ["r", str(value)]
    if name in ("NonTensorData", "NonTensorStack"):
        return _encode_sequence("non-tensor", [value.tolist()])
    if isinstance(value, (list, tuple)):
        return _encode_sequence("tuple" if isinstance(value, tuple) else "list", value)
    if isinstance(value, (set, frozenset)):
        return ["s", "set", sorted((encode(item) for item in value), key=repr)]
    if name == "TensorDict":
        fields = {str(key): value.get(key) for key in sorted(value.keys(), key=str)}
        return encode({"batch_size": tuple(value.batch_size), **fields})
    if isinstance(value, Mapping):
        return ["d", [[key if isinstance(key, str) else repr(key), encode(value[key])] for key in value]]
    if isinstance(value, BaseException):
        return encode({"raises": name, "message": _strip_addresses(str(value))})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        fields.pop("_target_", None)  # a name of the class, which each side has otherwise
        return encode({"class": name, **fields})
    if has_state(value) or isinstance(value, (torch.amp.GradScaler, torch.optim.lr_scheduler.LambdaLR)):
        return _encode_state(value, name)
    return ["r", f"{name} {_strip_addresses(str(value))}"]


def has_state(value: Any) -> bool:
    """Tell whether a call may leave something in an object: in a model, an optimizer, or an object of verl's."""
    home = type(value).__module__
    known = (torch.nn.Module, torch.optim.Optimizer)
    return isinstance(value, known) or home.startswith("verl.") or ".vendored." in home


def _encode_state(value: Any, name: str) -> Node:
    if isinstance(value, torch.nn.Module):
        gradients = {key: weight.grad for key, weight in value.named_parameters()}
        return encode({"training": value.training, "weights": dict(value.named_parameters()), "gradients": gradients})
    if isinstance(value, (torch.optim.Optimizer, torch.amp.GradScaler)):
        return encode([name, value.state_dict()])
    if isinstance(value, torch.optim.lr_scheduler.LambdaLR):
        return encode([[rate(step) for step in range(_STEPS)] for rate in value.lr_lambdas])
    # Of other fields only the type, as they may name the side that they are of.
    kinds = (*_PLAIN, list, Enum, torch.Tensor, torch.nn.Module, torch.optim.Optimizer, torch.amp.GradScaler)
    fields = {key: item if isinstance(item, kinds) else type(item).__name__ for key, item in vars(value).items()}
    return encode({"class": name, **fields})


def _encode_sequence(kind: str, items: Iterable[Any]) -> Node:
    return ["s", kind, [encode(item) for item in items]]


def _strip_addresses(text: str) -> str:
    """Text without what differs between two processes: addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)
