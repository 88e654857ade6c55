"""Where a definition has gone."""

from __future__ import annotations

import ast

import pytest

from extractor.pipeline.index import Index
from extractor.usecases.draft.similar import Catalogue, certain, definition_of, module_moved, runs, score

BODY = """
    total = 0.0
    for number, value in enumerate(values):
        if value > limit:
            total += value * weights[number]
        else:
            total -= value / (1.0 + abs(weights[number]))
    return total / max(len(values), 1)
"""


class Text:
    """A source made in the test."""

    def __init__(self, **modules: str) -> None:
        self.files = {f"verl/{name}.py": text.encode() for name, text in modules.items()}

    def read(self, path: str) -> str:
        return self.files[path].decode()


def index(**modules: str) -> Index:
    return Index(Text(**modules))


def function(name: str, body: str = BODY) -> str:
    return f"def {name}(values, weights, limit=0.5):{body}"


def node(text: str) -> ast.FunctionDef:
    found = ast.parse(text).body[0]
    assert isinstance(found, ast.FunctionDef)
    return found


@pytest.mark.parametrize(
    ("other", "low", "high"),
    [
        (function("g"), 1.0, 1.0),
        ("@cached\n" + function("f", '\n    """Words."""  # more\n' + BODY.replace("= 0.0", "=  0.0")), 1.0, 1.0),
        (function("f", BODY.replace("limit:", "limit and value < 9:")), 0.8, 0.99),
        ("def f(path):\n    with open(path) as file:\n        return [line.strip() for line in file]", 0.0, 0.3),
    ],
)
def test_the_score_is_about_code_alone(other: str, low: float, high: float) -> None:
    assert low <= score(runs(node(function("f"))), runs(node(other))) <= high


def test_a_function_is_found_where_it_went_and_under_its_new_name() -> None:
    old = index(a=function("f"))
    was = definition_of(old, "verl.a:f")
    moved = Catalogue(index(b=function("f"), c="def f():\n    pass\n")).suggestions("f", was)
    assert certain("f", moved) == "verl.b:f"
    assert str(moved[0]) == "verl.b:f (the same body and name)"
    renamed = Catalogue(index(a=function("g"))).suggestions("f", was)
    assert certain("f", renamed) == "verl.a:g"
    assert renamed[0].why == "the same body under another name"


def test_what_is_not_clear_is_not_taken() -> None:
    was = definition_of(index(a=function("f")), "verl.a:f")
    twice = Catalogue(index(b=function("f"), c=function("f"))).suggestions("f", was)
    assert [item.score for item in twice] == [1.0, 1.0]
    assert certain("f", twice) is None
    other = BODY.replace("limit:", "limit and value < 9:").replace("1.0 + abs", "limit * 2 - round")
    like = Catalogue(index(a=function("g", other))).suggestions("f", was)
    assert [item.place for item in like] == ["verl.a:g"]
    assert certain("f", like) is None
    method = Catalogue(index(b=f"class A:\n    {function('f', BODY.replace(chr(10), chr(10) + '    '))}"))
    assert [item.place for item in method.suggestions("f", was)] == ["verl.b:A.f"]
    assert certain("f", method.suggestions("f", was)) is None


def test_a_module_went_where_its_definitions_are() -> None:
    other = BODY.replace("value * weights", "value ** weights").replace("abs", "round")
    old = index(a=function("f") + function("g", other))
    new = Catalogue(index(b=function("f") + function("g", other), c="x = 1\n"))
    found = module_moved(old, "verl.a", new)
    assert [(item.place, item.score) for item in found] == [("verl.b", 1.0)]
    assert module_moved(old, "verl.nothing", new) == ()


def test_a_module_that_is_no_python_is_passed_over() -> None:
    assert list(Catalogue(index(a="def f(:\n", b=function("g"))).places) == ["verl.b:g"]
