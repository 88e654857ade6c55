"""Projects with a name and features of their own."""

from __future__ import annotations

from pathlib import Path

from extractor import __version__, apply, base, lock, releases
from extractor.generate import complete, generate
from extractor.options import Options
from extractor.plan import plan_new
from extractor.source import Source


def write_project(
    source: Source, package: str, root: Path, *, engine: str = "hf", features: tuple[str, ...] = ()
) -> Path:
    """A project with GRPO, in a directory of its own."""
    manifest = releases.load(source.release)
    options = complete(Options(package, source.release, engine, "grpo", features), manifest)
    tree = generate(options, source, manifest).tree
    locked = lock.Lock.of(tree, options, vextract=__version__, source_kind=source.kind, source_sha256=source.sha256)
    apply.create(root, plan_new(tree), lock_data=lock.dump(locked), base_data=base.dump(base.of_tree(tree)))
    return root
