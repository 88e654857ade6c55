"""How runs on a GPU are set and shown, and what a mutant may be, how they are drawn and named."""

import json
from pathlib import Path

import pytest

from benchmarks.gpu import report
from benchmarks.gpu.cases import CASES, Case, Figure, Figures
from benchmarks.gpu.projects import NEEDED, CaseError, LeftOut, Project
from benchmarks.gpu.shapes import SHAPES
from benchmarks.mutants import Mutant, _draw, chosen
from benchmarks.mutations import Mutation, mutations


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


TEXT = b'''"""A module."""
import logging

LIMIT = 3


class Rate:
    """Doc."""

    least: float = 0.5

    def at(self, step: int, warm: int = 4, *, name: str = "a") -> float:
        """Doc."""
        logging.info("at %s", step)
        if step < warm or not self.least:
            return step / max(1, warm)
        total = step
        total -= self.least
        total = min(total, key=-1)
        return total
'''


def of(function: str, kind: str) -> set[tuple[str, str]]:
    found = [item for item in mutations(TEXT) if item.function == function and item.kind == kind]
    return {(TEXT[item.start : item.end].decode(), item.new) for item in found}


def test_every_kind_of_change() -> None:
    assert of("Rate.at", "default") == {("4", "5"), ("4", "3"), ('"a"', "'ax'")}
    assert of("Rate", "constant") == {("0.5", "1.0"), ("0.5", "1.5")}
    operators = {("<", "<="), ("or", "and"), ("not self.least", "(self.least)"), ("/", "*"), ("-=", "+=")}
    assert of("Rate.at", "operator") == operators
    assert {("min", "max"), ("max", "min"), ("key=-1", "")} == of("Rate.at", "call")
    assert ("total -= self.least", "pass") in of("Rate.at", "statement")
    assert ("total = step", "pass") not in of("Rate.at", "statement")  # what follows would have no such name
    assert ("step < warm or not self.least", "False") in of("Rate.at", "condition")


def test_mutants_are_drawn_by_a_seed_and_named_by_function_change_and_number() -> None:
    mutants = [Mutant("a.py", "verl.a", TEXT, item, ("case",)) for item in mutations(TEXT)]
    drawn = _draw(mutants, 3, 5, "")
    assert drawn == _draw(mutants, 3, 5, "")
    assert len({mutant.mutation.line for mutant in drawn}) == 5
    assert drawn != _draw(mutants, 4, 5, "")
    assert {mutant.mutation.function for mutant in _draw(mutants, 3, 50, ":Rate.at")} == {"Rate.at"}
    named = [("verl.a:Rate.at", "condition", "True", 1), ("verl.a:Rate", "constant", "1.5", 1)]
    (first, second) = chosen(mutants, named)
    assert first.mutation.new == "True"
    assert isinstance(second.mutation, Mutation)
    assert second.mutation.whole
