"""Parity on real projects: nothing differs as they are emitted, and a change of one character is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.source import Source
from extractor.verify import run_verify, subject
from extractor.verify.parity import check_parity
from extractor.verify.report import Check, Status
from tests.verify.projects import mutate

pytestmark = [pytest.mark.network, pytest.mark.slow]


def parity(project: Path, source: Source, python: str) -> tuple[Check, Check]:
    numbers, coverage = check_parity(subject.read(project), source, python)
    return numbers, coverage


def differing(check: Check) -> set[str]:
    """Families of cases that differ."""
    return {line.split(": ")[1].partition("[")[0] for line in check.details if line.startswith("differs: ")}


def test_a_project_from_0_6_1(made_0_6_1: Path, verl_0_6_1: Source, python: str) -> None:
    numbers, coverage = parity(made_0_6_1, verl_0_6_1, python)
    assert numbers.status is Status.OK, numbers.details
    assert int(numbers.summary.split()[0]) > 750
    assert not [line for line in numbers.details if line.startswith(("differs", "fails"))]
    for path in ("training/core_algos.py", "protocol.py", "training/metric_utils.py", "training/trainer_functions.py"):
        (line,) = [line for line in coverage.details if line.startswith(f"toy/{path}")]
        assert "not covered" not in line


def test_a_project_from_0_5_0(made_0_5_0: Path, verl_0_5_0: Source, python: str) -> None:
    numbers, _ = parity(made_0_5_0, verl_0_5_0, python)
    assert numbers.status is Status.OK, numbers.details
    assert int(numbers.summary.split()[0]) > 450


def test_changes_are_found_and_named(copy_0_6_1: Path, verl_0_6_1: Source, python: str) -> None:
    """Several at once, since each run takes half a minute: each must show in its own family of cases."""
    core = "toy/training/core_algos.py"
    mutate(copy_0_6_1, core, "compute_grpo_outcome_advantage", "number")
    mutate(copy_0_6_1, "toy/utils/torch_functional.py", "masked_var", "number", -1)
    mutate(copy_0_6_1, "toy/workers/dp_critic.py", "compute_values", "product", -1)
    mutate(copy_0_6_1, "toy/data/rl_dataset.py", "__getitem__", "true")
    numbers, _ = parity(copy_0_6_1, verl_0_6_1, python)
    assert numbers.status is Status.FAILED
    found = differing(numbers)
    assert {"core_algos.advantage", "torch_functional.masked", "dp_critic", "rl_dataset"} <= found
    named = [line for line in numbers.details if line.startswith("differs: core_algos.advantage[grpo/outcome]")]
    assert len(named) == 1
    assert "elements differ, by at most" in named[0]
    assert named[0].endswith(f"({core} is edited)")
    # Nothing that does not touch the changes may differ.
    assert not found & {"protocol.make", "core_algos.kl_penalty", "core_algos.agg_loss", "metric.reduce_metrics"}


def test_code_that_fails_here_only_is_no_parity(copy_0_6_1: Path, verl_0_6_1: Source, python: str) -> None:
    text = (copy_0_6_1 / "toy/utils/metric/utils.py").read_text(encoding="utf-8")
    (copy_0_6_1 / "toy/utils/metric/utils.py").write_text(text + "\nraise ImportError('broken')\n", encoding="utf-8")
    report = run_verify(copy_0_6_1, source=verl_0_6_1, python=python)
    checks = {check.name: check for check in report.checks}
    assert not report.ok
    assert checks["hashes"].status is Status.REPORTED
    assert checks["importable"].status is Status.FAILED
    assert checks["parity"].status is Status.FAILED
    assert any(line.startswith("fails here only: metric.reduce_metrics") for line in checks["parity"].details)
