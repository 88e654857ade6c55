"""What of a step's metrics a table shows, and how."""

import math

import pytest
from toy.tracking.terminal import (
    COLUMNS,
    cell,
    duration,
    one_line,
    sparkline,
    telling,
    validation_score,
    values,
)

METRICS = {"critic/rewards/mean": 0.25, "actor/entropy": 1.5, "timing_s/gen": 0.02, "perf/throughput": 12345.0}


def titles(*steps: dict[str, float]) -> list[str]:
    shown = telling([values(step) for step in steps])
    return [column.title for column in COLUMNS if column.title in shown]


def test_a_step_has_columns_for_what_it_has():
    metrics = {**METRICS, "val-core/a/acc/mean@1": 0.5, "val-core/b/acc/mean@1": 1.0, "val-aux/a/score/mean@1": 0.0}
    assert validation_score(metrics) == 0.75
    step = values(metrics)
    assert {column.title: cell(column, step) for column in COLUMNS if cell(column, step)} == {
        "reward": "0.250",
        "val": "0.750",
        "entropy": "1.500",
        "tokens/s": "12.3k",
    }
    assert one_line(metrics) == "reward 0.250  val 0.750  entropy 1.500  tokens/s 12.3k  (gen 20 ms)"


def test_what_a_run_does_not_have_gets_no_column():
    assert titles(METRICS) == ["reward", "entropy", "tokens/s"]
    assert titles({**METRICS, "actor/kl_loss": 0.0, "actor/ppo_kl": 0.1}) == ["reward", "entropy", "tokens/s"]
    assert titles({**METRICS, "actor/kl_loss": 0.0}, {**METRICS, "actor/kl_loss": 2e-4})[1] == "KL"
    assert titles({**METRICS, "critic/vf_loss": 0.5})[2] == "vf loss"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.0312, "31 ms"),
        (0.1, "0.1 s"),
        (9.589, "9.6 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (125.3, "2 min 05 s"),
        (3599.6, "1 h 00 min"),
        (11_240, "3 h 07 min"),
    ],
)
def test_times_have_the_unit_that_suits_them(seconds, text):
    assert duration(seconds) == text


def test_sparkline():
    assert sparkline([0.0, 0.5, 1.0, math.nan]) == "▁▅█" and sparkline([]) == ""
