"""What of a step's metrics a table shows, and how."""

import pytest
from toy.tracking.terminal import cells, duration, one_line, validation_score

METRICS = {"critic/rewards/mean": 0.25, "actor/entropy": 1.5, "timing_s/gen": 0.02, "perf/throughput": 12345.0}


def test_a_step_has_columns_for_what_it_has():
    metrics = {**METRICS, "val-core/a/acc/mean@1": 0.5, "val-core/b/acc/mean@1": 1.0, "val-aux/a/score/mean@1": 0.0}
    assert validation_score(metrics) == 0.75
    assert cells(metrics) == {"reward": "0.250", "val": "0.750", "entropy": "1.500", "tokens/s": "12345"}
    assert one_line(metrics) == "reward 0.250  val 0.750  entropy 1.500  tokens/s 12345  (gen 20 ms)"


def test_what_a_run_does_not_have_gets_no_column():
    assert list(cells(METRICS)) == ["reward", "entropy", "tokens/s"]
    assert cells({**METRICS, "actor/kl_loss": 2e-4})["KL"] == "0.0002"
    assert list(cells({**METRICS, "critic/vf_loss": 0.5}))[2] == "vf loss"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 ms"), (0.0312, "31 ms"), (0.1, "0.1 s"), (59.94, "59.9 s"), (125.3, "0:02:05"), (11_240, "3:07:20")],
)
def test_times_have_the_unit_that_suits_them(seconds, text):
    assert duration(seconds) == text
