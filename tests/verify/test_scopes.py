import textwrap

from extractor.usecases.verify.name_analysis import Analysis


def analyse(text: str, module: str = "toy.utils.x", *, is_package: bool = False) -> Analysis:
    return Analysis(textwrap.dedent(text), module, is_package=is_package)


def unknown(text: str) -> list[str]:
    return sorted(analyse(text).find_unbound())


def leads(text: str) -> list[tuple[str, list[str]]]:
    """What may be a module, with the attributes that are read from it."""
    return [(module, chain) for module, chain, _ in analyse(text).list_chains()]


BOUND = (
    "def f(a, *b, c=1, **d):\n    return a, b, c, d",
    "x = [i for i in range(3) if i]",
    "x = {k: v for k, v in {}.items()}",
    "f = lambda y: y",
    "class A:\n    z = 1\n    w = z",
    "try:\n    pass\nexcept ValueError as error:\n    print(error)",
    "def f():\n    global made\n    made = 1\ndef g():\n    return made",
    "def outer():\n    n = 0\n    def inner():\n        nonlocal n\n        n += 1\n    return inner",
    "if (n := 3):\n    print(n)",
    "x = [y for a in b if (y := a)]\nb = []\nprint(y)",
    "match 3:\n    case [first, *rest]:\n        print(first, rest)",
    "match 3:\n    case {'a': v, **more}:\n        print(v, more)",
    "with open(__file__) as file:\n    print(file, __name__)",
    "from m import *\nprint(anything)",
    "import a.b.c\nprint(a)",
    "def f():\n    return later()\ndef later():\n    return 1",
    "for i in range(3):\n    del i",
)
UNBOUND = {
    "print(missing)": ["missing"],
    "class A:\n    z = 1\n    def f(self):\n        return z": ["z"],
    "x = [i for i in range(3)]\nprint(i)": ["i"],
    "def f():\n    inner = 1\nprint(inner)": ["inner"],
    "@decorator\ndef f(x: Annotation = default): ...": ["Annotation", "decorator", "default"],
    "ray.get(1)": ["ray"],
}


def test_names_that_are_bound_and_that_are_not() -> None:
    for text in (*BOUND, *UNBOUND):
        assert unknown(text) == UNBOUND.get(text, []), text


def test_names_in_annotations_are_used_and_what_cannot_be_compiled_has_none() -> None:
    later = "from __future__ import annotations\n"
    assert unknown(f"{later}def f(x: Gone) -> Away: ...") == ["Away", "Gone"]
    assert unknown("def f():\n    print(x)\n    global x\n") == unknown("def f(:") == []
    assert analyse("print(gone)\ngone()").find_unbound() == {"gone": 1}


def test_a_name_leads_to_its_imports_unless_something_else_binds_it() -> None:
    assert leads("import a.b\na.b.c()") == [("a", ["b", "c"]), ("a", ["b"])]
    assert leads("import a.b as m\ndef f():\n    return m.c") == [("a.b", ["c"])]
    assert leads("from a import b\nb.c.d") == [("a.b", ["c", "d"]), ("a.b", ["c"])]
    assert leads("import a\ndef f(a):\n    return a.b") == []
    either = "try:\n    import a as x\nexcept ImportError:\n    import b as x\nx.c"
    assert leads(either) == [("a", ["c"]), ("b", ["c"])]


def test_relative_imports_become_absolute() -> None:
    assert [item.module for item in analyse("from . import a\nfrom ..b import c").imports] == ["toy.utils", "toy.b"]
    inside = analyse("from . import a\nfrom .b import c", "toy.utils", is_package=True)
    assert [item.module for item in inside.imports] == ["toy.utils", "toy.utils.b"]


def test_only_unguarded_imports_of_the_module_are_at_its_top() -> None:
    text = "import a\nif a:\n    import b\ntry:\n    import c\nexcept ImportError: ...\ndef f():\n    import d"
    assert {item.module: item.top for item in analyse(text).imports} == {"a": True, "b": False, "c": False, "d": False}
