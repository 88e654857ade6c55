"""Which symbols a slice keeps, and why."""

import pytest

from extractor.pipeline.index import Index, Module
from extractor.pipeline.slicer import NotKept, Target
from extractor.values.errors import SourceError, UsageError
from extractor.values.manifest import Feature, Fix, Replacement, Role
from extractor.values.modules import name_module
from tests.slicing.tiny import TinySource, kept, manifest, slice_files


def test_only_what_the_root_reaches_is_kept_and_edges_lead_back_to_it() -> None:
    files = {
        "verl/algo.py": "from verl.ops import mean\ndef used(x): return mean(x)\ndef unused(): return other()\n",
        "verl/ops.py": "def mean(x): return helper(x)\ndef helper(x): return x\ndef other(): ...\n",
        "verl/zoo.py": "def animal(): ...\n",
    }
    found = slice_files(files, manifest({"algorithms": ("verl.algo:used",)}))
    assert kept(found) == {
        "algo.py": ["def used(x): return mean(x)"],
        "ops.py": ["def mean(x): return helper(x)", "def helper(x): return x"],
    }
    origins = [found.edges[f"verl.{name}"].origin for name in ("ops:helper", "ops:mean", "algo:used")]
    assert origins == ["verl.ops:mean", "verl.algo:used", "role algorithms"]
    assert found.edges["verl.algo:used"].how == "root"


def test_imports_lead_to_where_a_symbol_is_defined() -> None:
    files = {
        "verl/__init__.py": "from .protocol import Data\n",
        "verl/protocol.py": "class Data: ...\nclass Other: ...\n",
        "verl/use.py": "from verl import Data\ndef f(): return Data()\n",
    }
    found = slice_files(files, manifest({"x": ("verl.use:f",)}))
    assert [module.module for module in found.modules] == ["verl.protocol", "verl.use"]
    assert found.resolve_import("verl.use", "verl", "Data") == Target("protocol", "Data")
    assert found.resolve_import("verl.use", "numpy", "array") is None
    with pytest.raises(NotKept):
        found.resolve_import("verl.use", "verl.protocol", "Other")


def test_an_attribute_of_a_module_alias_is_followed() -> None:
    files = {
        "verl/f.py": "def mean(): ...\ndef total(): ...\n",
        "verl/use.py": "import verl.f as F\nfrom verl import f\ndef a(): return F.mean() + f.total()\n",
    }
    found = slice_files(files, manifest({"x": ("verl.use:a",)}))
    assert kept(found)["f.py"] == ["def mean(): ...", "def total(): ..."]
    assert found.resolve_import("verl.use", "verl.f", None) == Target("f", None)


def test_what_a_module_only_imports_stays_importable_through_it() -> None:
    files = {
        "verl/deep.py": "def g(): ...\n",
        "verl/front.py": "from verl.deep import g\nimport torch\n",
        "verl/use.py": "import verl.front as F\nfrom verl.front import torch\ndef a(): return F.g(torch)\n",
    }
    found = slice_files(files, manifest({"x": ("verl.use:a",)}))
    front = next(module for module in found.modules if module.module == "verl.front")
    assert front.reexports == ("g", "torch")
    assert found.resolve_import("verl.use", "verl.front", "torch") == Target("front", "torch")


def test_an_effect_follows_the_local_name_it_acts_on_and_others_stay_and_are_listed() -> None:
    files = {"verl/a.py": "log = make()\nlog.setLevel(1)\nquiet = make()\nquiet.off()\ndef f(): log.info('')\n"}
    found = slice_files(files, manifest({"x": ("verl.a:f",)}))
    assert kept(found)["a.py"] == ["log = make()", "log.setLevel(1)", "def f(): log.info('')"]
    assert found.effects == ()
    files = {"verl/a.py": "import torch\ntorch.set_flag(helper())\ndef f(): ...\ndef helper(): ...\n"}
    found = slice_files(files, manifest({"x": ("verl.a:f",)}))
    assert kept(found)["a.py"] == ["torch.set_flag(helper())", "def f(): ...", "def helper(): ..."]
    assert found.effects == ("verl/a.py:2",)


def test_effects_of_a_package_file_need_the_manifest() -> None:
    files = {"verl/pkg/__init__.py": "patch()\ndef f(): ...\n"}
    for modules, stays in (((), []), (("verl.pkg",), ["patch()"])):
        found = slice_files(files, manifest({"x": ("verl.pkg:f",)}, keep_effects=modules))
        assert kept(found)["pkg/__init__.py"] == [*stays, "def f(): ..."]


REGISTRY = """
TABLE = {}
def register(name):
    def wrap(item):
        TABLE[name] = item
        return item
    return wrap
def get(name): return TABLE[name]
"""


def test_registrants_of_a_touched_module_are_kept_with_their_registry() -> None:
    files = {"verl/a.py": REGISTRY + "@register('one')\ndef one(): return helper()\ndef helper(): ...\ndef no(): ...\n"}
    found = slice_files(files, manifest({"x": ("verl.a:get",)}))
    assert kept(found)["a.py"][-2:] == ["def one(): return helper()", "def helper(): ..."]
    assert found.edges["verl.a:one"].how == "registers"


REGISTRY_CLASS = """
class Registry:
    _items = {}
    @classmethod
    def add(cls, name):
        def wrap(made):
            cls._items[name] = made
            return made
        return wrap
    @classmethod
    def new(cls, name):
        return cls._items[name]()
"""


def test_a_registry_that_nothing_looks_into_keeps_nothing() -> None:
    for registry, register, reads, stays in (
        (REGISTRY, "register", "register('other')", False),
        (REGISTRY, "register", "TABLE['one']", True),
        (REGISTRY, "register", "get('one')", True),
        (REGISTRY_CLASS, "Registry.add", "pass", False),
        (REGISTRY_CLASS, "Registry.add", "Registry.new('one')", True),
    ):
        code = f"{registry}\n@{register}('one')\ndef one(): ...\n\n@{register}('root')\ndef root():\n    {reads}\n"
        found = slice_files({"verl/a.py": code}, manifest({"part": ("verl.a:root",)}))
        assert ("verl.a:one" in found.edges) == stays, reads


def test_the_import_that_triggers_a_registration_is_kept() -> None:
    files = {
        "verl/rm/__init__.py": "from .registry import get, register\nfrom .naive import Naive\nfrom .far import Far\n",
        "verl/rm/registry.py": REGISTRY,
        "verl/rm/naive.py": "from verl.rm import register\n@register('naive')\nclass Naive: ...\n",
        "verl/rm/far.py": "from verl.rm import register\n@register('far')\nclass Far: ...\n",
        "verl/use.py": "from verl.rm import get\ndef f(): return get('naive')\n",
    }
    rules = manifest({"x": ("verl.use:f",)}, roles=(Role("reward", (), modules=("verl.rm.naive",)),))
    found = slice_files(files, rules)
    package = next(module for module in found.modules if module.module == "verl.rm")
    assert package.reexports == ("Naive",)
    assert "rm/far.py" not in kept(found)


def test_a_cut_feature_becomes_stubs() -> None:
    files = {
        "verl/zoo.py": "def lion(): return tiger()\ndef tiger(): ...\n",
        "verl/use.py": "def f():\n    from verl.zoo import lion\n    return lion()\n",
    }
    feature = Feature("zoo", "animals", cut=("verl.zoo:*",))
    rules = manifest({"x": ("verl.use:f",)}, features=(feature,))
    without = slice_files(files, rules)
    assert list(kept(without)) == ["use.py"]
    assert [(stub.name, stub.feature) for stub in without.stubs] == [("lion", "zoo")]
    assert without.resolve_import("verl.use", "verl.zoo", "lion") == Target("shims.not_vendored", "lion")
    assert list(kept(slice_files(files, rules, "zoo"))) == ["use.py", "zoo.py"]


def test_a_replaced_definition_gives_way_where_it_was_defined() -> None:
    files = {"verl/a.py": "def copy(): return slow()\ndef slow(): ...\ndef f(): return copy()\n"}
    swap = Replacement("verl.a:copy", "shims.fs:copy", "why")
    found = slice_files(files, manifest({"x": ("verl.a:f",)}, replacements=(swap,)))
    (module,) = found.modules
    assert [(item.statement, item.name, item.target) for item in module.substitutes] == [
        (0, "copy", Target("shims.fs", "copy"))
    ]
    assert kept(found)["a.py"] == ["def f(): return copy()"]


def test_what_a_package_gives_can_give_way_where_it_is_imported() -> None:
    files = {"verl/a.py": "from zoo import ape, bear\ndef f(): return ape(bear)\n"}
    swap = Replacement("verl.a:bear", "shims.zoo:bear", "why")
    zoo = Feature("zoo", "animals", cut=("verl.a:bear",))
    for rules, target in (
        (manifest({"x": ("verl.a:f",)}, replacements=(swap,)), Target("shims.zoo", "bear")),
        (manifest({"x": ("verl.a:f",)}, features=(zoo,)), Target("shims.not_vendored", "bear")),
    ):
        (module,) = slice_files(files, rules).modules
        assert [(item.statement, item.name, item.target) for item in module.substitutes] == [(0, "bear", target)]
        assert module.kept == (0, 1)


def test_a_replaced_definition_stays_an_attribute_of_its_module() -> None:
    files = {
        "verl/a.py": "def copy(): ...\ndef g(): ...\n",
        "verl/b.py": "from verl import a\ndef f(): return a.copy(a.g)\n",
    }
    swap = Replacement("verl.a:copy", "shims.fs:copy", "why")
    first, _ = slice_files(files, manifest({"x": ("verl.b:f",)}, replacements=(swap,))).modules
    assert (first.module, first.reexports) == ("verl.a", ("copy",))


def test_names_bound_by_one_block_are_replaced_one_by_one() -> None:
    files = {"verl/a.py": "if cuda():\n    from x import p, q\nelse:\n    from y import p, q\ndef f(): return p(q)\n"}
    fix = Fix("pad", "why", "verl.a", (), "t", {"verl.a:p": "shims.pad:p", "verl.a:q": "shims.pad:q"})
    found = slice_files(files, manifest({"x": ("verl.a:f",)}, fixes=(fix,)))
    (module,) = found.modules
    assert [item.name for item in module.substitutes] == ["p", "q"]
    assert module.fixes == ("pad",)


def test_engine_and_feature_decide_which_roles_count() -> None:
    files = {"verl/a.py": "def hf(): ...\ndef vllm(): ...\ndef critic(): ...\n"}
    rules = manifest(
        roles=(
            Role("hf", ("verl.a:hf",), engine="hf"),
            Role("vllm", ("verl.a:vllm",), engine="vllm"),
            Role("critic", ("verl.a:critic",), feature="critic"),
        ),
        features=(Feature("critic", "values"),),
    )
    assert kept(slice_files(files, rules))["a.py"] == ["def hf(): ..."]
    assert kept(slice_files(files, rules, "critic", engine="vllm"))["a.py"] == ["def vllm(): ...", "def critic(): ..."]


def test_a_missing_module_fails_where_it_is_needed_at_once_and_warns_where_it_is_lazy() -> None:
    eager = {"verl/a.py": "from verl.gone import g\ndef f(): return g()\n"}
    with pytest.raises(SourceError, match=r"verl/a\.py:1: imports verl\.gone\.g"):
        slice_files(eager, manifest({"x": ("verl.a:f",)}))
    lazy = {"verl/a.py": "def f():\n    from verl.gone import g\n    return g()\n"}
    (warning,) = slice_files(lazy, manifest({"x": ("verl.a:f",)})).warnings
    assert warning.startswith("verl/a.py:2 imports verl.gone.g lazily")
    unused = {"verl/a.py": "from verl.gone import g\ndef f(): ...\ndef other(): return g()\n"}
    assert kept(slice_files(unused, manifest({"x": ("verl.a:f",)})))["a.py"] == ["def f(): ..."]


def test_a_root_that_does_not_exist_is_an_error_that_names_the_role() -> None:
    for symbol in ("verl.a:nothing", "verl.nowhere:f"):
        with pytest.raises(UsageError, match=f"role algorithms: {symbol} does not exist"):
            slice_files({"verl/a.py": "def f(): ...\n"}, manifest({"algorithms": (symbol,)}))


def test_a_star_import_is_looked_through() -> None:
    files = {
        "verl/base.py": "def f(): ...\ndef unused(): ...\n",
        "verl/all.py": "from verl.base import *\n",
        "verl/use.py": "from verl.all import f\ndef g(): return f()\n",
    }
    assert kept(slice_files(files, manifest({"x": ("verl.use:g",)})))["base.py"] == ["def f(): ..."]


def test_import_cycles_end() -> None:
    files = {
        "verl/a.py": "from verl.b import g\nfrom verl.a import f as again\ndef f(): return g(again)\n",
        "verl/b.py": "from verl.a import f\ndef g(x): return f\n",
    }
    assert list(kept(slice_files(files, manifest({"x": ("verl.a:f",)})))) == ["a.py", "b.py"]


def test_files_go_where_the_layout_says_longest_prefix_first() -> None:
    rules = manifest(layout={"trainer/": "training/", "trainer/ppo/ray.py": "training/functions.py"})
    assert rules.target_path("verl/trainer/ppo/ray.py") == "training/functions.py"
    assert rules.target_path("verl/trainer/ppo/core.py") == "training/ppo/core.py"
    assert rules.target_path("verl/protocol.py") == "protocol.py"


# What a module's statements bind, name and do.


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
    found = module("if fast():\n    from a import f, g\nelse:\n    from b import f\n    from a import g\n")
    assert found.statements[0].binds == ("f",), "a name that is imported in two ways is that of the block"
    assert not module("if __name__ == '__main__':\n    run()\n").statements[0].effect


def test_source_that_is_no_python_is_an_error_with_file_and_line() -> None:
    with pytest.raises(SourceError, match=r"verl/pkg/mod\.py:2"):
        _ = module("x = 1\ndef broken(:\n").statements


def test_decorators_that_fill_a_registry_are_recognised() -> None:
    local = "def cache(function):\n    local = {}\n    local[1] = function\n    return function\n"
    found = module(REGISTRY + REGISTRY_CLASS + local).registering
    assert found == {"register": frozenset({"TABLE"}), "Registry": frozenset({"Registry._items"})}
