"""Which releases of verl a test runs with, and their sources.

The newest one is always among them. The others take part in what is quick; what takes minutes runs with them only in
`make test-all`.
"""

import os
from functools import cache
from typing import Any

import pytest

from extractor.pipeline.source import Source, open_source
from extractor.values import releases

ALL = releases.list_supported()
NEWEST = ALL[-2:]
EVERYTHING = os.environ.get("VEXTRACT_TEST_RELEASES") == "all"
# Before these the actor and the critic are upstream's DataParallelPPOActor and DataParallelPPOCritic, and its rollout
# engines can be held in the process; each of the two is the last of its kind.
LAST_WITH_DP_ACTOR = "0.7.1"
LAST_WITH_ENGINES_IN_PROCESS = "0.6.1"
# For what each of the two kinds does in another way, and takes long.
OF_BOTH_KINDS = [NEWEST[-1], pytest.param(LAST_WITH_ENGINES_IN_PROCESS, marks=pytest.mark.thorough)]


# False while a test runs that has not asked for the fixture `verl`.
reads_verl = True


def source_of(release: str) -> Source:
    """The pinned wheel of a release, opened once."""
    if not reads_verl:
        pytest.fail("this test reads verl: it must ask for the fixture `verl`, or for one that does", pytrace=True)
    return _source_of(release)


@cache
def _source_of(release: str) -> Source:
    return open_source(releases.load(release).pin)


def newest_release(*further: str, engine: str = "hf") -> list[Any]:
    """Parameters: the newest release and `further` in each run, the others in `make test-all`."""
    return _parameters({NEWEST[-1], *further}, engine)


def _parameters(ordinary: set[str], engine: str = "hf") -> list[Any]:
    return [
        pytest.param(release, marks=() if release in ordinary else pytest.mark.thorough)
        for release in ALL
        if engine in _engines(release)
    ]


@cache
def _engines(release: str) -> tuple[str, ...]:
    return tuple(releases.load(release).engines)
