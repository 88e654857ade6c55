"""The lock and the base: stable bytes out, strict reading in."""

import io
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from extractor.project import base, lock
from extractor.values.errors import CheckFailed, UsageError
from extractor.values.options import Options
from extractor.values.tree import File, FileKind, Tree

CHANGES = ('a "b"', "c")
TREE = Tree.of(
    [
        File("toy/protocol.py", FileKind.VENDORED, b"class Protocol: ...\n", "verl/protocol.py", "a" * 64, CHANGES),
        File("LICENSE.verl", FileKind.VENDORED, b"a licence\n", "LICENSE"),
        File("main.py", FileKind.TEMPLATE, b"print()\n"),
        File("toy/custom/algorithms.py", FileKind.HOOK, b"# yours\n"),
    ]
)
OPTIONS = Options("toy", "0.6.1", "hf", "ppo", ("critic", "lora"))
LOCK = lock.Lock.of(TREE, OPTIONS, vextract="0.1.0", source_kind="wheel", source_sha256="b" * 64)


def test_round_trip() -> None:
    text = lock.dump(LOCK).decode()
    assert text.startswith("# What this project was generated from. Written by vextract: commit it, do not edit it.\n")
    assert (text.count("[[files]]"), text[-2:]) == (4, '"\n')
    assert lock.parse(lock.dump(LOCK)) == LOCK
    assert lock.dump(lock.parse(lock.dump(LOCK))) == lock.dump(LOCK)
    assert lock.parse(lock.dump(LOCK).replace(b"\n", b"\r\n")) == LOCK
    assert LOCK.file("main.py") == lock.LockedFile("main.py", FileKind.TEMPLATE, TREE.files[1].sha256)
    assert LOCK.file("nothing") is None
    assert b'\nchanges = [\n    "a \\"b\\"",\n    "c",\n]\n' in lock.dump(LOCK)
    tree = Tree.of([File('a "quoted" \u00fcber \U0001f600.txt', FileKind.TEMPLATE, b"")])
    made = lock.Lock.of(tree, OPTIONS, vextract='1.0 "x\\y"', source_kind="sdist", source_sha256="c" * 64)
    assert lock.parse(lock.dump(made)) == made


def with_digest(body: str) -> bytes:
    body = body.rpartition("\n[integrity]\n")[0]
    return f'{body}\n[integrity]\nsha256 = "{lock._compute_body_digest(body)}"\n'.encode()


def test_a_lock_of_before_has_no_changes() -> None:
    body = re.sub(r"\nchanges = \[\n.*?\n\]", "", lock.dump(LOCK).decode(), flags=re.DOTALL)
    found = lock.parse(with_digest(body.replace("schema = 2", "schema = 1")))
    assert found == replace(LOCK, files=tuple(replace(file, changes=()) for file in LOCK.files))


HINTS = {
    **dict.fromkeys(
        [("0.1.0", "0.2.0"), ("main.py", "mein.py"), ("bbbb", "bbbc"), ("# What", "# what")],
        (r"^vextract\.lock: changed by hand", "git checkout -- vextract.lock"),
    ),
    ("schema = 2", "schema = 3"): ("a newer vextract wrote it", "upgrade vextract"),
    ('engine = "hf"', '<<<<<<< HEAD\nengine = "hf"\n=======\n>>>>>>> branch'): (
        r"^vextract\.lock:12: holds a conflict of a Git merge",
        "",
    ),
}


def test_edits_by_hand_are_noticed() -> None:
    for change, (message, hint) in HINTS.items():
        with pytest.raises(UsageError, match=message) as caught:
            lock.parse(lock.dump(LOCK).decode().replace(*change, 1).encode())
        assert hint in caught.value.hint


DAMAGE = (
    ("schema = 2", 'schema = "2"', "schema", "is '2'"),
    ('vextract = "0.1.0"', 'vextract = "0.1.0"\nvextrakt = 1', "vextrakt", "unknown key"),
    ('source = "wheel"', 'source = "git"', "verl.source", "is 'git' (it must be one of wheel"),
    ('release = "0.6.1"\n', "", "verl.release", "is missing"),
    ('release = "0.6.1"', 'release = "0.6.1/../../x"', "verl.release", "a version"),
    ('source = "wheel"', 'source = "wheel"\nmanifest_of = "--help"', "verl.manifest_of", "a version"),
    ("b" * 64, "b" * 63, "verl.sha256", "no sha256"),
    ('["critic", "lora"]', '["lora", "critic"]', "options.features", "is not sorted"),
    ('kind = "hook"', 'kind = "hooks"', "files[2].kind", "is "),
    ('path = "main.py"', 'path = "../main.py"', "files[1].path", "a path of a project"),
    ('path = "main.py"', 'path = ".vextract/x"', "files[1].path", "a path of a project"),
    ('path = "main.py"', 'path = "LICENSE.verl"', "files[1].path", "twice or out of order"),
)


def test_damage_is_named() -> None:
    text = lock.dump(LOCK).decode()
    for old, new, key, problem in DAMAGE:
        assert old in text
        with pytest.raises(UsageError) as caught:
            lock.parse(with_digest(text.replace(old, new, 1)), "p/vextract.lock")
        assert caught.value.message.startswith(f"p/vextract.lock: key `{key}`"), caught.value.message
        assert problem in caught.value.message


def test_base(tmp_path: Path) -> None:
    data = base.dump(base.collect_from_tree(TREE))
    assert base.parse(data, LOCK) == {
        "LICENSE.verl": b"a licence\n",
        "main.py": b"print()\n",
        "toy/protocol.py": b"class Protocol: ...\n",
    }
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {item.date_time for item in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {item.compress_type for item in archive.infolist()} == {zipfile.ZIP_STORED}
    with pytest.raises(CheckFailed, match="is missing") as caught:
        base.read(tmp_path, LOCK)
    assert "vextract sync" in caught.value.hint


def test_a_base_that_is_not_the_locks_or_is_damaged() -> None:
    emitted = base.collect_from_tree(TREE)
    for files, problem in (
        ({"main.py": b"print(1)\n"}, "main.py is not what vextract.lock says"),
        ({"main.py": None}, "main.py is missing"),
        ({"../evil.py": b""}, "holds ../evil.py, which vextract.lock does not list"),
    ):
        changed = {path: content for path, content in {**emitted, **files}.items() if content is not None}
        with pytest.raises(CheckFailed) as caught:
            base.parse(base.dump(changed), LOCK)
        assert problem in caught.value.message
    data = base.dump(emitted)
    changed = [data[:start] for start in range(0, len(data), 7)]
    changed += [data[:at] + b"X" + data[at + 1 :] for at in (data.index(b"print()"), data.index(b"a licence"), 3)]
    for damaged in changed:
        with pytest.raises(CheckFailed):
            base.parse(damaged, LOCK)
