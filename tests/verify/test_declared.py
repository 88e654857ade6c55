"""Defaults and constants that both sides declare: which names these are, and what is told of them."""

import dataclasses
import functools
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from extractor.pipeline.source import Source
from extractor.usecases.verify import project_files
from extractor.usecases.verify.parity import find_declared_by_both
from tests.verify.projects import small

OURS = """
LIMIT = 3
def kept(a, b=2): ...
def of_the_owner(c=4): ...
class Config:
    rate: float = 0.5
    more: int
    def check(self, strict=True): ...
"""


def test_what_an_owner_adds_is_not_compared(tmp_path: Path) -> None:
    project = small(tmp_path / "project", {"toy/core.py": OURS, "toy/own.py": "def f(a=1): ..."})
    theirs = OURS.replace("def of_the_owner(c=4): ...", "def gone(c=4): ...").encode()
    source = Source("0.6.1", "wheel", "0" * 64, {"verl/core.py": theirs}, "")
    assert find_declared_by_both(project_files.read_project(project), source) == {
        "verl.core": ["Config", "Config.check", "Config.rate", "LIMIT", "kept"]
    }


class Kind(Enum):
    ONE = "one"


def _logged(function: Any) -> Any:
    return lambda *args, **kwargs: function(*args, **kwargs)


@dataclasses.dataclass
class Config:
    _mutable_fields = {"rate", "of another class"}  # noqa: RUF012
    rate: float = 0.5
    names: list[str] = dataclasses.field(default_factory=lambda: ["a"])

    @_logged
    def check(self, strict: bool = True, kind: Kind = Kind.ONE) -> None: ...


def test_defaults_are_told_of_fields_and_of_what_a_decorator_hides() -> None:
    told = pytest.importorskip("extractor.usecases.verify.driver.declared").describe
    module = type("module", (), {"Config": Config, "TABLE": {"a": 1}, "REGISTRY": {"a": Config}, "EMPTY": {}})
    assert told(module, "Config") == ({"rate": 0.5, "names": ["a"]}, ["rate"])
    assert told(module, "Config.check") == [("strict", True), ("kind", ["ONE", "one"])]
    assert told(module, "TABLE") == {"'a'": 1}
    assert told(module, "REGISTRY") == told(module, "EMPTY") == "dict"
    assert told(module, "Config.nothing") is None
    assert told(type("other", (), {"f": functools.partial(print, end="")}), "f") is not None
