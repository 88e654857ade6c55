"""Compare bit for bit what two sides computed."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

Node = list[Any]

_FORMATS = dict(
    zip(("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"), "dfeqihbB?", strict=True)
)


def difference(upstream: Node, vendored: Node) -> str | None:
    """Return where two nodes first differ, in words; None where they are equal to the last bit."""
    if upstream == vendored:
        return None
    return next(_differences(upstream, vendored, ""), "differs")


def _differences(left: Node, right: Node, path: str) -> Iterator[str]:
    if left == right:
        return
    where = f"{path.lstrip('.')}: " if path else ""
    kinds = left[0], right[0]
    if kinds == ("t", "t") and left[1:3] == right[1:3]:
        yield where + _tensors(left, right)
    elif kinds == ("s", "s") and left[1] == right[1] and len(left[2]) == len(right[2]):
        for index, (one, other) in enumerate(zip(left[2], right[2], strict=True)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif kinds == ("d", "d"):
        theirs, ours = dict(map(tuple, left[1])), dict(map(tuple, right[1]))
        for key in sorted({*ours, *theirs}):
            if key not in ours:
                yield f"{where}{key} is missing here"
            elif key not in theirs:
                yield f"{where}{key} is there here, and not upstream"
            else:
                yield from _differences(theirs[key], ours[key], f"{path}.{key}")
        if list(ours) != list(theirs):
            yield f"{where}the order of the keys"
    else:
        yield f"{where}{_short(left)} upstream, {_short(right)} here"


def _tensors(left: Node, right: Node) -> str:
    theirs, ours = _numbers(left), _numbers(right)
    if theirs is None or ours is None:
        return f"{_short(left)}: the bytes differ"
    if len(theirs) == 1:
        return f"{theirs[0]!r} upstream, {ours[0]!r} here"
    pairs = zip(theirs, ours, strict=True)
    apart = [abs(one - other) for one, other in pairs if struct.pack("d", one) != struct.pack("d", other)]
    most = max((distance for distance in apart if distance == distance), default=float("nan"))
    return f"{_short(left)}: {len(apart)} of {len(theirs)} elements differ, by at most {most:.3g}"


def _numbers(node: Node) -> tuple[float, ...] | None:
    dtype, data = node[1].rpartition(".")[2], base64.b64decode(node[3])
    if dtype == "bfloat16":
        # The upper half of a float32.
        widened = b"".join(b"\0\0" + data[index : index + 2] for index in range(0, len(data), 2))
        return struct.unpack(f"<{len(data) // 2}f", widened)
    if dtype not in _FORMATS:
        return None
    size = struct.calcsize(_FORMATS[dtype])
    return struct.unpack(f"={len(data) // size}{_FORMATS[dtype]}", data)


def _short(node: Node) -> str:
    kind, value = node[:2]
    if kind == "t":
        return f"{value.rpartition('.')[2]}{node[2]}"
    if kind == "f":
        return repr(float.fromhex(value))
    if kind == "s":
        return f"{value} of {len(node[2])}"
    if kind == "d":
        fields = dict(map(tuple, value))
        if "raises" in fields:
            return f"{fields['raises'][1]}: {fields['message'][1]}"[:200]
        return f"{{{', '.join(sorted(fields))}}}"[:120]
    return repr(value)[:120]
