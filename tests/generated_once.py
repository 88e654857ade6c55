"""Projects that are generated once for all tests of a run: equal options and sources give equal projects.

Generating takes seconds, and hundreds of tests need a project. The processes that share the tests share a directory.
"""

import contextlib
import fcntl
import os
import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from extractor.pipeline import generate as pipeline
from extractor.pipeline.generate import Generated
from extractor.pipeline.index import Index
from extractor.pipeline.source import Source
from extractor.values import resources
from extractor.values.manifest import Manifest
from extractor.values.options import Options

KEPT = 12  # in memory, of each process: one holds some tens of megabytes
INDEXES = 2  # likewise: what was read of a release
FOLDER = "VEXTRACT_TESTS_GENERATED"
PROCESS = "VEXTRACT_TESTS_PROCESS"  # the one that the others are started by
_generate = pipeline.generate
_known: OrderedDict[str, Generated] = OrderedDict()
_indexes: OrderedDict[str, Index] = OrderedDict()


def generate(options: Options, source: Source, manifest: Manifest) -> Generated:
    """Return the project as `extractor.pipeline.generate` makes it, from memory or disk where it was made before."""
    said = (options, source.release, source.kind, source.sha256, manifest, str(resources.find_templates()))
    key = sha256(repr(said).encode()).hexdigest()
    if key in _known:
        _known.move_to_end(key)
    else:
        _known[key] = _from_disk(Path(os.environ[FOLDER], key), options, source, manifest)
        while len(_known) > KEPT:
            _known.popitem(last=False)
    return _known[key]


def _from_disk(file: Path, options: Options, source: Source, manifest: Manifest) -> Generated:
    with alone(file.with_suffix(".lock")):  # whoever wants the same at that time waits for it
        if file.exists():
            return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]
        made = _generate(options, source, manifest)
        part = file.with_suffix(".part")
        part.write_bytes(pickle.dumps(made))
        part.replace(file)
    return made


@contextlib.contextmanager
def alone(file: Path) -> Iterator[None]:
    """Let one process at a time go on, of those that share the tests."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _index(source: Source) -> Index:
    """Return the index of a source: of a wheel, whose digest says what it holds, the one that is there."""
    if source.kind != "wheel":
        return Index(source)
    if source.sha256 not in _indexes:
        _indexes[source.sha256] = Index(source)
        while len(_indexes) > INDEXES:
            _indexes.popitem(last=False)
    _indexes.move_to_end(source.sha256)
    return _indexes[source.sha256]


def begin() -> tempfile.TemporaryDirectory[str] | None:
    """Have every test generate through this module; returns the directory that this process made for it, if it did."""
    pipeline.generate = generate  # before tests import it
    pipeline.Index = _index  # type: ignore[assignment, misc]
    if FOLDER in os.environ:
        return None
    folder = tempfile.TemporaryDirectory(prefix="vextract-generated-")
    os.environ[FOLDER], os.environ[PROCESS] = folder.name, str(os.getpid())
    return folder
