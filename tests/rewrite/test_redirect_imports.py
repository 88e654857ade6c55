"""Imports point at the defining module of the generated package, and only names in use stay."""

import pytest

from extractor.pipeline.rewrite.problems import CannotRewrite
from tests.rewrite.support import body, cases_of, emit

CASES = cases_of(
    """\
=== names go where they are defined, unused ones go
import os
import sys
from verl import Batch
from verl.utils import tally, unknown

print(sys, Batch, tally)
---
import sys
from toy.protocol import Batch
from toy.utils.numbers import tally

print(sys, Batch, tally)
=== one statement, several homes
from verl.utils import (
    tally as count,
    numbers,  # a module
)

print(count, numbers.spread)
---
from toy.utils.numbers import tally as count
from toy.utils import numbers

print(count, numbers.spread)
=== a module under another name
import verl.utils.numbers as N
print(N.tally)
---
import toy.utils.numbers as N
print(N.tally)
=== a module spelt out at each use
import verl.utils.numbers
print(verl.utils.numbers.tally(1), verl.protocol.Batch.make)
---
import toy.utils.numbers
import toy.protocol
print(toy.utils.numbers.tally(1), toy.protocol.Batch.make)
=== relative imports become absolute
from .near import help_out
from ..far import reach as far
print(help_out, far)
---
from toy.deep.pack.near import help_out
from toy.deep.far import reach as far
print(help_out, far)
=== a star is spelt out
from verl.utils.numbers import *
print(tally, len)
---
from toy.utils.numbers import tally
print(tally, len)
=== inside functions, with layout kept
def f():
    from verl.utils.numbers import (
        spread,
        tally,
    )

    return spread, tally
---
def f():
    from toy.utils.numbers import (
        spread,
        tally,
    )

    return spread, tally
=== a local variable shadows an import
from verl.utils import tally

def f(tally):
    return tally
---
def f(tally):
    return tally
=== string annotations are uses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verl import Batch
    from verl.utils import gone

def f(x: "list[Batch]"): ...
---
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toy.protocol import Batch

def f(x: "list[Batch]"): ...
=== an emptied block goes, and the import that only its test used
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from verl.utils import gone

x = 1
---
x = 1
=== an emptied branch becomes pass
import os

if os.name == "nt":
    from verl.utils import gone
else:
    from verl.utils import tally

print(tally)
---
import os

if os.name == "nt":
    pass
else:
    from toy.utils.numbers import tally

print(tally)
=== a check for a package stays a check
try:
    import fast

    FAST = True
except ImportError:
    FAST = False
print(FAST)
---
try:
    import fast  # noqa: F401

    FAST = True
except ImportError:
    FAST = False
print(FAST)
=== a check that nobody reads goes
try:
    import fast
except ImportError:
    fast = None

x = 1
---
x = 1
=== future imports, submodules and __all__
from __future__ import annotations

import os
import os.path
import xml.dom
import xml.sax

from verl.utils import gone, tally

__all__ = ["tally", "gone", "f"]

def f():
    return os.sep, xml.dom.Node
---
from __future__ import annotations

import os
import xml.dom

from toy.utils.numbers import tally

__all__ = ["tally", "f"]

def f():
    return os.sep, xml.dom.Node
=== statements that share a line
import os; from verl.utils import gone; x = 1
if os.name: from verl.utils import tally
if os.name: from verl.utils import gone
---
import os; pass; x = 1
if os.name: pass
if os.name: pass
=== an emptied else goes, of a block in a function
import os

def f():
    if os.name == "nt":
        return 1

    else:
        # for others
        from verl.utils import gone

    return 2
---
import os

def f():
    if os.name == "nt":
        return 1

    return 2
=== comments between the names stay
from verl.utils import (
    gone,  # it goes
    tally,  # counts
)
print(tally)
---
from toy.utils.numbers import (
    tally,  # counts
)
print(tally)
=== the same name twice
from verl import Batch
from verl.protocol import Batch
print(Batch)
---
from toy.protocol import Batch
print(Batch)
"""
)


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, wanted = CASES[name]
    assert body(emit(before)) == wanted


def test_a_used_name_that_was_not_kept_is_an_error_with_its_place() -> None:
    with pytest.raises(CannotRewrite) as caught:
        emit("from verl.utils import gone\n\n\ndef f():\n    return gone\n")
    assert str(caught.value).startswith("verl/deep/pack/thing.py:5: ")
    assert "verl.utils.gone" in str(caught.value)
    assert caught.value.hint


def test_imports_of_packages_and_of_what_is_exported_again() -> None:
    text = body(emit("from verl.utils import tally\n", reexports=("tally",)))
    assert text == "from toy.utils.numbers import tally  # noqa: F401\n"
    path = "verl/deep/pack/__init__.py"
    text = body(emit("from .near import help_out\nprint(help_out)\n", module="verl.deep.pack", path=path))
    assert text == "from toy.deep.pack.near import help_out\nprint(help_out)\n"
    text = body(emit("from verl.utils import tally\n\ndef tally(): ...\n", module="verl.utils.numbers"))
    assert "import" not in text, "a module does not import itself"


def test_long_imports_are_laid_out_in_parentheses() -> None:
    names = ", ".join(f"{'very_' * 5}long_name_{index}" for index in range(4))
    text = body(emit(f"from somewhere import {names}, unused\nprint({names})\n"))
    assert text.startswith("from somewhere import (\n    very_")
    assert "unused" not in text


def test_a_computed_all_goes() -> None:
    emitted = emit("from .near import *\nfrom . import near\n__all__ = near.__all__ + ['f']\ndef f(): ...\n")
    assert body(emitted) == "def f(): ...\n"
    assert "a computed __all__ dropped: star imports are spelt out" in emitted.changes
