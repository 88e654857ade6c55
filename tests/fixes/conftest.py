"""A test that takes `case` runs once for every named fix that names it.

`fixed` is a package that has the fix, `broken` one that lacks it; PART, in the module of the test, says what it holds:
TRAINING where there is none.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixes.support import TRAINING, Case, Part, Vendored, all_cases, vendor
from tests.releases import NEWEST

Vendor = Callable[..., Vendored]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        path = Path(metafunc.definition.path).relative_to(metafunc.config.rootpath).as_posix()
        name = f"{path}::{metafunc.function.__name__}"
        cases = [case for case in all_cases() if case.fix.test == name]
        # In each run: the newest release, and the first one that has the fix.
        first = {case.fix.id: case.release for case in reversed(cases)}
        ordinary = {NEWEST[-1], *first.values()}
        marks = [() if case.release in ordinary else pytest.mark.thorough for case in cases]
        marked = [pytest.param(case, marks=mark) for case, mark in zip(cases, marks, strict=True)]
        metafunc.parametrize("case", marked, ids=str)


@pytest.fixture(scope="session")
def vendored(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vendor]:
    """Makes packages, each once."""
    folder = tmp_path_factory.mktemp("vendored")
    made: dict[tuple[str, Part, str | None], Vendored] = {}

    def make(release: str, part: Part, without: str | None = None) -> Vendored:
        key = (release, part, without)
        if key not in made:
            made[key] = vendor(release, part, without, f"vendored_{len(made)}", folder)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield make


@pytest.fixture
def fixed(case: Case, vendored: Vendor, request: pytest.FixtureRequest, _on_a_cpu: None) -> Vendored:
    """The package as every project gets it."""
    return vendored(case.release, getattr(request.module, "PART", TRAINING))


@pytest.fixture
def broken(case: Case, vendored: Vendor, request: pytest.FixtureRequest, _on_a_cpu: None) -> Vendored:
    """The same package without the fix."""
    return vendored(case.release, getattr(request.module, "PART", TRAINING), case.fix.id)


@pytest.fixture
def _on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fixes are about CPUs, so a GPU must not be seen; upstream looks for one when it is imported."""
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def process_group() -> Iterator[None]:
    """A process group of one, for one test: upstream's actor asks for its rank."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
