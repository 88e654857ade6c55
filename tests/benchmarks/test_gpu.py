"""What is measured on a GPU: which settings a run gets, what a table shows, and the whole list on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import report
from benchmarks.gpu.cases import CASES, Case, Figure, Figures
from benchmarks.gpu.projects import NEEDED, CaseError, LeftOut, Project
from benchmarks.gpu.shapes import SHAPES, Shape

ROOT = Path(__file__).resolve().parents[2]


def project(tmp_path: Path, shape: str = "tiny", engine: str = "hf") -> Project:
    (tmp_path / "vextract.lock").write_text(f'[options]\nengine = "{engine}"\n', encoding="utf-8")
    (tmp_path / "model").mkdir()
    return Project(tmp_path, SHAPES[shape], tmp_path, 30.0)


def test_a_case_changes_settings_of_the_shape_which_change_those_of_all(tmp_path: Path) -> None:
    offload = "actor_rollout_ref.actor.fsdp_config.optimizer_offload"
    settings = project(tmp_path, "7b").settings(f"{offload}=false", "trainer.save_freq=2", "+data.more=1")
    keys = [setting.lstrip("+").partition("=")[0] for setting in settings]
    assert len(keys) == len(set(keys))
    assert {f"{offload}=false", "trainer.save_freq=2", "+data.more=1", "data.train_batch_size=16"} <= set(settings)
    assert "local.rollout_micro_batch_size=128" in settings
    (tmp_path / "vllm").mkdir()  # only the engine that reads a setting gets it
    assert not any("rollout_micro_batch_size" in one for one in project(tmp_path / "vllm", engine="vllm").settings())
    assert {case.engine for case in CASES} == set(NEEDED)
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.slow  # asks torch for the device
@pytest.mark.parametrize(("error", "fails"), [(CaseError("out of memory"), True), (LeftOut("no trl"), False)])
def test_what_cannot_be_measured_is_a_line_and_the_others_go_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    fails: bool,
) -> None:
    def breaks(project: Project) -> Figures:
        yield Figure("seconds before", 2.0, "s")
        raise error

    def works(project: Project) -> Figures:
        yield Figure("tokens", 12345.0, "/s", ("before", 1.5))

    cases = (Case("first", "hf", "", breaks), Case("second", "hf", "", works), Case("third", "vllm", "", works))
    monkeypatch.setattr(report, "CASES", cases)
    root, results = tmp_path / "p", tmp_path / "figures.jsonl"
    root.mkdir()
    project(root)
    assert report.measure([root], SHAPES["tiny"], results=results) is not fails
    shown = capsys.readouterr().out
    assert "| first | seconds before | 2 s |  |" in shown
    assert str(error) in shown
    assert "| second | tokens | 12,345/s | 1.50x of before |" in shown
    assert "third" not in shown
    assert [json.loads(line)["case"] for line in results.read_text(encoding="utf-8").splitlines()] == [
        "first",
        "second",
    ]


def test_shapes_are_those_of_their_names() -> None:
    def weights(shape: Shape) -> float:
        model = shape.model
        hidden, inner, heads = model["hidden_size"], model["intermediate_size"], model["num_attention_heads"]
        attention = 2 * hidden * hidden * (1 + model["num_key_value_heads"] / heads)
        layers = model["num_hidden_layers"] * (attention + 3 * hidden * inner)
        return float(layers + hidden * model["vocab_size"] * (1 if model["tie_word_embeddings"] else 2)) / 1e9

    named = {name: weights(SHAPES[name]) for name in ("half", "1.5b", "7b")}
    assert named == {name: pytest.approx(size, rel=0.02) for name, size in zip(named, (0.494, 1.54, 7.61), strict=True)}


@pytest.mark.thorough
@pytest.mark.slow
def test_the_list_runs_on_a_cpu(tmp_path: Path, verl: Path) -> None:
    from benchmarks.training import make_project

    root = make_project(tmp_path / "bench", package="bench_hf", features=NEEDED["hf"])
    command = [sys.executable, "-m", "benchmarks.gpu", str(root), "--shape", "tiny"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for case in CASES:
        if case.engine == "hf":
            assert f"| {case.name} | all of it |" in done.stdout
    assert "bit for bit | 1 |" in done.stdout
    assert "after Ctrl-C (130 with a checkpoint) | 130 |" in done.stdout
