"""A project of verl 0.6.1 on disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from extractor.options import Options
from extractor.source import Source


@pytest.fixture(scope="session")
def _written(tmp_path_factory: pytest.TempPathFactory, verl_0_6_1: Source) -> Path:
    from extractor import __version__, apply, base, lock, releases
    from extractor.generate import generate
    from extractor.plan import plan_new

    options = Options("toy", "0.6.1")
    tree = generate(options, verl_0_6_1, releases.load("0.6.1")).tree
    locked = lock.Lock.of(
        tree, options, vextract=__version__, source_kind=verl_0_6_1.kind, source_sha256=verl_0_6_1.sha256
    )
    target = tmp_path_factory.mktemp("graph") / "toy"
    apply.create(target, plan_new(tree), lock_data=lock.dump(locked), base_data=base.dump(base.of_tree(tree)))
    return target


@pytest.fixture
def project(_written: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(_written, tmp_path / "toy"))
