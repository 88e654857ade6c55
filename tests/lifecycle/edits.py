"""Random edits of the kinds that people make, each with a token by which it is found again."""

import random
import re
from dataclasses import dataclass

HEADER = b"# vextract:"  # says where a file comes from, which is no edit
KINDS = (
    "line",
    "insertion",
    "deletion",
    "renamed function",
    "new function",
    "unicode",
    "trailing whitespace",
    "CRLF line",
    "CRLF file",
)


@dataclass(frozen=True)
class Edit:
    """One edit.

    Attributes:
        path: The file.
        kind: One of KINDS.
        token: Bytes that stand in no other place. For a deletion: the line that is gone.
    """

    path: str
    kind: str
    token: bytes


def edit(path: str, data: bytes, count: int, chance: random.Random, known: set[bytes]) -> tuple[bytes, list[Edit]]:
    """Edit a file some times.

    Args:
        path: Its path.
        data: Its bytes.
        count: How many edits.
        chance: Where randomness comes from.
        known: Lines that the new file has several times, which cannot tell a deletion.
    """
    lines = data.split(b"\n")
    edits = []
    touched: set[bytes] = set()
    for number in range(count):
        kind = chance.choice(KINDS[:-1])
        token = f"EDIT_{chance.getrandbits(48):012x}_{number}".encode()
        at = chance.randrange(len(lines))
        while any(line in lines[at] for line in touched) or lines[at].startswith(HEADER):
            at = chance.randrange(len(lines))
        kind, token = _once(kind, token, lines, at, chance, known)
        touched.add(token)
        edits.append(Edit(path, kind, token))
    changed = b"\n".join(lines)
    if chance.random() < 0.1 and b"\r" not in changed:
        changed = changed.replace(b"\n", b"\r\n")
        edits.append(Edit(path, "CRLF file", b"\r\n"))
    # A later edit may have hit the place of an earlier one.
    return changed, [item for item in edits if item.kind == "deletion" or item.token in changed]


def _once(
    kind: str, token: bytes, lines: list[bytes], at: int, chance: random.Random, known: set[bytes]
) -> tuple[str, bytes]:
    if kind == "deletion":
        line = lines[at]
        if len(line.strip()) > 12 and lines.count(line) == 1 and line not in known and b"EDIT_" not in line:
            del lines[at]
            return kind, line
        kind = "line"
    if kind == "renamed function":
        found = [n for n, line in enumerate(lines) if re.match(rb"\s*def \w+\(", line) and b"EDIT_" not in line]
        if found:
            at = chance.choice(found)
            lines[at] = re.sub(rb"def (\w+)\(", rb"def \1_" + token + rb"(", lines[at], count=1)
            return kind, token
        kind = "insertion"
    if kind == "insertion":
        lines.insert(at, b"# " + token)
    elif kind == "new function":
        lines[at:at] = [b"", b"", b"def " + token + b"():", b"    return 1", b"", b""]
    elif kind == "unicode":
        token += " – été 漢字 🙂".encode()
        lines.insert(at, b"# " + token)
    elif kind == "trailing whitespace":
        token += b" \t  "
        lines[at] += b"  # " + token
    elif kind == "CRLF line":
        token += b"\r"
        lines[at] += b"  # " + token
    else:
        lines[at] += b"  # " + token
    return kind, token
