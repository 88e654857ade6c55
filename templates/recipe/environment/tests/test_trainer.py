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
