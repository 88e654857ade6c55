"""Named fixes edit exactly what they say, or fail."""

from dataclasses import replace

import pytest

from extractor.values.errors import CheckFailed
from extractor.values.manifest import Edit, Fix
from tests.rewrite.support import after, body, emit

SOURCE = """
from lib import Old, run


class Engine:
    @slow
    def go(self, value):
        run(value, dtype=low . precision, extra=1)
        log(value)
        return value.value + low.precision


def go(value):
    return Old, low.precision
"""


def fix(*edits: Edit) -> Fix:
    return Fix(id="repair", why="it is wrong", module="verl.deep.pack.thing", edits=edits, test="tests/x.py::y")


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (Edit("replace", "Engine.go", "low.precision", "self.dtype", 2), "low . precision", "self.dtype"),
        (Edit("replace", "go", "low.precision", "a or b"), "Old, low.precision", "Old, (a or b)"),
        (Edit("replace", "Engine.go", "value", "other", 3), "run(value", "run(other"),
        (Edit("drop_argument", None, "run", None, 1, "extra"), ", extra=1)", ")"),
        (Edit("drop_argument", None, "run", None, 1, "dtype"), "dtype=low . precision, ", ""),
        (Edit("drop_statement", "Engine.go", "log(value)"), "        log(value)\n", ""),
    ],
)
def test_each_operation(edit: Edit, old: str, new: str) -> None:
    emitted = emit(SOURCE, fixes=(fix(edit),))
    wanted = after(SOURCE).replace(old, new)
    if edit.op == "replace" and edit.within == "Engine.go":
        wanted = wanted.replace("value.value + low.precision", "value.value + self.dtype" if edit.count == 2 else "")
    if edit.count == 3:
        assert "run(other, dtype" in body(emitted)
        assert "log(other)" in body(emitted)
        assert "other.value + low" in body(emitted)
    else:
        assert body(emitted) == wanted
    assert "fix repair: it is wrong" in emitted.changes


def test_a_loop_is_dropped_by_its_first_line() -> None:
    source = "def go(rows):\n    made = []\n    for row in rows:\n        made.append(row)\n    return made\n"
    emitted = emit(source, kept=(0,), fixes=(fix(Edit("drop_statement", "go", "for row in rows")),))
    assert body(emitted) == "def go(rows):\n    made = []\n    return made\n"


def test_a_wrong_count_never_passes() -> None:
    for count in (0, 2):
        with pytest.raises(CheckFailed, match=r"fix 'repair', edit 1 \(drop_statement\).*found once"):
            emit(SOURCE, fixes=(fix(Edit("drop_statement", None, "log(value)", count=count)),))


def test_code_that_was_not_kept_needs_no_repair() -> None:
    emitted = emit(SOURCE, kept=(0, 2), fixes=(fix(Edit("drop_statement", "Engine.go", "log(value)")),))
    assert not any("repair" in change for change in emitted.changes)


def test_imports_of_a_fix() -> None:
    edit = Edit("replace", "go", "low.precision", "best()", imports=("shims.dtype:best", "=os", "=math:inf"))
    text = body(emit(SOURCE, fixes=(fix(edit),)))
    assert text.startswith("from lib import Old, run\nfrom toy.shims.dtype import best\n")


SET = Edit("set_argument", "count", "encode", replacement="False", keyword="as_dict")


def with_argument(call: str, edit: Edit = SET) -> str:
    """The call, in a function beside another that is left alone."""
    source = f"from lib import encode\n\n\ndef count(text, **more):\n    return {call}\n"
    source += "\n\ndef elsewhere(text):\n    return encode(text)\n"
    found = body(emit(source, fixes=(fix(edit),)))
    assert found.endswith("return encode(text)\n")
    return found.partition("    return ")[2].partition("\n")[0]


def test_a_keyword_argument_gets_a_value_whether_the_call_passed_it_or_not() -> None:
    for call, wanted in (
        ("encode(text)", "encode(text, as_dict=False)"),
        ("encode()", "encode(as_dict=False)"),
        ("encode(text, **more)", "encode(text, as_dict=False, **more)"),
        ("encode(text, as_dict=True, width=3)", "encode(text, as_dict=False, width=3)"),
        ("len(encode(text))", "len(encode(text, as_dict=False))"),
    ):
        assert with_argument(call) == wanted
    with pytest.raises(CheckFailed, match=r"set_argument\): `encode` was found 0 times within count"):
        with_argument("text.encode()")
    twice = replace(SET, count=2)
    assert with_argument("encode(encode(text))", twice) == "encode(encode(text, as_dict=False), as_dict=False)"
