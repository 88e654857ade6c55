"""The page about runs: complete, safe to open, and the same for the same files."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from extractor.cli.app import run
from extractor.usecases.report.curves import NUMBERS, make_buckets
from extractor.usecases.report.runs import read_runs

NASTY = "</script><img src=x onerror=alert(1)> {{ 7 * 7 }} é 🦙 \u2028 \x00"


def main(arguments: list[str]) -> int:
    return run(["report", *arguments])


def make_run(path: Path, lr: float = 1.0, *, validation: bool = True, close: bool = True) -> Path:
    """Write what a run of 30 steps records; the records of an earlier one in the directory get a number."""
    for old in path.glob("*.*") if path.exists() else ():
        old.rename(old.with_name(f"{old.stem}.1{old.suffix}"))
    path.mkdir(parents=True, exist_ok=True)
    rows, samples = [], []
    for step in range(1, 31):
        metrics = {"critic/rewards/mean": lr * step, "critic/rewards/min": -1.0, "critic/rewards/max": 99.0}
        metrics |= {"actor/grad_norm": None if step == 3 else 1 / step, "actor/lr": lr}
        metrics |= {"timing_s/step": 1.0, "timing_s/gen": 0.25, "timing_s/testing": 0.5}
        if validation and step % 10 == 0:
            metrics["val-core/d/acc/mean@1"] = step / 30
            row = {"prompt": NASTY, "response": f"{NASTY} {step}", "ground_truth": {"a": 1}, "score": None}
            samples.append({"step": step, **row, "data_source": "d", "components": {"acc": 0.5, "why": NASTY}})
        rows.append({"step": step, "time": 1000.0 + step, **metrics})
    write_rows(path, rows)
    (path / "generations.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    config = {"trainer": {"project_name": "p", "experiment_name": path.name}, "server": {"api_key": "hunter2"}}
    (path / "config.yaml").write_text(yaml.safe_dump({**config, "optim": {"lr": lr, "name": NASTY}}))
    start = {"time": 1000.0, "step": 0, "total_steps": 30, "commit": "abc", "packages": {"torch": "2.13.0"}}
    end = {"end": {"outcome": "finished"}} if close else {}
    (path / "environment.json").write_text(json.dumps({"starts": [{**start, **end}]}))
    return path


def page_of(*runs: Path, output: Path) -> str:
    assert main([*map(str, runs), "-o", str(output)]) == 0
    return output.read_text(encoding="utf-8")


def data_of(page: str) -> Any:
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def charts_of(data: Any) -> dict[str, Any]:
    return {chart["name"]: chart for group in data["groups"] for chart in group["charts"]}


def test_a_page_holds_what_the_run_has_recorded(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one")
    assert main([str(run)]) == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    data = data_of(page)
    assert [group["title"] for group in data["groups"]] == ["Reward", "Validation", "Actor", "Timing"]
    charts = charts_of(data)
    (reward,) = charts["critic/rewards"]["lines"]
    assert charts["critic/rewards"]["band"]
    assert reward["v"] == list(range(1, 31))
    assert reward["lo"] == [-1] * 30
    assert reward["hi"] == [99] * 30
    assert charts["actor/grad_norm"]["lines"][0]["v"][1:4] == [0.5, None, 0.25]
    (validation,) = charts["val-core/d/acc/mean@1"]["lines"]
    (told,) = data["runs"]
    assert [told["step"][row] for row in validation["rows"]] == [10, 20, 30]
    assert [told["time"][row] for row in reward["rows"]] == list(range(1, 31))
    assert charts["actor/lr"]["lines"][0]["v"] == [1] * 30
    for text in ("p / one", "step 30 of 30, finished", "best 30 at 30", "optim.lr", "git commit", "torch"):
        assert text in page
    (split,) = data["samples"]
    assert (split["split"], split["steps"]) == ("validation", [10, 20, 30])
    (sample,) = split["prompts"]
    assert sample["prompt"] == NASTY
    assert sample["truth"] == '{"a": 1}'
    assert [row["step"] for row in sample["runs"][0]] == [10, 20, 30]
    assert sample["runs"][0][0]["score"] is None
    assert sample["runs"][0][0]["parts"] == [["acc", 0.5], ["why", NASTY]]


def test_nothing_that_a_model_writes_becomes_part_of_the_page(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "one"), output=tmp_path / "page.html")
    assert "<img" not in page
    assert "49" not in re.findall(r"> (\d+) é", page)
    assert page.count("</script>") == 2
    assert {link[0] for link in re.findall(r'(?:src|href)="([^"]*)"', page)} == {"#"}
    assert "hunter2" not in page


def test_runs_are_compared(tmp_path: Path) -> None:
    page = page_of(make_run(tmp_path / "a"), make_run(tmp_path / "b", lr=2.0), output=tmp_path / "page.html")
    data = data_of(page)
    assert [run["name"] for run in data["runs"]] == ["a", "b"]
    lines = charts_of(data)["critic/rewards"]["lines"]
    assert [(line["run"], line["v"][-1]) for line in lines] == [(0, 30), (1, 60)]
    assert "actor/lr" in charts_of(data)
    differing = re.findall(r'<tr class="differs"><th scope="row">([^<]*)</th>', page)
    assert "optim.lr" in differing
    assert "server.api_key" not in differing
    assert all(data["samples"][0]["prompts"][0]["runs"])


def test_a_run_that_goes_on_without_validation(tmp_path: Path) -> None:
    run = make_run(tmp_path / "one", validation=False, close=False)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 31, "critic/rewards/me')
    page = page_of(run, output=tmp_path / "page.html")
    assert "step 30 of 30, not ended" in page
    assert "No samples are recorded" in page
    assert page_of(run, output=tmp_path / "2.html") == page, "the same runs give the same bytes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.html", "one", "page.html"]


def test_an_empty_run_and_one_that_only_has_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path / "empty", [])
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare/metrics.jsonl").write_text('{"step": 1, "loss": NaN}\n{"step": 2, "loss": 0.5}\n[]\n')
    assert "Nothing is logged yet" in page_of(tmp_path / "empty", output=tmp_path / "page.html")
    assert "has no metrics yet" in capsys.readouterr().err
    page = page_of(tmp_path / "empty", tmp_path / "bare", output=tmp_path / "page.html")
    assert charts_of(data_of(page))["loss"]["lines"] == [{"run": 1, "rows": [0, 1], "v": [None, 0.5]}]
    assert charts_of(data_of(page))["loss"]["gaps"] == ["bare: 1 value is not finite, the first at step 1."]
    assert "no config.yaml beside" in page_of(tmp_path / "bare", output=tmp_path / "page.html")


def test_what_is_no_run_is_an_error_with_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "project/one")
    for path, wanted in ((tmp_path / "project", "has no metrics.jsonl"), (tmp_path / "project/two", "does not exist")):
        assert main([str(path)]) == 2
        error = capsys.readouterr().err
        assert wanted in error
        assert f"hint: runs near it: {tmp_path / 'project/one'}" in error
    assert main([str(tmp_path / "project/one"), "-o", str(tmp_path / "nowhere/page.html")]) == 2
    assert "hint: name a file in another place" in capsys.readouterr().err


def test_an_earlier_run_in_the_same_directory(tmp_path: Path) -> None:
    make_run(tmp_path / "one", lr=2.0)
    run = make_run(tmp_path / "one", lr=1.0)
    page = page_of(run, run / "metrics.1.jsonl", output=tmp_path / "page.html")
    assert [line["v"][0] for line in charts_of(data_of(page))["actor/lr"]["lines"]] == [1, 2]


def test_the_time_counts_from_the_first_start(tmp_path: Path) -> None:
    times = [(1, 110.0), (2, 120.0), (3, 1010.0), (4, 1030.0)]
    rows = [json.dumps({"step": step, "time": time}) for step, time in times]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows))
    starts = [{"time": 100.0, "step": 0}, {"time": 1000.0, "step": 2, "total_steps": 9}]
    (tmp_path / "environment.json").write_text(json.dumps({"starts": starts}))
    (run,) = read_runs([tmp_path])
    assert run.elapsed == (10.0, 20.0, 910.0, 930.0)
    assert (run.last_step, run.total_steps, run.status) == (4, 9, "step 4 of 9, not ended")


@pytest.mark.slow
def test_a_long_run_keeps_its_extremes_and_the_page_its_size(tmp_path: Path) -> None:
    steps = 3000
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for step in range(1, steps + 1):
            row = {"step": step, "spike": 1000.0 if step == 1234 else 1.0}
            file.write(json.dumps(row | {f"m/{i}": step * i / 7 for i in range(150)}) + "\n")
    with (tmp_path / "generations.jsonl").open("w") as file:
        for step in range(0, steps, 10):
            file.write(json.dumps({"step": step, "prompt": "q", "response": "long " * 20_000, "score": 1.0}) + "\n")
    page = page_of(tmp_path, output=tmp_path / "page.html")
    assert len(page) < 3_000_000
    data = data_of(page)
    (line,) = charts_of(data)["spike"]["lines"]
    assert max(line["hi"]) == 1000
    assert line["lo"] == [1] * len(line["lo"])
    assert sum(len(line["v"]) * 3 for chart in charts_of(data).values() for line in chart["lines"]) <= NUMBERS
    rows = data["samples"][0]["prompts"][0]["runs"][0]
    assert rows[0]["step"] == 0
    assert rows[-1]["step"] == steps - 10
    assert "characters left out" in rows[0]["response"]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.mkdir(exist_ok=True)
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_is_told_of_values(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": None if step > 3 else step, "dead": None} for step in range(1, 7)]
    for row in rows:
        row["critic/rewards/frac_zero_std"] = row["step"] / 9
    data = data_of(page_of(write_rows(tmp_path / "run", rows), output=tmp_path / "page.html"))
    assert charts_of(data)["loss"]["gaps"] == ["3 values are not finite, the first at step 4."]
    assert "dead" not in charts_of(data)
    (note,) = charts_of(data)["critic/rewards/frac_zero_std"]["notes"]
    assert "learn nothing" in note


def test_samples_of_training_stand_at_their_steps(tmp_path: Path) -> None:
    run = write_rows(tmp_path / "run", [{"step": 400}])
    with (run / "generations.jsonl").open("w") as file:
        for step in range(1, 401):
            for index in range(20):
                row = {"prompt": f"{step} {index}", "response": "r" * 100, "score": 1.0, "split": "train"}
                file.write(json.dumps({"step": step, **row}) + "\n")
        file.write(json.dumps({"step": 400, "prompt": "v", "response": "w"}) + "\n")
    validation, training = data_of(page_of(run, output=tmp_path / "page.html"))["samples"]
    assert [prompt["prompt"] for prompt in validation["prompts"]] == ["v"]
    assert training["split"] == "train"
    assert training["left_out"] == ["some steps, evenly through the run"]
    assert len(training["steps"]) == 100
    assert {training["steps"][0], training["steps"][-1]} == {1, 400}
    assert len(training["prompts"]) == 100 * 8
    assert training["prompts"][-1]["prompt"] == "400 7"
    assert training["prompts"][-1]["runs"][0][0]["step"] == 400


def test_buckets_cover_all_points_once() -> None:
    for count, limit in ((0, 5), (1, 5), (5, 5), (6, 5), (1001, 1000)):
        parts = make_buckets(count, limit)
        assert [point for part in parts for point in part] == list(range(count))
        assert len(parts) <= limit
