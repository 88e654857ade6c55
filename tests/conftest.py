"""Fixtures that several tests share. verl comes from the package index, through the same code as users get it."""

import os
import re
import signal
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from extractor.pipeline.source import Source
from extractor.values.options import Options
from tests import generated_once
from tests.project.support import Configuration, Made, Maker, make
from tests.releases import NEWEST, source_of

_GENERATED = generated_once.begin()

# How long an example takes says how busy the machine is, and nothing else.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# As in the Makefile, however pytest was started: the models are tiny, and torch reads this when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The hub's client reads this when it is imported, and asks five times, for half a minute, where there is no network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# A shell's background has SIGINT ignored, and whatever is started from there inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What leads to verl, for a test that has not asked for it: an empty cache, and an index that nobody serves.
_WITHOUT_VERL = {
    "VEXTRACT_CACHE_DIR": "/nonexistent/cache",
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_FIND_LINKS": "",
    "PIP_RETRIES": "0",
}


# To import these takes seconds: all tests in a module that does it are slow.
_HEAVY = re.compile(
    r"""^(?:import |from |pytest\.importorskip\(")(?:torch|transformers|tensordict|datasets|pandas|pyarrow|verl)\b""",
    re.MULTILINE,
)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many processes share the tests: these wait a third of their time, for servers, disks and processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + cores // 2


_OURS = re.compile(r"^from (tests(?:\.\w+)+) import", re.MULTILINE)


@cache
def _is_heavy(path: Path) -> bool:
    """Return whether a module of tests imports what takes seconds, or takes something from one that does."""
    if not path.name.startswith("test_"):
        return False
    text = path.read_text(encoding="utf-8")
    others = (Path(__file__).parents[1] / f"{name.replace('.', '/')}.py" for name in _OURS.findall(text))
    texts = (text, *(file.read_text(encoding="utf-8") for file in others if file.is_file()))
    return any(_HEAVY.search(each) for each in texts)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out of the fast loop what it would import and run nothing of."""
    return True if "not slow" in config.option.markexpr and _is_heavy(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what reads verl, which shows in its fixtures, as `network`, and what imports torch as `slow`.

    Files with slow tests come first, then those that read verl: where several processes share the files, none begins
    with a long one at the end. The walks of pages come before all of them.
    """
    for item in items:
        if "verl" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.network)
        if _is_heavy(item.path):
            item.add_marker(pytest.mark.slow)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    reading = {item.path for item in items if item.get_closest_marker("network")}
    items.sort(key=lambda item: (item.path.name != "test_pages.py", item.path not in slow, item.path not in reading))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Keep verl from a test of the fast loop: one that lacks its mark fails wherever and in whatever order it runs."""
    if any(item.get_closest_marker(name) for name in ("network", "slow", "thorough")):
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _WITHOUT_VERL.items():
            patch.setenv(name, value)
        patch.setattr("tests.releases.reads_verl", False)
        return (yield)


@pytest.fixture(scope="session")
def verl() -> None:
    """What a test asks for that reads verl's source, however it comes by it; the tests of the fast loop do not."""


@pytest.fixture(scope="session")
def made(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Makes projects, each once for all tests. They are shared: look, do not touch."""
    known: dict[Configuration, Made] = {}

    def maker(configuration: Configuration) -> Made:
        if configuration not in known:
            root = tmp_path_factory.mktemp("made") / str(configuration)
            known[configuration] = make(configuration, root)
        return known[configuration]

    return maker


@pytest.fixture(scope="session")
def newest_verl(verl: None) -> Source:
    """The pinned wheel of the newest release."""
    return source_of(NEWEST[-1])


@pytest.fixture(scope="session")
def verl_0_6_1(verl: None) -> Source:
    return source_of("0.6.1")


@pytest.fixture(scope="session")
def verl_0_5_0(verl: None) -> Source:
    return source_of("0.5.0")


@pytest.fixture(autouse=True)
def _plain_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test sees printed does not depend on the terminal that it runs in."""
    for name in ("VEXTRACT_DEBUG", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, with nothing in it."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("VEXTRACT_CACHE_DIR", str(cache))
    return cache


@pytest.fixture(scope="session")
def options() -> Options:
    """The options behind most tests' projects."""
    return Options(package="toy", verl="0.6.1")
