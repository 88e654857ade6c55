"""What reads input from strangers, by name: each takes bytes, and ends in its own errors or in a value."""

import ast
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import yaml

from extractor.importers.python_text.segments import split
from extractor.importers.runs.bash import read_script
from extractor.pipeline.index import Index
from extractor.pipeline.merge.files import split_pieces
from extractor.pipeline.merge.pieces import Unsupported
from extractor.pipeline.rewrite import rewrite_module
from extractor.pipeline.slicer import slice_source
from extractor.pipeline.source import Source
from extractor.pipeline.source.archive import build_source, read_zip
from extractor.project import base, lock
from extractor.project.journal import archive as journal_archive
from extractor.values import readers
from extractor.values.configtree import BadOverride, flatten, parse_override, resolve
from extractor.values.configtree.compose import compose, read_mapping
from extractor.values.configtree.yaml_text import Document
from extractor.values.configtree.yaml_text import UnsupportedYaml as NoDocument
from extractor.values.errors import VextractError
from extractor.values.options import Options
from tests.hostile import inputs
from tests.lifecycle.worlds import NEW, NEW_TREE, OLD, OLD_TREE, lock_of
from tests.slicing.tiny import manifest
from tests.source import archives


@dataclass(frozen=True)
class Target:
    """One reader: the errors that it may end in, and input, good and bad, to start from."""

    read: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...]
    seeds: tuple[bytes, ...]


def sliced(data: bytes) -> str:
    """Vendor a module that holds this text; what is emitted."""
    end = b"\r" if data.endswith(b"\r") else b"\n"
    files = {"verl/__init__.py": b"", "verl/a.py": data + end + b"def f(): return x" + end}
    source = Source("1.2.3", "wheel", "0" * 64, files, "a licence")
    found = slice_source(Index(source), manifest({"algorithms": ("verl.a:f",)}), Options("proj", "1.2.3"))
    (emitted,) = (rewrite_module(module, found, "proj", ()).text for module in found.modules if module.kept)
    ast.parse(emitted)
    return emitted


def _composed(data: bytes) -> object:
    text = readers.decode(data)
    return compose(
        {"ppo_trainer.yaml": text, "a/b.yaml": text, "b.yaml": "defaults: [a: b]\n"}, "ppo_trainer.yaml"
    ).config


def _journal() -> bytes:
    names = ("main.py", ".vextract/base.zip", "vextract.lock")
    index = {
        "schema": 1,
        "title": "x",
        "changes": [{"path": name, "old": True, "new": True, "mode": 420} for name in names],
        "made": ["toy"],
        "emptied": [["toy/a", 493]],
        "conflicts": [{"path": "main.py", "beside": None}],
    }
    members = {"journal.json": json.dumps(index).encode()}
    for side, tree, options in (("old", OLD_TREE, OLD), ("new", NEW_TREE, NEW)):
        texts = (b"a", b"b", lock.dump(lock_of(tree, options)))
        members |= {f"{side}/{number}": data for number, data in enumerate(texts)}
    return inputs.archive_of(members)


_PYTHON = tuple(inputs.PYTHON.values())
_YAML, _TOML, _BASH = (
    tuple(text.encode() for text in texts.values()) for texts in (inputs.YAML, inputs.TOML, inputs.BASH)
)
_LOCK = lock_of(OLD_TREE, OLD)
_BASE = base.dump(base.collect_from_tree(OLD_TREE))
_TEXT = (OSError, VextractError)
_ZIP_ERRORS = (*readers.ZIP_ERRORS, KeyError, TypeError, VextractError)

TARGETS: Mapping[str, Target] = {
    "Python": Target(readers.parse_python, (SyntaxError,), _PYTHON),
    "Python that is vendored": Target(sliced, (VextractError,), _PYTHON),
    "Python that is merged": Target(
        lambda data: split_pieces("a.py", readers.decode(data)), (Unsupported, OSError), _PYTHON
    ),
    "Python of a fork": Target(lambda data: split(readers.decode(data)), (SyntaxError, OSError), _PYTHON),
    "YAML": Target(lambda data: flatten(resolve(read_mapping(readers.decode(data)))), (yaml.YAMLError, *_TEXT), _YAML),
    "YAML that is composed": Target(_composed, (yaml.YAMLError, *_TEXT), _YAML),
    "YAML that is edited": Target(lambda data: Document.of(readers.decode(data)), (NoDocument, OSError), _YAML),
    "TOML": Target(lambda data: readers.parse_toml(readers.decode(data)), (readers.TOMLDecodeError, OSError), _TOML),
    "a lock": Target(lock.parse, (VextractError,), (lock.dump(_LOCK), *_TOML)),
    "a base": Target(
        lambda data: base.parse(data, _LOCK), (VextractError,), (_BASE, inputs.overlapping("a", 200), b"", b"PK")
    ),
    "a journal": Target(journal_archive.parse, _ZIP_ERRORS, (_journal(), inputs.overlapping("a", 200), _BASE)),
    "a launch script": Target(lambda data: read_script(readers.decode(data), "run.sh", {}, {}), _TEXT, _BASH),
    "overrides": Target(
        lambda data: [parse_override(line) for line in readers.decode(data).splitlines()],
        (BadOverride, OSError),
        (b"trainer.x=1\n+a.b={c: [1, 'x\\'y', null, 1e-6], d: ${e}}\n~f\n++g@h='a b'\n",),
    ),
    "a wheel": Target(
        lambda data: build_source(read_zip(data, "verl.whl"), "wheel", "0" * 64, "verl.whl"),
        (VextractError,),
        (archives.wheel(), inputs.overlapping("verl/a", 200), b""),
    ),
}
_TOKENS = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b"\t", b"'", b'"', b"(", b"[", b"{", b"}", b"]", b")", b"&a ", b"*a",
    b"<<: ", b"!!int ", b": ", b"- ", b"${", b"$((", b"`", b"\\", b"#", b"=", b"99999999999999999999", b"1e999", b"../",
    b"PK\1\2", b"if ", b"; done", b"lambda: ", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"true", b"null", b".",
)  # fmt: skip


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with a few changes: some replaced, cut out, doubled, repeated, or words of the formats put in."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(found) + 1)
        end = min(len(found), at + chance.randint(1, 1 + len(found) // 8))
        kind = chance.randrange(5)
        if kind == 0 and found:
            found[min(at, len(found) - 1)] = chance.randrange(256)
        elif kind == 1:
            del found[at:end]
        elif kind == 2:
            found[at:at] = found[at:end]
        elif kind == 3:
            found[at:at] = chance.choice(_TOKENS)
        else:
            found[at:at] = chance.choice(_TOKENS) * chance.choice((2, 10, 100, 5_000))
        del found[2**20 + 1 :]
    return bytes(found)
