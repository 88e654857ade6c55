"""Methods are kept or dropped one by one: a case for each rule of docs/slicing.md."""

from textwrap import dedent
from types import SimpleNamespace

import pytest

from extractor.pipeline.render import method_names
from extractor.values import releases
from extractor.values.options import Options
from tests.slicing.tiny import kept, manifest, slice_files


def dropped(code: str, *, templates: str = "", methods: tuple[str, ...] = (), whole: tuple[str, ...] = ()) -> list[str]:
    """The methods that go, "Class.method", where `start` in one module is the root."""
    found = slice_files(
        {"verl/a.py": dedent(code)},
        manifest({"part": ("verl.a:start",)}, whole=whole),
        templates=templates,
        methods=methods,
    )
    return [f"{holder.partition(':')[2]}.{name}" for holder, names in found.dropped.items() for name in names]


ENGINE = """
def build(): ...
def helper(): ...
class Engine:
    limit = 3
    def __init__(self):
        self.ready = True
    def run(self):
        return self._step()
    def _step(self):
        return helper()
    def initialize(self):
        return build()
    def _only_for_initialize(self): ...
def start(engine: Engine):
    {use}
"""


# What uses the engine, and what of it goes.
NEITHER = ["run", "_step", "_only_for_initialize"]
USES = {
    "return engine": ["run", "_step", "initialize", "_only_for_initialize"],
    "return engine.run()": ["initialize", "_only_for_initialize"],
    "return engine.run": ["initialize", "_only_for_initialize"],
    "return getattr(engine, 'run')()": ["initialize", "_only_for_initialize"],
    "return call('engine.run')": ["initialize", "_only_for_initialize"],
    "return call(run=1)": ["initialize", "_only_for_initialize"],
    "return getattr(engine, f'init{kind}')()": NEITHER,
    "return getattr(engine, 'initial' + kind)()": NEITHER,
    "return getattr(engine, 'init%s' % kind)()": NEITHER,
    "'''Says run and engine.run.'''": ["run", "_step", "initialize", "_only_for_initialize"],
}


def test_a_method_stays_where_its_name_is_used() -> None:
    for use, gone in USES.items():
        assert dropped(ENGINE.replace("{use}", use)) == [f"Engine.{name}" for name in gone], use


def test_what_only_a_dropped_method_reaches_goes_with_it_and_chains_lead_through_methods() -> None:
    files = {"verl/a.py": ENGINE.replace("{use}", "engine.run()")}
    found = slice_files(files, manifest({"part": ("verl.a:start",)}))
    assert kept(found)["a.py"] == ["def helper(): ...", "class Engine:", "def start(engine: Engine):"]
    chain = ["verl.a:helper"]
    while chain[-1] in found.edges:
        chain.append(found.edges[chain[-1]].origin)
    assert chain == ["verl.a:helper", "verl.a:Engine._step", "verl.a:Engine.run", "verl.a:start", "role part"]


def test_what_templates_and_the_owner_use_and_what_the_manifest_names_stays() -> None:
    unused, used = (ENGINE.replace("{use}", use) for use in ("return engine", "return engine.run()"))
    assert dropped(unused, templates="engine.initialize()\n") == [f"Engine.{name}" for name in NEITHER]
    assert dropped(used, methods=("verl.a:Engine.initialize",)) == ["Engine._only_for_initialize"]
    assert dropped(unused, whole=("verl.a:Eng*",)) == []


TWO = """
class First:
    def go(self):
        return self.stop()
    def stop(self): ...
class Second:
    def stop(self): ...
def start(first: First, second: Second):
    return first.go()
"""


def test_what_a_method_calls_on_itself_is_not_that_of_a_stranger() -> None:
    """It may be where `self` is bound again."""
    assert dropped(TWO) == ["Second.stop"]
    for bound in ("self = other", "work(lambda self: self.stop())"):
        assert dropped(TWO.replace("return self.stop()", f"{bound}; self.stop()")) == [], bound


FAMILY = """
from abc import ABC, abstractmethod
class Base(ABC):
    def go(self):
        return self.step()
    @abstractmethod
    def step(self): ...
    @abstractmethod
    def never(self): ...
class Mixin:
    def step(self):
        return super().above()
    def above(self): ...
class Child(Mixin, Base):
    def step(self):
        return 1
    def never(self): ...
class Other(Base):
    def step(self): ...
    def above(self): ...
def start(kind):
    return (Child, Other)[kind]().go()
"""


def test_above_and_below_a_class_is_where_self_may_be() -> None:
    """An abstract method stays or goes with all that implement it; `super()` leads to what stands beside."""
    assert dropped(FAMILY) == ["Base.never", "Child.never", "Other.above"]


OUTSIDE = """
from {module} import {name}
class Mine({name}):
    def forward(self): ...
    def state_dict(self): ...
    def __len__(self): ...
def start():
    return Mine()
"""


def test_what_a_class_outside_may_call_stays() -> None:
    for module, name, gone in (
        ("torch.nn", "Module", []),
        ("torch.utils.data", "Dataset", ["Mine.forward"]),
        ("abc", "ABC", ["Mine.forward"]),
    ):
        assert dropped(OUTSIDE.format(module=module, name=name)) == gone, name


def test_a_name_of_another_package_is_no_use_of_a_method() -> None:
    for use, gone in (
        ("return torch.x.run(path.run, engine)", True),
        ("return torch.x(engine).run()", False),
        ("torch = engine; torch.run()", False),
    ):
        code = "import torch\nfrom os import path\n" + ENGINE.replace("{use}", use)
        assert ("Engine.run" in dropped(code)) == gone, use


DECORATED = """
import functools, elsewhere
TABLE = {}
def register(name):
    def store(function):
        TABLE[name] = function
        return function
    return store
def timed(function):
    return function
class Engine:
    @DECORATOR
    def run(self): ...
    @property
    def size(self): ...
    @size.setter
    def size(self, value): ...
def start(engine: Engine):
    return TABLE
"""


def test_a_method_that_is_registered_stays() -> None:
    """A property stays with its setter where it is read."""
    for decorator in ("register('x')", "elsewhere.validator"):
        assert "Engine.run" not in dropped(DECORATED.replace("DECORATOR", decorator)), decorator
    for decorator in ("timed", "staticmethod", "functools.cache"):
        assert dropped(DECORATED.replace("DECORATOR", decorator)) == ["Engine.run", "Engine.size"], decorator
    code = DECORATED.replace("DECORATOR", "timed")
    assert dropped(code.replace("return TABLE", "return engine.size")) == ["Engine.run"]


def test_names_in_the_body_of_a_class_are_those_of_its_methods() -> None:
    code = """
    class Engine:
        def _get(self): ...
        size = property(_get)
        def _wrap(function): return function
        @_wrap
        def run(self): ...
    def start(engine: Engine):
        return engine.run()
    """
    assert dropped(code) == []


# By which names the templates may reach methods of upstream's classes.

CODE = 'TABLE = {"begin": 1}'
TEST = """
def test_rows(monkeypatch):
    assert rows("new", path="other") == ["text"]
    monkeypatch.setattr(engine, "started", True)
    getattr(engine, "stop")()
    engine.wait(timeout=3)
"""


def test_strings_are_names_in_code_and_where_a_test_takes_them_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"pkg/table.py": CODE, "tests/test_rows.py": TEST}
    templates = {path: [SimpleNamespace(text=text)] for path, text in texts.items()}
    monkeypatch.setattr(method_names, "map_files", lambda *_: templates)
    options = Options("pkg", releases.find_default(), "hf", "grpo")
    found = method_names.collect_method_names(releases.load(options.verl), options).any
    assert {"started", "stop", "wait", "timeout", "begin"} <= found
    assert not {"new", "other", "text"} & found
