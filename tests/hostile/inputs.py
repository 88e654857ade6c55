"""Input that is made to do harm, or that nobody meant to write: small to say, large or endless to read.

Each is written by us. What a fuzzing run has found, and was mended, is here under a name that says what it is.
"""

import io
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

DEEP = 30_000


def _chain(count: int) -> str:
    return "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]" for n in range(count)) + "\n"


PYTHON: Mapping[str, bytes] = {
    "brackets": b"x = " + b"(" * DEEP + b"1" + b")" * DEEP + b"\n",
    "signs": b"x = " + b"-" * DEEP + b"1\n",
    "attributes": b"x = a" + b".b" * 5_000 + b"\n",
    "annotation": b"def f(x: '" + b"(" * 5_000 + b"'): pass\n",
    "number": b"x = " + b"9" * 10_000 + b"\n",
    "latin-1": b"# caf\xe9\nx = 1\n",
    "bytes": bytes(range(256)) * 4,
    "null": b"x = 1\0\n",
    "nonlocal": b"def f():\n    nonlocal x\n",
    "nothing": b"",
    "conflict": b"<<<<<<< ours\nx = 1\n=======\nx = 2\n>>>>>>> theirs\n",
}

# Valid Python that is not written as most is.
UNUSUAL: Mapping[str, bytes] = {
    "byte order mark": b"\xef\xbb\xbfx = 1\n",
    "carriage returns": b"x = 1\ry = 2\r",
    "form feed in a line": b"x = 'a\x0cb'\ny = 2\n",
    "separators in a string": "x = 'a\u2028b\x85c\x1cd'\ny = 2\n".encode(),
    "names": "größe = 1\nℌ = 2\n".encode(),
}

YAML: Mapping[str, str] = {
    "laughs": _chain(12),
    "a cycle": "a: &a [*a]\n",
    "brackets": "a: " + "[" * DEEP + "]" * DEEP + "\n",
    "bad date": "a: !!timestamp 2020-13-45\n",
    "a key twice": "data: 1\ndata: 2\n",
    "interpolations": "".join(f"a{n}: ${{a{n - 1}}}${{a{n - 1}}}\n" if n else "a0: xxxxxxxx\n" for n in range(60))
    + "data: {train_files: '${a59}'}\nactor_rollout_ref: {}\n",
}

TOML: Mapping[str, str] = {
    "arrays": "a = " + "[" * DEEP + "]" * DEEP + "\n",
    "dots": "a" + ".a" * 400_000 + " = 1\n",
    "bad date": "schema = 2020-13-45\n",
    "a key twice": "schema = 1\nschema = 2\n",
    "files of other types": "schema = 1\nvextract = '1'\nfiles = [1, 2]\n[verl]\n[options]\n[integrity]\n",
}

_HUGE = "9" * 20
_RUN = "\npython -m verl.trainer.main_ppo trainer.x=$A\n"
BASH: Mapping[str, str] = {
    "doubled": "A=xxxxxxxx\n" + 'A="${A}${A}"\n' * 60 + _RUN,
    "replaced": "A=aaaaaaaaaa\n" + 'A="${A//a/$A}"\n' * 20 + _RUN,
    "words": "A=(" + "a " * 700_000 + ")" + _RUN,
    "braces": "echo {1..99999999999999999999}{1..9}{1..9}{1..9}{1..9}{1..9}" + _RUN,
    "substitutions": "A=" + "$(echo " * 2_000 + "x" + ")" * 2_000 + _RUN,
    "a glob": f"A={'a' * 3_000}\n[[ $A == {'*a' * 30}b ]] && A=1\n" + _RUN,
    "trimmed": f"A={'a' * 100_000}\nB=${{A%%*b*c*d}}\n" * 2 + _RUN,
    "a pattern in a replacement": f"A={'a' * 5_000}\nB=${{A//*a*a*a*a*a*a*a*b/x}}\n" + _RUN,
    "squares": "A=9\n" + "A=$((A*A))\n" * 60 + _RUN,
    "a pattern": f"A={'a' * 40}\n[[ $A =~ (a+)+$b ]] && A=1\n[[ $A =~ ^(a|a)*b ]] && A=2\n" + _RUN,
    "positions": f"A=${_HUGE}\nB=${{{_HUGE}}}\nshift {_HUGE}\nC=${{A:{_HUGE}}}\n" + _RUN,
    "null bytes": "A=\0\0" + _RUN,
}


def archive_of(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compression)
    return buffer.getvalue()


def overlapping(name: str, count: int) -> bytes:
    """An archive whose members all take the same bytes."""
    data = b"x" * 100_000
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, len(data), len(data), len(name), 0) + name.encode()
    entries = b""
    for called in (f"{name}{n}" for n in range(count)):
        sizes = (len(data), len(data), len(called))
        head = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, *sizes, 0, 0, 0, 0, 0, 0)
        entries += head + called.encode()
    body = local + data
    return body + entries + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(entries), len(body), 0)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(40 * 2**30)


# What may lie where a file should be.
THINGS: Mapping[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a sparse file of 40 GB": _sparse,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a directory": Path.mkdir,
}


def _deep_folders(top: Path) -> None:
    here = Path.cwd()
    for _ in range(300):  # deeper than a path may be long: by steps
        os.chdir(top)
        top = Path("d")
        top.mkdir()
    os.chdir(here)


def _links_in_a_circle(top: Path) -> None:
    (top / "round").symlink_to(".")
    (top / "up").symlink_to("..")


def _things(top: Path) -> None:
    for number, make in enumerate((*THINGS.values(), Path.mkdir)):
        make(top / f"thing{number}.py")
        make(top / f"thing{number}.yaml")


# What a directory may hold besides.
TREES: Mapping[str, Callable[[Path], object]] = {
    "300 directories in each other": _deep_folders,
    "a name that is no UTF-8": lambda top: (top / os.fsdecode(b"caf\xe9.py")).write_bytes(b"x = 1\n"),
    "a name of 255 bytes": lambda top: (top / ("x" * 252 + ".py")).write_bytes(b"x = 1\n"),
    "links to directories in a circle": _links_in_a_circle,
    "many files": lambda top: [(top / f"x{number}.py").touch() for number in range(300)],
    "things that are no files": _things,
}
