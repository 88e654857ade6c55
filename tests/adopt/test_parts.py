"""Segments, and merging a symbol."""

from __future__ import annotations

import ast

import pytest

from extractor.usecases.adopt import assemble, narrower
from extractor.usecases.adopt.combine import combine
from extractor.usecases.adopt.segments import join, split
from extractor.usecases.adopt.upstream_names import decoded, with_upstream_names
from tests.releases import newest_release, source_of


@pytest.mark.parametrize("release", newest_release("0.6.1"))
@pytest.mark.usefixtures("verl")
def test_segments_make_the_text_again(release: str) -> None:
    files = source_of(release).files
    for path in sorted(files)[::4]:
        text = decoded(files[path])
        if path.endswith(".py") and text is not None:
            assert join(list(split(text))).rstrip("\n") == text.rstrip("\n"), path


def test_segments() -> None:
    text = "# top\n\nimport a\nx = 1; y = 2\n\n\n# about f\n@dec\ndef f():\n    pass\n\n\nx = 3\nprint(x)\n# end\n"
    found = split(text)
    assert [item.key for item in found] == [
        "comments at the top",
        "`import a`",
        "x",
        "f",
        "x (2)",
        "`print(x)`",
        "comments at the end",
    ]
    assert found[3].core == "# about f\n@dec\ndef f():\n    pass\n"
    assert join(list(found)) == text


def test_combine() -> None:
    base = "a\nb\nc\n"
    assert combine(base, base, "a\nB\nc\n") == "a\nB\nc\n"
    assert combine(base, "a\nb\nnew\nc\n", "A\nb\nc\n") == "A\nb\nnew\nc\n"
    # Neighbouring lines, which git calls a conflict.
    assert combine(base, "a\nB\nc\n", "A\nb\nc\n") == "A\nB\nc\n"
    assert combine(base, "a\nmine\nc\n", "a\ntheirs\nc\n") is None


def test_names() -> None:
    text = "from my.copy.utils import x\nimport my.copy.protocol as p\ny = 'my.copy.utils.device'\nz = my.copy.mine\n"
    assert with_upstream_names(text, ("my.copy",)) == (
        "from verl.utils import x\nimport verl.protocol as p\ny = 'verl.utils.device'\nz = my.copy.mine\n"
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "lacks"),
    [
        ("def f(a, *, b=1): pass", "def f(a, b): pass", []),
        ("def f(a, b): pass", "def f(a): pass", ["b"]),
        ("def f(a, b): pass", "def f(a, **more): pass", []),
        ("class C(Enum):\n    X = 1\n    Y = 2", "class C(Enum):\n    X = 1\n    Z = 3", ["C.Y"]),
        ("class C:\n    x: int = 1\n    def f(self, a): pass", "class C:\n    def f(self): pass", ["C.x", "a of C.f"]),
        ("class C:\n    def _f(self): pass", "class C:\n    pass", []),
        ("X = 1", "X = 2", []),
    ],
)
def test_what_a_version_of_another_day_lacks(ours: str, theirs: str, lacks: list[str]) -> None:
    assert narrower.lacking(ast.parse(ours).body[0], theirs) == lacks


@pytest.mark.parametrize(
    ("text", "early"),
    [
        ("def f(a: int | Kind): pass\nclass Kind: pass", {"Kind"}),
        ("from __future__ import annotations\ndef f(a: int | Kind): pass\nclass Kind: pass", set()),
        ("@register(Kind)\ndef f(): pass\nclass Kind: pass", {"Kind"}),
        ("class Kind: pass\n@register(Kind)\ndef f(): pass\nclass Kind: pass", set()),
        ("def f():\n    return Kind\nclass Kind: pass", set()),
        ("class f:\n    x = Kind\nclass Kind: pass", {"Kind"}),
    ],
)
def test_what_a_definition_needs_before_it_is_there(text: str, early: set[str]) -> None:
    assert assemble._early(ast.parse(text), "f") == early
