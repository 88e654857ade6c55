"""Compare bit for bit what two sides computed."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

Node = list[Any]

_FORMATS = {
    "float64": "d",
    "float32": "f",
    "float16": "e",
    "int64": "q",
    "int32": "i",
    "int16": "h",
    "int8": "b",
    "uint8": "B",
    "bool": "?",
}


def difference(upstream: Node, vendored: Node) -> str | None:
    """Return where two nodes first differ, in words; None where they are equal to the last bit."""
    if upstream == vendored:
        return None
    return next(_differences(upstream, vendored, ""), "differs")


def _differences(left: Node, right: Node, path: str) -> Iterator[str]:
    if left == right:
        return
    where = f"{path.lstrip('.')}: " if path else ""
    if left[0] != right[0]:
        yield f"{where}{_short(left)} upstream, {_short(right)} here"
    elif left[0] == "t":
        yield where + _tensors(left, right)
    elif left[0] == "s" and left[1] == right[1] and len(left[2]) == len(right[2]):
        for index, (one, other) in enumerate(zip(left[2], right[2], strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif left[0] == "d":
        yield from _mappings(left, right, path, where)
    else:
        yield f"{where}{_short(left)} upstream, {_short(right)} here"


def _mappings(left: Node, right: Node, path: str, where: str) -> Iterator[str]:
    ours, theirs = dict(map(tuple, right[1])), dict(map(tuple, left[1]))
    for key in sorted({*ours, *theirs}):
        if key not in ours:
            yield f"{where}{key} is missing here"
        elif key not in theirs:
            yield f"{where}{key} is there here, and not upstream"
        else:
            yield from _differences(theirs[key], ours[key], f"{path}.{key}")
    if list(ours) != list(theirs):
        yield f"{where}the order of the keys"


def _tensors(left: Node, right: Node) -> str:
    if left[1:3] != right[1:3]:
        return f"{_short(left)} upstream, {_short(right)} here"
    theirs, ours = _numbers(left), _numbers(right)
    if theirs is None or ours is None:
        return f"{_short(left)}: the bytes differ"
    apart = [(one, other) for one, other in zip(theirs, ours, strict=True) if _bits(one) != _bits(other)]
    if len(theirs) == 1:
        return f"{theirs[0]!r} upstream, {ours[0]!r} here"
    most = max((abs(one - other) for one, other in apart if one == one and other == other), default=float("nan"))
    return f"{_short(left)}: {len(apart)} of {len(theirs)} elements differ, by at most {most:.3g}"


def _numbers(node: Node) -> tuple[float, ...] | None:
    dtype = node[1].rpartition(".")[2]
    data = base64.b64decode(node[3])
    if dtype == "bfloat16":
        # The upper half of a float32.
        widened = b"".join(b"\0\0" + data[index : index + 2] for index in range(0, len(data), 2))
        return struct.unpack(f"<{len(data) // 2}f", widened)
    if dtype not in _FORMATS:
        return None
    size = struct.calcsize(_FORMATS[dtype])
    return struct.unpack(f"={len(data) // size}{_FORMATS[dtype]}", data)


def _bits(number: float) -> bytes:
    return struct.pack("d", number)


def _short(node: Node) -> str:
    if node[0] == "t":
        return f"{node[1].rpartition('.')[2]}{node[2]}"
    if node[0] == "f":
        return repr(float.fromhex(node[1]))
    if node[0] == "s":
        return f"{node[1]} of {len(node[2])}"
    if node[0] == "d":
        fields = dict(map(tuple, node[1]))
        if "raises" in fields:
            return f"{fields['raises'][1]}: {fields['message'][1]}"[:200]
        return f"{{{', '.join(sorted(fields))}}}"[:120]
    return repr(node[1])[:120]
