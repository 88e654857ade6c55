# vextract:hook  yours: written once, never touched by an upgrade
"""How to test the hooks. Change these with the hooks: each shows how to call one without a training run."""

import itertools
import json
import operator
from fractions import Fraction

import pytest

from __package__ import custom  # noqa: F401  (registers the hooks)
from __package__.custom.countdown import solves
from __package__.custom.env_dataset import environment_rows
from __package__.custom.env_wrapper import make_env
from __package__.custom.reward_manager import EnvRewardManager, ReasoningScore, answer, form, thinking
from __package__.data import problems
from __package__.data.datasets import DataError
from __package__.rewards.components import ComponentError

TRUTH = {"numbers": [3, 5, 7], "target": 22}

# The problems


def reachable(numbers):
    """Every value that some numbers can be made into, each used once."""
    if len(numbers) == 1:
        return {numbers[0]}
    found = set()
    for pair in itertools.permutations(range(len(numbers)), 2):
        a, b = (numbers[index] for index in pair)
        rest = tuple(number for index, number in enumerate(numbers) if index not in pair)
        for operation in (operator.add, operator.sub, operator.mul, operator.truediv):
            if not (operation is operator.truediv and b == 0):
                found |= reachable((*rest, operation(a, b)))
    return found


def test_every_problem_of_the_sample_can_be_solved():
    sample = (*problems.TRAIN, *problems.VAL)
    assert len(set(sample)) == len(sample) == 32
    assert [p for p in sample if p[1] not in reachable(tuple(map(Fraction, p[0])))] == []


def test_rows_are_in_verls_schema():
    row = environment_rows("train", {"source": "sample", "instruction": "Think."})[0]
    assert row["prompt"] == [{"role": "user", "content": "Numbers: 3, 5, 7. Target: 22. Think."}]
    assert row["reward_model"] == {"style": "rule", "ground_truth": TRUTH}


def test_without_the_hub_the_sample_is_used_and_that_is_said(capsys):
    assert len(environment_rows("val", {"source": "auto", "path": "nobody/nothing"})) == 8
    said = capsys.readouterr().out
    assert "cannot load nobody/nothing" in said and "handmade problems of data/problems.py" in said
    with pytest.raises(DataError, match="cannot load nobody/nothing"):
        environment_rows("train", {"source": "hub", "path": "nobody/nothing"})


# The components of the reward


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("<think>a b</think>\n<answer>3</answer>", 1.0),
        ("<think></think><answer></answer>", 1.0),
        ("well: <think>a</think><answer>3</answer>", 0.75),
        ("<think>a</think><answer>3</answer><answer>4</answer>", 0.625),
        ("<think>a</think>", 0.375),
        ("<answer>3</answer><think>a</think>", 0.5),
        ("3", 0.0),
    ],
)
def test_the_form_has_a_slope(text, value):
    assert form(text) == pytest.approx(value)


def test_thinking_is_worth_its_length_and_loses_by_repetition():
    def value(words):
        return thinking(f"<think>{' '.join(words)}</think>", min_words=10, max_words=20)

    words = [f"w{index}" for index in range(40)]
    assert [value(words[:n]) for n in (0, 5, 10, 20, 25, 30, 40)] == [0.0, 0.5, 1.0, 1.0, 0.5, 0.0, 0.0]
    assert value(["so"] * 15) < 0.1 and thinking("no tags", 1, 9) == 0.0


@pytest.mark.parametrize(
    ("expression", "right"),
    [
        ("3 * 5 + 7", True),
        ("(7+3*5) = 22", True),
        ("7 + 5 × 3", True),
        ("22", False),
        ("3 * 5 + 7 + 7 - 7", False),
        ("3 * 5 + 8", False),
        ("3 * 5 +", False),
        ("7 / (5 - 5)", False),
        ("__import__('os').getpid()", False),
        ("9**9**9**9", False),
        ("(" * 150 + "3" + ")" * 150, False),
        ("", False),
    ],
)
def test_an_expression_solves_a_problem_or_not(expression, right):
    assert solves(expression, [3, 5, 7], 22) is right
    assert answer(f"<answer>{expression}</answer>", TRUTH) == float(right)


def test_other_mathematics_is_compared_by_value():
    assert answer("<answer>\\frac{1}{2}</answer>", "0.5") == 1.0
    assert answer("<answer>x + 1</answer>", "1 + x") == 1.0
    assert answer("no answer", "0.5") == 0.0


# The manager


def test_the_weights_make_the_reward_and_every_component_is_reported(tokenizer, answered):
    batch = answered(["1", "2"], ["36", "37"], ["36", "36"])
    weights = {"format": 0.5, "thinking": 0.0, "answer": 2.0}
    result = EnvRewardManager(tokenizer, num_examine=0, weights=weights)(batch, return_dict=True)
    extra = result["reward_extra_info"]
    assert list(extra) == ["score", "format", "thinking", "answer", "acc", "pred"]
    assert result["reward_tensor"].sum(-1).tolist() == extra["score"] == [0.0, 0.0]


def test_a_weight_without_a_component_is_an_error(tokenizer):
    with pytest.raises(ValueError, match="weights for style"):
        EnvRewardManager(tokenizer, num_examine=0, weights={"style": 1.0})


def test_a_component_that_raises_is_named():
    with pytest.raises(ComponentError, match="answer") as caught:
        score = ReasoningScore({"format": form, "answer": answer}, {"answer": 1.0})
        score(solution_str="<answer>1</answer>", ground_truth={"numbers": [1]})
    assert isinstance(caught.value.__cause__, KeyError)


def test_samples_and_their_breakdown_are_written_and_shown(tokenizer, answered, tmp_path, capsys):
    batch = answered(["1", "2", "3"], ["36", "37", "38"], ["36", "36", "36"])
    manager = EnvRewardManager(tokenizer, num_examine=0, log_dir=str(tmp_path / "log"), log_every=2, log_samples=2)
    for _ in range(3):
        manager(batch)
    lines = (tmp_path / "log" / "samples.jsonl").read_text().splitlines()
    assert len(lines) == 4  # of the first batch and the third
    sample = json.loads(lines[0])
    assert (sample["response"], sample["ground_truth"]) == ("36", "36")
    assert set(sample["components"]) == {"score", "format", "thinking", "answer", "acc", "pred"}
    assert "reward  format  thinking  answer  acc   expected" in capsys.readouterr().out


# The environment


def test_a_wrong_answer_may_be_tried_again():
    env = make_env({"max_turns": 2})
    question, info = env.reset(options=environment_rows("train", {"source": "sample"})[0]["extra_info"])
    assert question == "Numbers: 3, 5, 7. Target: 22." and info == {"ground_truth": TRUTH}
    assert env.step("<answer>3 + 5 + 7</answer>")[1:4] == (0.0, False, False)
    assert env.step("so <answer>3 * 5 + 7</answer>")[:4] == ("", 1.0, True, False)
