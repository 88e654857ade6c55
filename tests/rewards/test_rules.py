"""Rules, answers and mathematics; the command that tries known hacks against a reward; and the alarm in training."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Library = Callable[[str], ModuleType]

REWARDS = """
import re

def sound(solution_str, ground_truth, **sample):
    tagged = re.findall(r"<answer>(.*?)</answer>", solution_str, re.DOTALL)
    return {"score": float(bool(tagged) and tagged[-1].strip() == ground_truth)}

async def sound_and_async(solution_str, ground_truth, **sample):
    return sound(solution_str, ground_truth)["score"]

def anywhere(solution_str, ground_truth, **sample):
    return float(ground_truth in solution_str)

def form(solution_str, **sample):
    return float("<answer>" in solution_str)

def judged(solution_str, ground_truth, **sample):
    return 1.0 if "correct" in solution_str.lower() or ground_truth in solution_str.split() else 0.0

def length(solution_str, ground_truth, **sample):
    return min(1.0, len(solution_str) / 1000)

def program(solution_str, **sample):  # as if it ran, and an exit were a success
    return float("exit(0)" in solution_str)
"""
GETS_THROUGH = {"anywhere": "every number", "form": "only the form", "judged": "a verdict", "length": "very long"}


@pytest.fixture
def attack(attacks: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(function: str, *arguments: str) -> tuple[int, list[str]]:
        file = tmp_path / f"rewards_{function}.py"
        file.write_text(REWARDS)
        code = attacks("command").main(tmp_path, [f"--reward={file}:{function}", *arguments])
        said = capsys.readouterr()
        return code, (said.out + said.err).splitlines()

    return run


def test_what_gets_through_is_named_and_nothing_through_a_sound_reward(attack: Callable) -> None:
    for function in ("sound", "sound_and_async"):
        code, lines = attack(function)
        assert code == 0
        assert lines[-1].startswith("0 of ")
        assert not any("GOT THROUGH" in line for line in lines)
    for function, hack in GETS_THROUGH.items():
        code, lines = attack(function)
        assert code == 1
        assert any(f"GOT THROUGH  {hack}" in line for line in lines), lines


def test_programs_are_tried_where_the_ground_truth_is_tests(attack: Callable, tmp_path: Path) -> None:
    """Those that do harm are for a sandbox: a function of one's own may run programs where nothing holds them."""
    data, tests = tmp_path / "tasks.jsonl", json.dumps({"asserts": ["assert double(3) == 6"]})
    row = {"prompt": [{"content": "Double."}], "reward_model": {"ground_truth": tests}}
    data.write_text(json.dumps(row) + "\n")
    for harm in ([], ["--harm"]):
        code, lines = attack("program", "--data", str(data), "--all", *harm)
        assert code == 1
        assert any("GOT THROUGH  os exit at once" in line for line in lines)
        assert any("held  equal to everything" in line for line in lines)
        assert any("fork bomb:" in line for line in lines) is bool(harm)


def test_rows_are_tasks_as_they_are_for_training_and_mistakes_are_told(
    attack: Callable, attacks: Library, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column ground_truth, and texts with any character."""
    rows = [{"prompt": "a\u2028b\u0085", "ground_truth": "4"}, {"prompt": "?", "answer": "4"}]
    lines = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    for name, text, options, said in (
        ("tasks.jsonl", lines, ("--tasks", "1"), "task: 4"),
        ("tasks.jsonl", lines, (), "row 1: no ground truth; it has answer, prompt"),
        ("tasks.csv", "prompt,ground_truth\n?,4\n", (), "is neither .parquet nor .jsonl nor .json"),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        code, shown = attack("program", "--data", str(tmp_path / name), *options)
        assert any(line.endswith(said) for line in shown), shown
        assert (code == 2) is (said != "task: 4")
    for name in ("no_such_module:score", "nonsense", "json:none"):
        assert attacks("command").main(Path(), [f"--reward={name}"]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert "hint: " in error


# How metrics go over a run beside a reward that rises, and what the alarm says, if anything.
RUNS: tuple[tuple[str, float, float, str], ...] = (
    ("response_length/mean", 100, 900, "responses went from"),
    ("reward/acc/mean", 0.6, 0.2, "acc fell from"),
    ("reward/acc/mean", 0.2, 0.7, ""),  # it learns
    ("reward/other/mean", 0.8, 0.2, ""),  # not a check
)


def test_a_reward_that_rises_while_something_goes_astray_is_told(library: Library) -> None:
    for name, first, last, words in RUNS:
        alarm, said = library("alarm").RewardAlarm(window=20), []
        for step in range(60):
            said += alarm.look({"critic/score/mean": 0.2 + step / 100, name: first + (last - first) * step / 60})
        assert len(said) in ((1, 2) if words else (0,)), name  # not again at each step
        assert all("over 40 steps the reward rose from" in text and words in text for text in said)


ANSWERS = {
    "It is 12.\n#### 1,250 apples\nthanks": "1,250 apples",
    "#### 3#### 4": "4",
    r"so \boxed{\frac{1}{2}} and not \boxed{\text{a}{b}}": r"\text{a}{b}",
    r"\boxed{never closed, 5": "5",
    "first 3, then -1,200.50 in all.": "-1200.50",
    "nothing": None,
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
    ("0.5", "1/2", True),
    ("72 rolls", "72", True),
    (r"$\frac{1}{2}$", r"\frac{2}{4}", True),
    ("1 + x", "x+1", True),
    (r"2\sqrt{2}", r"\sqrt{8}", True),
    (r"3\pi", r"2\pi", False),
    ("{{{", "x^2", False),
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
