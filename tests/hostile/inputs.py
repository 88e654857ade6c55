"""Input that is made to do harm, or that nobody meant to write: small to say, large or endless to read.

Each is written by us. What a fuzzing run has found, and was mended, is here under a name that says what it is.
"""

import io
import os
import socket
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

DEEP = 30_000


def _chain(count: int) -> str:
    return "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x'}]" for n in range(count)) + "\n"


PYTHON: Mapping[str, bytes] = {
    "brackets": b"x = " + b"(" * DEEP + b"1" + b")" * DEEP + b"\n",
    "lists": b"x = " + b"[" * 190 + b"]" * 190 + b"\n",
    "signs": b"x = " + b"-" * DEEP + b"1\n",
    "a few hundred signs": b"x = " + b"-" * 700 + b"1\n",
    "sum": b"x = " + b"1+" * DEEP + b"1\n",
    "a sum of a thousand": b"x = " + b"1+" * 1_000 + b"1\n",
    "attributes": b"x = a" + b".b" * 5_000 + b"\n",
    "calls": b"x = a" + b"()" * 3_000 + b"\n",
    "elif": b"if a:\n    pass\n" + b"elif a:\n    pass\n" * 2_000,
    "indents": b"".join(b" " * n + b"if a:\n" for n in range(500)) + b" " * 500 + b"pass\n",
    "lambdas": b"x = " + b"lambda: " * 5_000 + b"1\n",
    "annotation": b"def f(x: '" + b"(" * 5_000 + b"'): pass\n",
    "annotation of signs": b"def f(x: '" + b"-" * 5_000 + b"x'): pass\n",
    "f-strings": b"x = " + b"f'{" * 50 + b"1" + b"}'" * 50 + b"\n",
    "number": b"x = " + b"9" * 10_000 + b"\n",
    "null": b"x = 1\0\n",
    "latin-1": b"# caf\xe9\nx = 1\n",
    "declared latin-1": b"# -*- coding: latin-1 -*-\nx = 'caf\xe9'\n",
    "declared latin-1, plain": b"# -*- coding: latin-1 -*-\nx = 'caf\xc3\xa9'\n",
    "declared nonsense": b"# -*- coding: nonsense -*-\nx = 1\n",
    "declared rot13": b"# -*- coding: rot13 -*-\nk = 1\n",
    "utf-16": "x = 1\n".encode("utf-16"),
    "bytes": bytes(range(256)) * 4,
    "long line": b"x = '" + b"y" * 10_000_000 + b"'\n",
    "nonlocal": b"def f():\n    nonlocal x\n",
    "global late": b"def f():\n    x = 1\n    global x\n",
    "twice an argument": b"def f(x, x): pass\n",
    "return": b"return 1\n",
    "await": b"await x\n",
    "star": b"*a, = *b, *c\n",
    "surrogate": b"x = '\\ud800'\n",
    "escape": b"x = '\\N{NOTHING}'\n",
    "tabs": b"if a:\n\tx = 1\n        y = 1\n",
    "nothing": b"",
    "conflict": b"<<<<<<< ours\nx = 1\n=======\nx = 2\n>>>>>>> theirs\n",
}

# Valid Python that is not written as most is.
UNUSUAL: Mapping[str, bytes] = {
    "byte order mark": b"\xef\xbb\xbfx = 1\n",
    "mark and declaration": b"\xef\xbb\xbf# -*- coding: utf-8 -*-\nx = 1\n",
    "carriage returns": b"x = 1\ry = 2\r",
    "carriage returns and line feeds": b"x = 1\r\ny = '''a\r\nb'''\r\n",
    "mixed line ends": b"x = 1\r\ny = 2\nz = 3\r",
    "form feed": b"x = 1\n\x0c\ny = 2\n",
    "form feed in a line": b"x = 'a\x0cb'\ny = 2\n",
    "separators in a string": "x = 'a\u2028b\x85c\x1cd'\ny = 2\n".encode(),
    "no line end": b"x = 1",
    "comment alone": b"# nothing",
    "semicolons": b"x = 1; y = 2; z = 3;\n",
    "backslashes": b"x = \\\n  1\n",
    "names": "größe = 1\nℌ = 2\n".encode(),
    "declared utf8": b"# vim: set fileencoding=utf8 :\nx = 1\n",
}

YAML: Mapping[str, str] = {
    "laughs": _chain(12),
    "laughs of mappings": "\n".join(
        f"a{n}: &a{n} {{{', '.join(f'k{k}: *a{n - 1}' for k in range(9)) if n else 'x: 1'}}}" for n in range(12)
    ),
    "laughs merged": "a0: &a0 {x: 1}\n"
    + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40)),
    "a cycle": "a: &a [*a]\n",
    "a cycle of mappings": "a: &a\n  b: *a\n",
    "no anchor": "a: *b\n",
    "brackets": "a: " + "[" * DEEP + "]" * DEEP + "\n",
    "open brackets": "a: " + "[" * DEEP,
    "braces": "a: " + "{a: " * 5_000 + "1" + "}" * 5_000 + "\n",
    "dashes": "- " * 10_000 + "a\n",
    "question marks": "? " * 10_000 + "a\n",
    "indents": "".join(" " * n + "a:\n" for n in range(500)),
    "python": "a: !!python/object/apply:os.system ['true']\n",
    "unknown tag": "a: !mine 1\n",
    "binary": "a: !!binary aGk=\n",
    "bad binary": "a: !!binary '='\n",
    "set": "a: !!set {b, c}\n",
    "pairs": "a: !!omap [b: 1]\n",
    "date": "a: !!timestamp 2020-01-01\n",
    "bad date": "a: !!timestamp 2020-13-45\n",
    "bad int": "a: !!int x\n",
    "bad float": "a: !!float x\n",
    "number": "a: " + "9" * 10_000 + "\n",
    "hexadecimal": "a: 0x" + "f" * 10_000 + "\n",
    "a key twice": "data: 1\ndata: 2\n",
    "a list as key": "? [a, b]\n: 1\n",
    "a mapping as key": "? {a: b}\n: 1\n",
    "keys of other types": "1: a\ntrue: b\nnull: c\n2.5: d\n",
    "documents": "a: 1\n---\nb: 2\n",
    "a list": "- a\n- b\n",
    "a word": "nothing\n",
    "tabs": "a:\n\tb: 1\n",
    "null bytes": "a: \0\n",
    "control characters": "a: \x01\x02\n",
    "a conflict": "<<<<<<< ours\na: 1\n=======\na: 2\n>>>>>>> theirs\n",
    "many keys": "".join(f"k{n}: {n}\n" for n in range(120_000)),
    "large": "a: '" + "x" * 3_000_000 + "'\n",
    "defaults in a circle": "defaults:\n  - ppo_trainer\n  - _self_\na: 1\n",
    "defaults of a number": "defaults: 5\n",
    "defaults of numbers": "defaults: [1, 2, [3]]\n",
    "sections that are none": "data: 5\nactor_rollout_ref: [a]\ntrainer: null\n",
    "sections that are none below": "data: {}\nactor_rollout_ref: {model: 5, rollout: [a]}\nalgorithm: true\n",
    "interpolations": "".join(f"a{n}: ${{a{n - 1}}}${{a{n - 1}}}\n" if n else "a0: xxxxxxxx\n" for n in range(60))
    + "data: {train_files: '${a59}'}\nactor_rollout_ref: {}\n",
    "interpolation of itself": "a: ${a}\ndata: {x: '${data}', y: '${data}', z: '${data}'}\nactor_rollout_ref: {}\n",
    "interpolation that is deep": "data: {a: '" + "${" * 2_000 + "x" + "}" * 2_000 + "'}\nactor_rollout_ref: {}\n",
}

TOML: Mapping[str, str] = {
    "arrays": "a = " + "[" * DEEP + "]" * DEEP + "\n",
    "tables": "a = " + "{a = " * 5_000 + "1" + "}" * 5_000 + "\n",
    "dots": "a" + ".a" * 400_000 + " = 1\n",
    "dots of a table": "[a" + ".a" * 5_000 + "]\n",
    "a hundred dots": "a" + ".a" * 100 + " = 1\n",
    "number": "schema = " + "9" * 10_000 + "\n",
    "hexadecimal": "schema = 0x" + "f" * 10_000 + "\n",
    "date": "schema = 2020-01-01\nvextract = 2020-01-01T00:00:00Z\n",
    "bad date": "schema = 2020-13-45\n",
    "a key twice": "schema = 1\nschema = 2\n",
    "other types": "schema = true\nverl = 5\noptions = [1]\nfiles = 'x'\nintegrity = 1.5\n",
    "large": "a = '" + "x" * 3_000_000 + "'\n",
    "null bytes": "a = '\0'\n",
    "a word": "nothing",
    "nothing": "",
    "a conflict": "<<<<<<< ours\na = 1\n=======\na = 2\n>>>>>>> theirs\n",
    "nan": "schema = nan\nvextract = inf\n",
    "files of other types": "schema = 1\nvextract = '1'\nfiles = [1, 2]\n[verl]\n[options]\n[integrity]\n",
}

_HUGE = "9" * 20
_RUN = "\npython -m verl.trainer.main_ppo trainer.x=$A\n"
BASH: Mapping[str, str] = {
    "doubled": "A=xxxxxxxx\n" + 'A="${A}${A}"\n' * 60 + _RUN,
    "doubled by a loop": "A=x\nfor i in {1..64}; do A=$A$A; done" + _RUN,
    "doubled list": 'A=(a b)\nfor i in {1..64}; do A=("${A[@]}" "${A[@]}"); done\n' + _RUN,
    "doubled by another": "A=x\n" + "B=$A$A\nA=$B$B\n" * 40 + _RUN,
    "replaced": "A=aaaaaaaaaa\n" + 'A="${A//a/$A}"\n' * 20 + _RUN,
    "inserted everywhere": "A=aaaaaaaaaa\n" + 'A="${A///$A}"\n' * 20 + _RUN,
    "words": "A=(" + "a " * 700_000 + ")" + _RUN,
    "fewer words": "A=(" + "a " * 100_000 + ")\n" + _RUN,
    "words of a command": "echo " + "a " * 100_000 + _RUN,
    "assignments of a command": "a=1 " * 60_000 + "echo b" + _RUN,
    "arithmetic": "A=$((" + "(" * 10_000 + "1" + ")" * 10_000 + "))" + _RUN,
    "arithmetic of signs": "A=$((" + "-" * 10_000 + "1))" + _RUN,
    "arithmetic in arithmetic": "A=" + "$((1+" * 300 + "1" + "))" * 300 + _RUN,
    "squares": "A=9\n" + "A=$((A*A))\n" * 60 + _RUN,
    "powers": "A=$((2**64**64**64))\nA=$((1<<64<<64<<64))\nA=$((9**64))\n" * 20 + _RUN,
    "questions": "A=$((1" + "?1" * 5_000 + ":1" * 5_000 + "))" + _RUN,
    "a variable that is itself": "A=A\nB=$((A+A))" + _RUN,
    "variables of variables": "a0=1\n"
    + "".join(f"a{n}=a{n - 1}+a{n - 1}\n" for n in range(1, 60))
    + "A=$((a59))"
    + _RUN,
    "braces": "echo {1..99999999999999999999}{1..9}{1..9}{1..9}{1..9}{1..9}" + _RUN,
    "braces of letters": "A=({a,b}" + "{a,b}" * 60 + ")" + _RUN,
    "loops": "for a in {1..64}; do " * 6 + "A=x; " + "done; " * 6 + _RUN,
    "while": "while true; do while true; do while true; do A=x; done; done; done" + _RUN,
    "functions": "".join(f"f{n}() {{ f{n - 1}; f{n - 1}; }}\n" if n else "f0() { A=x; }\n" for n in range(40))
    + "f39"
    + _RUN,
    "a function of itself": "f() { f; f; f; }\nf" + _RUN,
    "blocks": "{ " * 5_000 + "A=1; " + "}; " * 5_000 + _RUN,
    "subshells": "( " * 5_000 + "A=1" + " )" * 5_000 + _RUN,
    "ifs": "if true; then " * 3_000 + "A=1; " + "fi; " * 3_000 + _RUN,
    "elif": "if $X; then A=0\n" + "".join(f"elif $X{n}; then A={n}\n" for n in range(4_000)) + "fi\n" + _RUN,
    "unknown ifs": 'if [ "$X" -gt "$Y" ]; then ' * 90 + "A=1; " + "fi; " * 90 + _RUN,
    "case": "case x in " + "|".join(["a"] * 60_000) + ") A=1;; esac" + _RUN,
    "substitutions": "A=" + "$(echo " * 2_000 + "x" + ")" * 2_000 + _RUN,
    "defaults": "A=" + "${X:-" * 2_000 + "x" + "}" * 2_000 + _RUN,
    "quotes": 'A="' + '$(echo "' * 1_000 + "x" + '")' * 1_000 + '"' + _RUN,
    "a pattern": f"A={'a' * 40}\n[[ $A =~ (a+)+$b ]] && A=1\n[[ $A =~ ^(a|a)*b ]] && A=2\n" + _RUN,
    "a pattern without groups": f"A={'a' * 3_000}\n[[ $A =~ a*a*a*a*a*a*a*b ]] && A=1\n" + _RUN,
    "a glob": f"A={'a' * 3_000}\n[[ $A == {'*a' * 30}b ]] && A=1\n" + _RUN,
    "trimmed": f"A={'a' * 100_000}\nB=${{A%%*b*c*d}}\n" * 2 + _RUN,
    "a directory that is long": "A=$(cd " + "dirname && " * 10_000 + "x)" + _RUN,
    "positions": f"A=${_HUGE}\nB=${{{_HUGE}}}\nshift {_HUGE}\nC=${{A:{_HUGE}}}\n" + _RUN,
    "digits that are none": "A=(x)\nA[²]=y\nshift ²\nB=${A[²]}\n" + _RUN,
    "a number of many digits": "A=" + "9" * 10_000 + "\nB=$((A+1))\n[ $A -gt 1 ]" + _RUN.replace("$A", "9" * 10_000),
    "overrides": "python -m verl.trainer.main_ppo " + " ".join(f"+a.b{n}=1" for n in range(20_000)),
    "unknown overrides": "python -m verl.trainer.main_ppo " + " ".join(f"trainer.nothing{n}=1" for n in range(900)),
    "an override that is deep": "python -m verl.trainer.main_ppo trainer.x=" + "[" * 10_000 + "]" * 10_000,
    "an override of a deep key": "python -m verl.trainer.main_ppo +" + "a." * 10_000 + "b=1",
    "an override of backslashes": "python -m verl.trainer.main_ppo 'trainer.x=\"" + "\\" * 100_000 + "x\"'",
    "overrides of sections": "python -m verl.trainer.main_ppo data=5 trainer=[1] actor_rollout_ref=x critic=null",
    "overrides that repeat": "python -m verl.trainer.main_ppo "
    + " ".join(f"+a{n}='${{a{n - 1}}}${{a{n - 1}}}'" for n in range(1, 60)),
    "commands in commands": "bash -c " + " ".join(["'bash -c main_ppo x'"] * 5_000),
    "null bytes": "A=\0\0" + _RUN,
    "nothing": "\n\n",
    "no script": "\x01\x02\x03",
    "carriage returns": "A=1\r\npython -m verl.trainer.main_ppo trainer.total_epochs=$A\r\n",
    "long line": "A='" + "x" * 10_000_000 + "'" + _RUN,
    "here-documents": "cat <<A\n" * 5_000 + _RUN,
    "backticks": "A=" + "`echo " * 500 + "x" + "`" * 500 + _RUN,
    "unclosed": "A=\"${X:-$(echo '((" + _RUN,
    "the script itself": "python -m verl.trainer.main_ppo --config-name=run --config-path=.",
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
    import struct

    data = b"x" * 100_000
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 0, 0, len(data), len(data), len(name), 0) + name.encode()
    entries = b"".join(
        struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, len(data), len(data), len(f"{name}{n}"), 0, 0, 0, 0, 0, 0
        )
        + f"{name}{n}".encode()
        for n in range(count)
    )
    body = local + data
    return body + entries + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(entries), len(body), 0)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path may have 108 bytes only
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(40 * 2**30)


def _secret(path: Path) -> None:
    path.mkdir()
    path.rmdir()
    path.write_bytes(b"x")
    path.chmod(0)


# What may lie where a file should be.
THINGS: Mapping[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a sparse file of 40 GB": _sparse,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a directory": Path.mkdir,
    "a file without permissions": _secret,
}


def _deep_folders(top: Path) -> None:
    # Deeper than a path may be long: by steps.
    here = Path.cwd()
    os.chdir(top)
    try:
        for _ in range(300):
            Path("d").mkdir()
            os.chdir("d")
        Path("x.py").write_text("x = 1\n")
    finally:
        os.chdir(here)


def _folder_in_a_circle(top: Path) -> None:
    (top / "round").symlink_to(".")
    (top / "up").symlink_to("..")


def _many_files(top: Path) -> None:
    for number in range(300):
        (top / f"x{number}.py").touch()


def _folder_named_as_a_file(top: Path) -> None:
    (top / "x.py").mkdir()
    (top / "y.yaml").mkdir()


def _things(top: Path) -> None:
    for number, (_, make) in enumerate(sorted(THINGS.items())):
        make(top / f"thing{number}.py")
        make(top / f"thing{number}.yaml")


# What a directory may hold besides.
TREES: Mapping[str, Callable[[Path], object]] = {
    "300 directories in each other": _deep_folders,
    "a name that is no UTF-8": lambda top: (top / os.fsdecode(b"caf\xe9.py")).write_bytes(b"x = 1\n"),
    "a name of 255 bytes": lambda top: (top / ("x" * 252 + ".py")).write_bytes(b"x = 1\n"),
    "a name with a line feed": lambda top: (top / "a\nb.py").write_bytes(b"x = 1\n"),
    "links to directories in a circle": _folder_in_a_circle,
    "many files": _many_files,
    "directories named as files": _folder_named_as_a_file,
    "things that are no files": _things,
}
