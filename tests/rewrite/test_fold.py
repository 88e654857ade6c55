"""Branches on features: folded by what a project has."""

import ast

import pytest

from extractor.pipeline.render.fold import fold
from tests.rewrite.support import cases_of

ON, OFF = {"CRITIC": True, "PLOTS": False}, {"CRITIC": False, "PLOTS": True}
CASES = cases_of(
    """\
=== a statement
from .switches import CRITIC
a = 1
# about the critic
if CRITIC:
    # why
    b = 2

    c = 3
d = 4
---
a = 1
# about the critic
# why
b = 2

c = 3
d = 4
---
a = 1
d = 4
=== the only one of a block
from ..switches import CRITIC, PLOTS
def f():
    if CRITIC:
        return 1
---
def f():
    return 1
---
def f():
    pass
=== two ways
from .switches import (
    CRITIC,
    PLOTS,
)
if CRITIC and not PLOTS:
    import a
else:
    # other
    import b
---
import a
---
# other
import b
=== one of several
from .switches import CRITIC
if x:
    a = 1
elif CRITIC:
    a = 2
elif y:
    a = 3
else:
    a = 4
---
if x:
    a = 1
else:
    a = 2
---
if x:
    a = 1
elif y:
    a = 3
else:
    a = 4
=== expressions
from .switches import CRITIC
a = f(x if CRITIC else "ä", CRITIC and g(y))
if CRITIC and z:
    b = 1
---
a = f(x, g(y))
if z:
    b = 1
---
a = f("ä", False)
=== some operands of several
from .switches import CRITIC, PLOTS
if CRITIC and a and (b or c):
    d = 1
if (a or b) and (not PLOTS or CRITIC) and not (CRITIC and c(1)):
    e = f(CRITIC and ä and b, b or PLOTS or ä)
g = (
    a
    and CRITIC
    and b
)
---
if a and (b or c):
    d = 1
if (a or b) and not c(1):
    e = f(ä and b, b or ä)
g = (
    a
    and b
)
---
g = (
    False
)
=== imports
import sys
from a import b, c as d
from .switches import CRITIC
e = f
if CRITIC:
    e: "d" = sys
---
import sys
from a import b, c as d
e = f
e: "d" = sys
---
from a import b
e = f
=== a method with a decorator
from .switches import CRITIC
class A:
    if CRITIC:

        @property
        def b(self):
            if CRITIC:
                return 1
            return 2

    c = 3
---
class A:
    @property
    def b(self):
        return 1
        return 2

    c = 3
---
class A:
    c = 3
"""
)


@pytest.mark.parametrize("name", CASES)
def test_a_branch_is_folded(name: str) -> None:
    before, on, off = CASES[name]
    for constants, wanted in ((ON, on), (OFF, off)):
        found = fold(before, constants)
        ast.parse(found)
        assert found == wanted


def test_a_module_without_constants_is_left_alone() -> None:
    text = "if CRITIC:\n    a = 1\n"
    assert fold(text, ON) is text
