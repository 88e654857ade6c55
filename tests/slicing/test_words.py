"""By which names the templates may reach methods of upstream's classes."""

from types import SimpleNamespace

import pytest

from extractor.pipeline.render import method_names
from extractor.values import releases
from extractor.values.options import Options

CODE = """
TABLE = {"begin": 1}
"""
TEST = """
def test_rows(monkeypatch):
    assert rows("new", path="other") == ["text"]
    monkeypatch.setattr(engine, "started", True)
    getattr(engine, "stop")()
    engine.wait(timeout=3)
"""


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> method_names.MemberNames:
    texts = {"pkg/table.py": CODE, "tests/test_rows.py": TEST}
    templates = {path: [SimpleNamespace(text=text)] for path, text in texts.items()}
    monkeypatch.setattr(method_names, "map_files", lambda *_: templates)
    release = releases.find_default()
    return method_names.collect_method_names(releases.load(release), Options("pkg", release, "hf", "grpo"))


def test_a_string_of_a_test_is_a_name_where_it_is_taken_for_one(found: method_names.MemberNames) -> None:
    assert {"started", "stop", "wait", "timeout"} <= found.any
    assert not {"new", "other", "text"} & found.any


def test_any_string_of_code_may_be_a_name(found: method_names.MemberNames) -> None:
    assert "begin" in found.any
