"""Rules, answers and mathematics."""

from collections.abc import Callable
from types import ModuleType

import pytest

Library = Callable[[str], ModuleType]


ANSWERS = {
    "It is 12.\n#### 1,250 apples\nthanks": "1,250 apples",
    "#### 3#### 4": "4",
    r"so \boxed{\frac{1}{2}} and not \boxed{\text{a}{b}}": r"\text{a}{b}",
    r"\boxed{never closed, 5": "5",
    "first 3, then -1,200.50 in all.": "-1200.50",
    "a third, 1/3, or 40%": "40%",
    "nothing": None,
    "": None,
}


def test_what_is_read_of_a_text(library: Library) -> None:
    text = library("text")
    assert {given: text.final_answer(given) for given in ANSWERS} == ANSWERS
    tags = ("think", "answer")
    whole = "<think>a\nb</think>\n<answer> 4 </answer>"
    assert text.has_form(whole, tags)
    assert text.tagged(whole, "answer") == "4"
    assert text.tagged("<answer>1</answer><answer>2</answer>", "answer") == "2"
    assert text.tagged("<answer>1", "answer") is None
    for broken in ("x" + whole, whole + "<think>", "<think><answer></think></answer>", whole + whole):
        assert not text.has_form(broken, tags)
    shares = {whole: 1, "<think></think>": 0.5, "</think><think>": 0.25, "": 0}
    assert {part: text.tags_share(part, tags) for part in shares} == shares
    lengths = {0: 0, 5: 0, 7.5: 0.5, 10: 1, 20: 1, 24: pytest.approx(0.2), 25: 0}
    assert {length: text.length_share(length, 10, 20, 5) for length in lengths} == lengths
    assert text.repeated_share("a b a b a b a b", 2) == pytest.approx(1 - 2 / 7)


SAME = (
    ("42", "42", True),
    ("1,250", "1250", True),
    ("0.5", "1/2", True),
    ("72 rolls", "72", True),
    (r"$\frac{1}{2}$", r"\frac{2}{4}", True),
    ("1 + x", "x+1", True),
    (r"2\sqrt{2}", r"\sqrt{8}", True),
    (r"3\pi", r"2\pi", False),
    ("", "42", False),
    ("{{{", "x^2", False),
    ("9" * 600, "x", False),
)


def test_mathematical_answers(library: Library) -> None:
    same_answer = library("verified_math").same_answer
    for given, expected, same in SAME:
        assert same_answer(given, expected) is same, given
    with pytest.raises(ValueError, match="ground truth '' is not a number"):
        same_answer("x^2", "")


def test_without_math_verify_the_error_says_how_to_get_it(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "math_verify", None)
    assert library("verified_math").same_answer("42.0", "42")
    with pytest.raises(ImportError, match=r"-m pip install 'math-verify\[antlr4_9_3\]'"):
        library("verified_math").same_answer("x+1", "1+x")


def test_components_are_weighted_and_the_one_that_fails_is_named(library: Library) -> None:
    components = library("components")
    functions = {"a": lambda **sample: 2, "b": lambda **sample: True, "c": lambda **sample: 1 / sample["n"]}
    score = components.WeightedComponents(functions, {"a": 0.5, "b": 1.0})
    assert score(n=4) == {"score": 2.0, "a": 2.0, "b": 1.0, "c": 0.25}
    with pytest.raises(components.ComponentError, match="c") as caught:
        score(n=0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(ValueError, match="weights for d, which are not among a, b, c"):
        components.WeightedComponents(functions, {"d": 1.0})
