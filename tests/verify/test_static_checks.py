"""The checks that read a project without running it, and what they know of names."""

from pathlib import Path

from extractor.usecases.verify import project_files
from extractor.usecases.verify.closed_imports import check_imports, check_ray_free
from extractor.usecases.verify.hashes import check_base, check_hashes
from extractor.usecases.verify.name_analysis import Analysis
from extractor.usecases.verify.report import CheckStatus
from tests.verify.projects import small

GOOD = {
    "toy/protocol.py": "class DataProto: ...\n",
    "toy/utils/__init__.py": "",
    "toy/utils/maths.py": "import torch\n\ndef mean(x):\n    return torch.mean(x)\n",
    "toy/core.py": (
        "from toy.protocol import DataProto\nimport toy.utils.maths as maths\n\n"
        "def f():\n    from toy.utils.maths import mean\n    return maths.mean, mean, DataProto\n"
    ),
    "main.py": "import hydra\nimport toy.core\n\nprint(toy.core.f, hydra)\n",
}


def test_a_closed_project_passes(tmp_path: Path) -> None:
    found = project_files.read_project(small(tmp_path / "p", GOOD))
    assert check_imports(found, None).status is CheckStatus.OK
    assert check_ray_free(found).status is CheckStatus.OK
    assert check_hashes(found, strict=True).status is CheckStatus.OK
    assert check_base(found).status is CheckStatus.OK


OPEN = (
    ("def f():\n    from toy.none import x\n", "toy/core.py:2: imports toy.none, which does not exist"),
    ("from toy.protocol import Gone\n", "toy/core.py:1: imports Gone from toy.protocol, which does not define it"),
    (
        "from toy.utils import maths\n\ndef f():\n    return maths.gone\n",
        "toy/core.py:4: uses toy.utils.maths.gone, which does not exist",
    ),
    ("import toy.utils.maths\n\ntoy.utils.none.f()\n", "toy/core.py:3: uses toy.utils.none, which does not exist"),
    ("def f():\n    from verl.utils import x\n", "toy/core.py:2: imports verl.utils"),
    ("import ray\n", "toy/core.py:1: imports ray"),
    ("import pandas\n", "toy/core.py:1: imports pandas, which pyproject.toml does not require"),
    ("def f():\n    return gone\n", "toy/core.py:2: gone is defined nowhere"),
    ("def f(:\n", "cannot be parsed: toy/core.py:1: invalid syntax"),
)


def test_an_open_project_fails_and_says_where(tmp_path: Path) -> None:
    for number, (text, problem) in enumerate(OPEN):
        files = {**GOOD, "toy/core.py": text, "main.py": "x = 1\n"}
        check = check_imports(project_files.read_project(small(tmp_path / str(number), files)), None)
        assert (check.status, check.details) == (CheckStatus.FAILED, (problem,))


def test_what_may_be_imported(tmp_path: Path) -> None:
    text = "from toy.utils import __name__ as name\nfrom toy.mine import x\n\nx(name)\n"
    root = small(tmp_path / "p", {**GOOD, "toy/core.py": text, "main.py": ""})
    (root / "toy/mine.py").write_text("def x(): ...\n", encoding="utf-8")  # which the owner added
    assert check_imports(project_files.read_project(root), None).status is CheckStatus.OK
    text = "try:\n    import flash_attn\nexcept ImportError:\n    flash_attn = None\n\ndef f():\n    import vllm\n"
    check = check_imports(project_files.read_project(small(tmp_path / "optional", {"toy/core.py": text})), None)
    assert check.status is CheckStatus.OK
    assert check.details == ("optional packages, imported inside functions: flash_attn, vllm",)


def test_of_hooks_only_imports_of_the_project_are_checked(tmp_path: Path) -> None:
    path = "toy/custom/hook.py"
    root = small(tmp_path / "p", {path: "import pandas, verl\nfrom toy.none import x\ngone()\n"}, hooks=(path,))
    assert check_imports(project_files.read_project(root), None).details == (
        f"{path}:2: imports toy.none, which does not exist",
    )


def test_names_that_lead_to_ray_are_found_and_words_are_not(tmp_path: Path) -> None:
    for number, (text, problem) in enumerate(
        (
            ("import ray\nray.init()\n", "toy/core.py:1: imports ray"),
            (
                "from ray.util import placement_group as pg\n\ndef f():\n    return pg()\n",
                "toy/core.py:1: imports ray.util",
            ),
            ("def f():\n    return ray.get(1)\n", "toy/core.py:2: uses ray"),
            ("import importlib\nimportlib.import_module('ray.util')\n", "toy/core.py:2: imports ray.util by name"),
        )
    ):
        check = check_ray_free(project_files.read_project(small(tmp_path / str(number), {"toy/core.py": text})))
        assert check.status is CheckStatus.FAILED
        assert problem in check.details
    text = '"""Without ray."""\n# ray.get\n\ndef f(ray):\n    """Runs ray."""\n    return ray.get("ray worker")\n'
    found = project_files.read_project(small(tmp_path / "p", {"toy/core.py": text}))
    assert check_ray_free(found).status is CheckStatus.OK


def test_edited_missing_and_damaged_files(tmp_path: Path) -> None:
    project = small(tmp_path / "p", GOOD)
    (project / "toy/core.py").write_text("x = 1\n", encoding="utf-8")
    found = project_files.read_project(project)
    check = check_hashes(found, strict=False)
    assert (check.status, check.details) == (CheckStatus.REPORTED, ("edited: toy/core.py (vendored)",))
    assert check.ok
    assert check_hashes(found, strict=True).status is CheckStatus.FAILED
    (project / "toy/core.py").unlink()
    check = check_hashes(project_files.read_project(project), strict=False)
    assert (check.status, check.details) == (CheckStatus.FAILED, ("missing: toy/core.py",))
    (project / ".vextract/base.zip").write_bytes(b"PK")
    check = check_base(project_files.read_project(project))
    assert check.status is CheckStatus.FAILED
    assert "damaged" in check.summary
    assert "vextract sync" in check.details[0]


def analyse(text: str, module: str = "toy.utils.x", *, is_package: bool = False) -> Analysis:
    return Analysis(text, module, is_package=is_package)


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
