"""Check the imports of a project that is not written yet."""

from __future__ import annotations

import tempfile
from pathlib import Path

from extractor import __version__
from extractor.pipeline.source import Source
from extractor.project import lock
from extractor.usecases.verify import subject
from extractor.usecases.verify.closed_imports import check_imports
from extractor.values.options import Options
from extractor.values.tree import Tree


def import_problems(tree: Tree, options: Options, source: Source) -> tuple[str, ...]:
    """Find imports that lead nowhere and names that nothing binds in a project in memory: "path:line: what"."""
    locked = lock.Lock.of(tree, options, vextract=__version__, source_kind=source.kind, source_sha256=source.sha256)
    with tempfile.TemporaryDirectory(prefix="vextract-") as folder:
        root = Path(folder)
        for file in tree:
            path = root / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
        (root / lock.NAME).write_bytes(lock.dump(locked))
        check = check_imports(subject.read(root), source)
    return () if check.ok else check.details
