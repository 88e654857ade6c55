"""The page about runs: complete, safe to open, and the same for the same files."""

import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from extractor.cli.app import run
from extractor.usecases.report.curves import NUMBERS
from extractor.usecases.report.runs import read_runs
from tests.report.support import NASTY, write_run


def main(arguments: list[str]) -> int:
    return run(["report", *arguments])


def page_of(*runs: Path, output: Path) -> str:
    assert main([*map(str, runs), "-o", str(output)]) == 0
    return output.read_text(encoding="utf-8")


def data_of(page: str) -> Any:
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def charts_of(data: Any) -> dict[str, Any]:
    return {chart["name"]: chart for group in data["groups"] for chart in group["charts"]}


def test_a_page_holds_what_the_run_has_recorded(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one", 60, 0.02)
    assert main([str(run)]) == 0
    page = (run / "report.html").read_text(encoding="utf-8")
    data = data_of(page)
    assert [group["title"] for group in data["groups"]] == ["Reward", "Validation", "Actor", "Lengths", "Timing"]
    charts = charts_of(data)
    (reward,) = charts["critic/rewards"]["lines"]
    assert charts["critic/rewards"]["band"]
    assert reward["v"] == pytest.approx([1 - math.exp(-0.02 * step) for step in range(1, 61)], rel=1e-3)
    assert reward["lo"] == pytest.approx([value - 0.5 for value in reward["v"]], rel=1e-2)
    assert charts["actor/grad_norm"]["lines"][0]["v"][48:51] == [0.020408, None, 0.019608]
    (validation,) = charts["val-core/data/acc/mean@1"]["lines"]
    (told,) = data["runs"]
    assert [told["step"][row] for row in validation["rows"]] == [10, 20, 30, 40, 50, 60]
    assert [told["time"][row] for row in reward["rows"]] == [2.5 * step for step in range(1, 61)]
    for text in ("step 60 of 60, finished", "optim.lr", "python main.py"):
        assert text in page
    (split,) = data["samples"]
    assert (split["split"], split["steps"]) == ("validation", [10, 20, 30, 40, 50, 60])
    _, sample = split["prompts"]
    assert (sample["prompt"], sample["truth"]) == (NASTY, "nothing")
    row = sample["runs"][0][0]
    assert (row["step"], row["score"], row["parts"][1]) == (10, 0, ["note", NASTY])


def test_nothing_that_a_model_writes_becomes_part_of_the_page(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one", 30, 0.02)
    with (run / "config.yaml").open("a") as config:
        config.write("server: {api_key: hunter2}\n")
    with (run / "generations.jsonl").open("a") as samples:
        samples.write(
            json.dumps({"step": 30, "prompt": f"{NASTY} {{{{ 7 * 7 }}}} é \u2028 \x00", "response": "r"}) + "\n"
        )
    page = page_of(run, output=tmp_path / "page.html")
    assert "<img" not in page
    assert "49" not in re.findall(r" (\d+) é", page)
    assert page.count("</script>") == 2
    assert {link[0] for link in re.findall(r'(?:src|href)="([^"]*)"', page)} == {"#"}
    assert "hunter2" not in page


def test_runs_are_compared(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / "a", 30, 0.02), write_run(tmp_path / "b", 30, 0.04, lr="1e-5")]
    page = page_of(*runs, output=tmp_path / "page.html")
    data = data_of(page)
    assert [run["name"] for run in data["runs"]] == ["a", "b"]
    assert [line["run"] for line in charts_of(data)["critic/rewards"]["lines"]] == [0, 1]
    assert re.findall(r'<tr class="differs"><th scope="row">([^<]*)</th>', page) == ["optim.lr"]
    assert all(data["samples"][0]["prompts"][0]["runs"])


def test_a_run_that_goes_on_without_validation(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one", 30, 0.02, bare=True)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 31, "critic/rewards/me')
    page = page_of(run, output=tmp_path / "page.html")
    assert "No samples are recorded" in page
    assert page_of(run, output=tmp_path / "2.html") == page, "the same runs give the same bytes"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2.html", "one", "page.html"]


def test_an_empty_run_and_one_that_only_has_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("empty", ""), ("bare", '{"step": 1, "loss": NaN}\n{"step": 2, "loss": 0.5}\n[]\n')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "metrics.jsonl").write_text(text)
    assert "Nothing is logged yet" in page_of(tmp_path / "empty", output=tmp_path / "page.html")
    assert "has no metrics yet" in capsys.readouterr().err
    page = page_of(tmp_path / "empty", tmp_path / "bare", output=tmp_path / "page.html")
    assert charts_of(data_of(page))["loss"]["lines"] == [{"run": 1, "rows": [0, 1], "v": [None, 0.5]}]
    assert charts_of(data_of(page))["loss"]["gaps"] == ["bare: 1 value is not finite, the first at step 1."]
    assert "no config.yaml beside" in page_of(tmp_path / "bare", output=tmp_path / "page.html")


def test_what_is_no_run_is_an_error_with_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "project/one", 3, 0.1)
    for path, wanted in ((tmp_path / "project", "has no metrics.jsonl"), (tmp_path / "project/two", "does not exist")):
        assert main([str(path)]) == 2
        error = capsys.readouterr().err
        assert wanted in error
        assert f"hint: runs near it: {tmp_path / 'project/one'}" in error
    assert main([str(tmp_path / "project/one"), "-o", str(tmp_path / "nowhere/page.html")]) == 2
    assert "hint: name a file in another place" in capsys.readouterr().err


def test_the_time_counts_from_the_first_start(tmp_path: Path) -> None:
    times = [(1, 110.0), (2, 120.0), (3, 1010.0), (4, 1030.0)]
    rows = [json.dumps({"step": step, "time": time}) for step, time in times]
    (tmp_path / "metrics.jsonl").write_text("\n".join(rows))
    starts = [{"time": 100.0, "step": 0}, {"time": 1000.0, "step": 2, "total_steps": 9}]
    (tmp_path / "environment.json").write_text(json.dumps({"starts": starts}))
    (run,) = read_runs([tmp_path])
    assert run.elapsed == (10.0, 20.0, 910.0, 930.0)
    assert run.status == "step 4 of 9, not ended"


@pytest.mark.slow
def test_a_long_run_keeps_its_extremes_and_the_page_its_size(tmp_path: Path) -> None:
    steps = 3000
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for step in range(1, steps + 1):
            row = {"step": step, "spike": 1000.0 if step == 1234 else 1.0}
            file.write(json.dumps(row | {f"m/{i}": step * i / 7 for i in range(150)}) + "\n")
    texts = {"prompt": "q", "response": "long " * 20_000, "score": 1.0}
    samples = [json.dumps({"step": step, **texts}) + "\n" for step in range(0, steps, 10)]
    (tmp_path / "generations.jsonl").write_text("".join(samples))
    page = page_of(tmp_path, output=tmp_path / "page.html")
    assert len(page) < 3_000_000
    data = data_of(page)
    (line,) = charts_of(data)["spike"]["lines"]
    assert max(line["hi"]) == 1000
    assert line["lo"] == [1] * len(line["lo"])
    assert sum(len(line["v"]) * 3 for chart in charts_of(data).values() for line in chart["lines"]) <= NUMBERS
    rows = data["samples"][0]["prompts"][0]["runs"][0]
    assert (rows[0]["step"], rows[-1]["step"]) == (0, steps - 10)
    assert "characters left out" in rows[0]["response"]


def test_what_is_told_of_values(tmp_path: Path) -> None:
    rows = [{"step": step, "loss": None if step > 3 else step, "dead": None} for step in range(1, 7)]
    text = "".join(json.dumps(row | {"critic/rewards/frac_zero_std": row["step"] / 9}) + "\n" for row in rows)
    (tmp_path / "metrics.jsonl").write_text(text)
    data = data_of(page_of(tmp_path, output=tmp_path / "page.html"))
    assert charts_of(data)["loss"]["gaps"] == ["3 values are not finite, the first at step 4."]
    assert "dead" not in charts_of(data)
    (note,) = charts_of(data)["critic/rewards/frac_zero_std"]["notes"]
    assert "learn nothing" in note


def test_the_committed_pictures_are_whole() -> None:
    """Those of README and the site, which scripts/pictures.py makes: small, and asking for nothing else."""
    table, report = (Path(__file__).parents[2] / "docs/pictures" / name for name in ("live-table.svg", "report.png"))
    svg = ElementTree.parse(table).getroot()
    text = "".join(part.text or "" for part in svg.iter("{http://www.w3.org/2000/svg}text")).replace("\xa0", " ")
    assert re.search(r"step\s*6\d/100", text)
    assert "reward" in text
    assert "url(http" not in table.read_text(encoding="utf-8")
    assert report.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert max(path.stat().st_size for path in (table, report)) < 200_000
