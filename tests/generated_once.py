"""Projects that are generated once for all tests of a run: equal options and sources give equal projects.

Generating takes seconds, most of them for rewriting modules, of which most are the same whatever a project is made
with; and hundreds of tests need a project. The processes that share the tests share a directory.
"""

import contextlib
import copy
import fcntl
import os
import pickle
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from extractor.pipeline import generate as pipeline
from extractor.pipeline import render
from extractor.pipeline.generate import Generated
from extractor.pipeline.index import Index
from extractor.pipeline.rewrite import Emitted
from extractor.pipeline.slicer import KeptModule, NotKept, Resolver, Target
from extractor.pipeline.source import Source
from extractor.usecases import kept_methods
from extractor.usecases.draft import check, fit
from extractor.values import resources
from extractor.values.manifest import Fix, Manifest
from extractor.values.options import Options
from tests.releases import EVERYTHING

KEPT = 12  # in memory, of each process
INDEXES = 4  # likewise: what was read of a release
FOLDER = "VEXTRACT_TESTS_GENERATED"
PROCESS = "VEXTRACT_TESTS_PROCESS"  # the one that the others are started by
_generate, _rewrite = pipeline.generate, pipeline.rewrite_module
_map_settings = render.map_settings_to_features
_known: OrderedDict[str, Generated] = OrderedDict()
_indexes: OrderedDict[str, Index] = OrderedDict()
_settings: dict[str, dict[str, str]] = {}


def generate(options: Options, source: Source, manifest: Manifest) -> Generated:
    """Return the project as `extractor.pipeline.generate` makes it, from memory or disk where it was made before."""
    said = (options, source.release, source.kind, source.sha256, manifest, str(resources.find_templates()))
    key = sha256(repr(said).encode()).hexdigest()
    return _remember(_known, key, lambda: _from_disk(Path(os.environ[FOLDER], key), options, source, manifest), KEPT)


def _remember(known: OrderedDict[str, Any], key: str, make: Callable[[], Any], most: int) -> Any:
    known[key] = known[key] if key in known else make()
    known.move_to_end(key)
    while len(known) > most:
        known.popitem(last=False)
    return known[key]


def _from_disk(file: Path, options: Options, source: Source, manifest: Manifest) -> Generated:
    with alone(file.with_suffix(".lock")):  # whoever wants the same at that time waits for it
        if file.exists():
            return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]
        made = _without_syntax_trees(_generate(options, source, manifest))
        _write(file, made)
    return made


def _write(file: Path, value: object) -> None:
    part = file.with_suffix(f".{os.getpid()}")
    part.write_bytes(pickle.dumps(value))
    part.replace(file)


def _without_syntax_trees(made: Generated) -> Generated:
    """Leave out what only rewriting reads, of which loading would take most of the time."""
    found = copy.copy(made.sliced)
    found.modules = tuple(replace(module, parsed=()) for module in found.modules)
    found._places = None  # type: ignore[assignment]
    return replace(made, sliced=found)


class _Noted:
    """A resolver, and what it was asked: with equal answers a module is rewritten equally."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver
        self.answers: dict[tuple[str, str, str | None], Target | str | None] = {}

    def resolve_import(self, importer: str, imported: str, name: str | None) -> Target | None:
        answer = self.answer(importer, imported, name)
        self.answers[importer, imported, name] = answer
        if isinstance(answer, str):
            raise NotKept(answer)
        return answer

    def answer(self, *question: str | None) -> Target | str | None:
        try:
            return self._resolver.resolve_import(*question)  # type: ignore[arg-type]
        except NotKept as error:
            return str(error.args[0])


def rewrite_module(module: KeptModule, resolver: Resolver, package: str, fixes: tuple[Fix, ...]) -> Emitted:
    """Rewrite a module as `extractor.pipeline.rewrite` does, or return what became of it in another project.

    That may have another name of as many letters, as imports are laid out by its width: most tests take three.
    """
    stand_in = ("qz" * len(package))[: len(package)]
    if stand_in in module.source or len(package) < 3:
        stand_in = package
    key = sha256(repr((module, stand_in, fixes)).encode()).hexdigest()
    file, noted = Path(os.environ[FOLDER], f"{key}.module"), _Noted(resolver)
    known = pickle.loads(file.read_bytes()) if file.exists() else []
    fitting = (made for answers, made in known if all(noted.answer(*asked) == said for asked, said in answers.items()))
    made = next(fitting, None)
    if made is None:
        made = _rewrite(module, noted, stand_in, fixes)
        _write(file, [*known, (noted.answers, made)])
    text, *notes = (text.replace(stand_in, package) for text in (made.text, *made.changes, *made.warnings))
    changes = len(made.changes)
    return replace(made, text=text, changes=tuple(notes[:changes]), warnings=tuple(notes[changes:]))


@contextlib.contextmanager
def alone(file: Path) -> Iterator[None]:
    """Let one process at a time go on, of those that share the tests."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def map_settings_to_features(manifest: Manifest, options: Options) -> dict[str, str]:
    """Say which features add settings that a project lacks, from memory: it renders the config of every feature."""
    plain = replace(options, methods=(), roots=(), manifest="")
    key = repr((plain, manifest.release, manifest.borrowed_from, manifest.features, manifest.algorithms))
    if key not in _settings:
        _settings[key] = _map_settings(manifest, options)
    return _settings[key]


def _index(source: Source) -> Index:
    """Return the index of a source: of a wheel, whose digest says what it holds, the one that is there."""
    if source.kind != "wheel":
        return Index(source)
    return _remember(_indexes, source.sha256, lambda: Index(source), INDEXES)


def begin() -> tempfile.TemporaryDirectory[str] | None:
    """Have every test generate through this module; returns the directory that this process made for it, if it did."""
    pipeline.generate = generate  # before tests import it
    if not EVERYTHING:  # in `make test-all` each is rewritten by itself
        pipeline.rewrite_module = rewrite_module
        render.map_settings_to_features = map_settings_to_features
    for reader in (pipeline, kept_methods, check, fit):
        reader.Index = _index  # type: ignore[attr-defined]
    if FOLDER in os.environ:
        return None
    folder = tempfile.TemporaryDirectory(prefix="vextract-generated-")
    os.environ[FOLDER], os.environ[PROCESS] = folder.name, str(os.getpid())
    return folder
