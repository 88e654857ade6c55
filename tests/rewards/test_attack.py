"""The command that tries known hacks against a reward, which blames no sound one; and the alarm in training."""

import json
import random
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


# How metrics go over a run, and what the alarm says, if anything.
RUNS: tuple[tuple[dict[str, tuple[float, float]], str], ...] = (
    ({"score": (0.2, 0.8), "length": (100, 900)}, "responses went from"),
    ({"score": (0.2, 0.8), "length": (100, 110), "acc": (0.6, 0.2)}, "acc fell from"),
    ({"score": (0.2, 0.8), "length": (100, 150), "acc": (0.2, 0.7)}, ""),  # it learns
    ({"score": (0.5, 0.5), "length": (100, 900)}, ""),  # the reward does not rise
    ({"score": (0.2, 0.8), "other": (0.8, 0.2)}, ""),  # not a check
)


def test_a_reward_that_rises_while_something_goes_astray_is_told(library: Library) -> None:
    names, steps = {"score": "critic/score/mean", "length": "response_length/mean"}, 60
    for ends, words in RUNS:
        alarm, draw, said = library("alarm").RewardAlarm(window=20), random.Random(0), []
        for step in range(steps):
            metrics = {
                names.get(name, f"reward/{name}/mean"): (a + (b - a) * step / steps) * (1 + draw.uniform(-0.05, 0.05))
                for name, (a, b) in ends.items()
            }
            said += alarm.look(metrics)
        assert len(said) in ((1, 2) if words else (0,)), ends  # not again at each step
        assert all("over 40 steps the reward rose from" in text and words in text for text in said)
    alarm = library("alarm").RewardAlarm(window=0)
    assert [alarm.look({"critic/score/mean": float(n), "response_length/mean": 2.0**n}) for n in range(50)] == [[]] * 50
