# vextract:template - edit freely
"""A short run of the whole program, in episodes of the environment."""

import math

from __package__.tracking.run_tracker import read_rows


def test_a_step_reports_what_became_of_the_episodes(train):
    rows = read_rows(train("trainer.total_training_steps=2", "trainer.val_before_train=true") / "metrics.jsonl")
    assert [row["step"] for row in rows] == [0, 1, 2]
    assert [name for name in rows[0] if name.startswith("val-core/")]
    assert all(math.isfinite(value) for value in rows[1].values())
    assert rows[1]["env/errors"] == rows[1]["env/timeouts"] == 0


def test_the_same_seed_gives_the_same_run(train):
    runs = [reproducible(read_rows(train("local.seed=1") / "metrics.jsonl")) for _ in range(2)]
    assert runs[0] == runs[1]


def reproducible(rows):
    """Return what of the metrics does not depend on the machine and the clock."""
    return [{k: v for k, v in row.items() if not k.startswith(("perf/", "time", "timing_"))} for row in rows]
