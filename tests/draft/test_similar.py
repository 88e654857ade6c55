"""Where a definition has gone."""

import ast

from extractor.pipeline.index import Index
from extractor.usecases.draft.similar import Catalogue, choose, find_definition, find_module, score

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


def test_the_score_is_about_code_alone() -> None:
    worded = "@cached\n" + function("f", '\n    """Words."""  # more\n' + BODY.replace("= 0.0", "=  0.0"))
    for other, low, high in (
        (function("g"), 1.0, 1.0),
        (worded, 1.0, 1.0),
        (function("f", BODY.replace("limit:", "limit and value < 9:")), 0.8, 0.99),
        ("def f(path):\n    with open(path) as file:\n        return [line.strip() for line in file]", 0.0, 0.3),
    ):
        (own,), (found,) = ast.parse(function("f")).body, ast.parse(other).body
        assert isinstance(own, ast.FunctionDef)
        assert isinstance(found, ast.FunctionDef)
        assert low <= score(own, found) <= high, other


def test_a_function_is_found_where_it_went_if_that_is_clear() -> None:
    was = find_definition(index(a=function("f")), "verl.a:f")
    moved = Catalogue(index(b=function("f"), c="def f():\n    pass\n")).find("f", was)
    assert choose(moved) == "verl.b:f"
    assert str(moved[0]) == "verl.b:f (the same name, 100% of the body in common)"
    twice = Catalogue(index(b=function("f"), c=function("f"))).find("f", was)
    assert [item.score for item in twice] == [1.0, 1.0]
    assert choose(twice) is None
    assert Catalogue(index(a=function("g"))).find("f", was) == ()


def test_a_module_went_where_its_definitions_are() -> None:
    other = BODY.replace("value * weights", "value ** weights").replace("abs", "round")
    old = index(a=function("f") + function("g", other))
    new = Catalogue(index(b=function("f") + function("g", other), c="x = 1\n", d="def f(:\n"))
    assert [(item.place, item.score) for item in find_module(old, "verl.a", new)] == [("verl.b", 1.0)]
    assert find_module(old, "verl.nothing", new) == ()
