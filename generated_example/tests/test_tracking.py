# vextract:template base/tests/test_tracking.py - edit freely
"""What a run leaves behind, also when it is resumed or killed."""

import math

from omegaconf import OmegaConf

from generated_example.tracking.run_tracker import RunTracker, read_rows

CONFIG = OmegaConf.create({"trainer": {"logger": ["console"], "project_name": "p", "experiment_name": "e"}})
METRICS = {"critic/rewards/mean": 0.25, "actor/entropy": 1.5, "timing_s/gen": 0.02, "perf/throughput": 12345.0}


def test_metrics_and_generations_are_files_of_one_object_a_line(tmp_path, capsys):
    with RunTracker(CONFIG, tmp_path, total_steps=2) as tracker:
        for step in (1, 2):
            tracker.log_generations([{"prompt": "37=", "response": "48", "score": 1.0}], step)
            tracker.log({**METRICS, "actor/grad_norm": math.nan}, step)
    rows = read_rows(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == [1, 2]
    assert rows[0]["critic/rewards/mean"] == 0.25 and rows[0]["actor/grad_norm"] is None
    assert read_rows(tmp_path / "generations.jsonl")[1] == {"step": 2, "prompt": "37=", "response": "48", "score": 1.0}
    out = capsys.readouterr().out
    assert "step 1/2  reward 0.250  entropy 1.500  tokens/s 12345  (gen 20 ms)" in out


def test_a_resumed_run_forgets_what_came_after_its_checkpoint(tmp_path):
    with RunTracker(CONFIG, tmp_path, 9) as tracker:
        for step in range(1, 6):
            tracker.log({"critic/rewards/mean": 0.0}, step)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "critic/rew')  # killed while writing
    with RunTracker(CONFIG, tmp_path, 9, start_step=3) as tracker:
        tracker.log({"critic/rewards/mean": 1.0}, 4)
    values = [(row["step"], row["critic/rewards/mean"]) for row in read_rows(tmp_path / "metrics.jsonl")]
    assert values == [(1, 0.0), (2, 0.0), (3, 0.0), (4, 1.0)]


def test_a_new_run_in_an_old_directory_keeps_the_old_files(tmp_path):
    for value in (1.0, 2.0, 3.0):
        with RunTracker(OmegaConf.merge(CONFIG, {"value": value}), tmp_path, 1) as tracker:
            tracker.log({"critic/rewards/mean": value}, 1)
    values = {path.name: read_rows(path)[0]["critic/rewards/mean"] for path in tmp_path.glob("metrics*.jsonl")}
    assert values == {"metrics.1.jsonl": 1.0, "metrics.2.jsonl": 2.0, "metrics.jsonl": 3.0}
    assert {path.name: OmegaConf.load(path).value for path in tmp_path.glob("config*.yaml")} == {
        "config.1.yaml": 1.0,
        "config.2.yaml": 2.0,
        "config.yaml": 3.0,
    }
