"""What a module's statements bind, name and do."""

import pytest

from extractor.pipeline.index import Index, Module
from extractor.values.errors import SourceError
from extractor.values.modules import name_module
from tests.slicing.tiny import TinySource


def module(text: str, path: str = "verl/pkg/mod.py") -> Module:
    return Index(TinySource({path: text}))[name_module(path)]


def test_names_that_a_statement_uses() -> None:
    # A local variable does not name the symbol of the module that it shadows.
    found = module("scale = 2\nshift = 1\ndef f(scale):\n    return scale + shift\n")
    assert list(found.uses(2).names) == ["shift"]
    found = module("import verl.ops as F\ndef f(x):\n    return F.mean(F.inner.total(x), F)\n")
    assert found.uses(1).names == {"F": frozenset({("mean",), ("inner", "total"), ()})}
    found = module("def f(x: 'Batch', y: list['Other.Inner']) -> 'Result | None': ...\n")
    assert {"Batch", "Other", "Result"} <= set(found.uses(0).names)
    found = module("def f():\n    from .sub import g\n    return g()\n")
    (lazy,) = found.uses(0).imports
    assert (lazy.module, lazy.name, lazy.line) == ("verl.pkg.sub", "g", 2)
    # Statements that share a line are kept apart.
    found = module("a = first(); b = second()\n")
    assert [list(found.uses(number).names) for number in (0, 1)] == [["first"], ["second"]]


def test_relative_imports_become_absolute() -> None:
    for path, statement, expected in (
        ("verl/pkg/mod.py", "from . import x", "verl.pkg"),
        ("verl/pkg/mod.py", "from .. import x", "verl"),
        ("verl/pkg/mod.py", "from ..other.deep import x", "verl.other.deep"),
        ("verl/pkg/__init__.py", "from . import x", "verl.pkg"),
        ("verl/pkg/__init__.py", "from .mod import x", "verl.pkg.mod"),
        ("verl/pkg/__init__.py", "from ..other import x", "verl.other"),
    ):
        assert module(statement, path).imports["x"].module == expected, (path, statement)


def test_an_effect_on_a_local_name_is_told_from_other_effects() -> None:
    found = module("import os\nlog = make()\nlog.setLevel(3)\nos.environ['A'] = 'b'\nhook()\n'text'\n")
    effects = [(False, None), (False, None), (True, "log"), (True, "os"), (True, None), (False, None)]
    assert [(item.effect, item.effect_on) for item in found.statements] == effects
    # And a name that is imported in two ways is that of the block.
    found = module("if fast():\n    from a import f, g\nelse:\n    from b import f\n    from a import g\n")
    assert found.statements[0].binds == ("f",), "a name that is imported in two ways is that of the block"
    assert not module("if __name__ == '__main__':\n    run()\n").statements[0].effect


def test_decorators_that_fill_a_registry_are_recognised() -> None:
    found = module(
        """
TABLE = {}
def register(name):
    def wrap(function):
        TABLE[name] = function
        return function
    return wrap
class Registry:
    _items = {}
    @classmethod
    def add(cls, name):
        def wrap(function):
            cls._items[name] = function
            return function
        return wrap
def cache(function):
    local = {}
    local[1] = function
    return function
"""
    )
    assert found.registering == {"register": frozenset({"TABLE"}), "Registry": frozenset({"Registry._items"})}


def test_source_that_is_no_python_is_an_error_with_file_and_line() -> None:
    with pytest.raises(SourceError, match=r"verl/pkg/mod\.py:2"):
        _ = module("x = 1\ndef broken(:\n").statements
