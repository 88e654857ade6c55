"""Upstream's own tests on real projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from extractor.source import Source
from extractor.verify import subject
from extractor.verify.report import Status
from extractor.verify.upstream_tests import check_upstream_tests
from tests.verify.projects import mutate

pytestmark = [pytest.mark.network, pytest.mark.slow]


def test_they_pass_on_a_project_from_0_6_1(made_0_6_1: Path, verl_0_6_1: Source, python: str) -> None:
    check = check_upstream_tests(subject.read(made_0_6_1), verl_0_6_1, python)
    assert check.status is Status.OK, check.details
    assert int(check.summary.split()[0]) >= 70
    assert "0 pass upstream only" in check.summary
    assert any("needs Ray" in line for line in check.details)


def test_they_pass_on_a_project_from_0_5_0(made_0_5_0: Path, verl_0_5_0: Source, python: str) -> None:
    check = check_upstream_tests(subject.read(made_0_5_0), verl_0_5_0, python)
    assert check.status is Status.OK, check.details
    assert int(check.summary.split()[0]) >= 35


def test_one_that_fails_here_only_is_a_failure(copy_0_6_1: Path, verl_0_6_1: Source, python: str) -> None:
    mutate(copy_0_6_1, "toy/protocol.py", "unpad_dataproto", "minus")
    check = check_upstream_tests(subject.read(copy_0_6_1), verl_0_6_1, python)
    assert check.status is Status.FAILED
    assert any(line.startswith("passes upstream, failed here: tests/test_protocol_on_cpu.py") for line in check.details)
