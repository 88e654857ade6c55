"""Compare bit for bit what two sides computed."""

from collections.abc import Iterator
from typing import Any

Node = list[Any]
Sides = tuple[str, str]
SIDES: Sides = ("upstream", "here")


def find_difference(upstream: Node, vendored: Node, sides: Sides = SIDES) -> str | None:
    """Describe the first difference of two nodes; None if bit-identical."""
    if repr(upstream) == repr(vendored):  # which tells 0.0 from -0.0
        return None
    return next(_find_differences(upstream, vendored, "", sides), "differs")


def _find_differences(left: Node, right: Node, path: str, sides: Sides) -> Iterator[str]:
    if repr(left) == repr(right):
        return
    where = f"{path.lstrip('.')}: " if path else ""
    kinds = left[0], right[0]
    if kinds == ("t", "t") and left[1:3] == right[1:3]:
        yield where + _compare_tensors(left, right, sides)
    elif kinds == ("s", "s") and left[1] == right[1] and len(left[2]) == len(right[2]):
        for index, (one, other) in enumerate(zip(left[2], right[2], strict=True)):
            yield from _find_differences(one, other, f"{path}[{index}]", sides)
    elif kinds == ("d", "d"):
        theirs, ours = dict(map(tuple, left[1])), dict(map(tuple, right[1]))
        for key in sorted({*ours, *theirs}):
            if key not in ours:
                yield f"{where}{key} is missing {sides[1]}"
            elif key not in theirs:
                yield f"{where}{key} is there {sides[1]}, and not {sides[0]}"
            else:
                yield from _find_differences(theirs[key], ours[key], f"{path}.{key}", sides)
        if list(ours) != list(theirs):
            yield f"{where}the order of the keys"
    else:
        yield f"{where}{_shorten(left)} {sides[0]}, {_shorten(right)} {sides[1]}"


def _compare_tensors(left: Node, right: Node, sides: Sides) -> str:
    pairs = [pair for pair in zip(left[3], right[3], strict=True) if repr(pair[0]) != repr(pair[1])]
    if len(left[3]) == 1:
        return f"{left[3][0]!r} {sides[0]}, {right[3][0]!r} {sides[1]}"
    apart = [abs(one - other) for one, other in pairs if isinstance(one, (int, float))]
    most = max((distance for distance in apart if distance == distance), default=float("nan"))
    return f"{_shorten(left)}: {len(pairs)} of {len(left[3])} elements differ, by at most {most:.3g}"


def _shorten(node: Node) -> str:
    kind, value = node[:2]
    if kind == "t":
        return f"{value.rpartition('.')[2]}{node[2]}"
    if kind == "s":
        return f"{value} of {len(node[2])}"
    if kind == "d":
        fields = dict(map(tuple, value))
        if "raises" in fields:
            return f"{fields['raises'][1]}: {fields['message'][1]}"[:200]
        return f"{{{', '.join(sorted(fields))}}}"[:120]
    return repr(value)[:120]
