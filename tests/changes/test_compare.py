"""Two definitions against each other."""

import pytest

from extractor.usecases.changes import ChangeKind
from extractor.usecases.changes.compare import compare

FUNCTION = "def f(a, b: int = 1):\n    return a + b\n"
CLASS = """
class C(Base):
    size: int = 1
    RED = "red"

    def run(self, x):
        return x

    def _help(self):
        return 1
""".lstrip("\n")


@pytest.mark.parametrize(
    ("new", "change", "details"),
    [
        (FUNCTION, ChangeKind.UNCHANGED, ()),
        ('def f(a, b: int = 1):\n    """Add."""\n    # sum\n    return (a + b)\n', ChangeKind.WORDING, ()),
        ("def f(a, b: int = 1):\n    return b + a\n", ChangeKind.BODY, ()),
        ("@old\ndef f(a, b: int = 1):\n    return a + b\n", ChangeKind.BODY, ("@old new",)),
        ("def f(a, b: int = 2):\n    return a + b\n", ChangeKind.SIGNATURE, ("parameter b: int = 1 -> int = 2",)),
        ("def f(a):\n    return a\n", ChangeKind.SIGNATURE, ("parameter b gone", "body changed")),
        ("def f(a, b: int = 1, c=2):\n    return a + b\n", ChangeKind.SIGNATURE, ("parameter c new: any = 2",)),
        ("def f(a, b: int = 1, *, c):\n    return a + b\n", ChangeKind.SIGNATURE, ("parameter c new: keyword only",)),
        ("def f(b: int, a=1):\n    return a + b\n", ChangeKind.SIGNATURE, ("parameters in another order",)),
        ("async def f(a, b: int = 1):\n    return a + b\n", ChangeKind.SIGNATURE, ("async new",)),
    ],
)
def test_functions(new: str, change: ChangeKind, details: tuple[str, ...]) -> None:
    found = compare(FUNCTION, new)
    assert found[0] is change
    assert set(details) <= set(found[1])


OF_CLASSES = (
    ("class C(Base)", "class C(Other)", ChangeKind.SIGNATURE, "bases: Base -> Other"),
    ("size: int = 1", "size: int = 2", ChangeKind.SIGNATURE, "field size: int = 1 -> int = 2"),
    ("size: int = 1", "size: int = 1\n    more: str", ChangeKind.SIGNATURE, "field more new: str"),
    ("run(self, x)", "run(self, x, y=1)", ChangeKind.SIGNATURE, "run(): parameter y new: any = 1"),
    ("def run", "def walk", ChangeKind.SIGNATURE, "run() gone"),
    ("_help(self)", "_help(self, y)", ChangeKind.BODY, "_help(): parameter y new"),
    ("return x", "return -x", ChangeKind.BODY, "run(): body changed"),
    ('RED = "red"', 'RED = "red"\n    BLUE = 1', ChangeKind.BODY, "BLUE new: 1"),
)


def test_classes() -> None:
    for old, new, change, detail in OF_CLASSES:
        found = compare(CLASS, CLASS.replace(old, new))
        assert found[0] is change, detail
        assert detail in found[1]
        assert len(found[1]) == 1 or detail == "run() gone"
    worded = CLASS.replace("return x", '"""Run."""\n        return x  # it')
    assert compare(CLASS, worded) == (ChangeKind.WORDING, (), ())
