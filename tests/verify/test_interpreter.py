import sys
from pathlib import Path

import pytest

from extractor.usecases.verify import interpreter, run_verify
from extractor.usecases.verify.closed_imports import name_import, read_requirements
from extractor.usecases.verify.report import CheckStatus
from extractor.values.errors import CheckFailed
from tests.verify.projects import small


def test_a_named_python_must_exist(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="cannot be started") as caught:
        interpreter.choose(tmp_path, str(tmp_path / "none"))
    assert "--python" in caught.value.hint


def test_a_python_without_torch_fails_with_a_hint(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    bare.chmod(0o755)
    report = run_verify(small(tmp_path / "p", {"toy/core.py": "x = 1\n"}), source=None, python=str(bare))
    assert not report.ok
    failed = {check.name: check for check in report.checks}
    assert failed["importable"].status is CheckStatus.FAILED
    assert "does not have torch" in failed["importable"].summary
    assert failed["parity"].status is CheckStatus.SKIPPED


def test_a_script_that_dies_is_reported_with_what_it_printed(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="running this ended with exit code 1 and without a result") as caught:
        interpreter.run_jobs(sys.executable, "none", {"this": {}}, tmp_path, 60)
    assert "KeyError: 'none'" in caught.value.hint


def test_requirements_as_import_names(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["Hydra-Core>=1", "torch"]\noptional-dependencies = {dev = ["pytest"]}\n',
        encoding="utf-8",
    )
    assert read_requirements(tmp_path) == ({"hydra", "torch"}, {"pytest"}, set())
    assert name_import("hydra-core") == "hydra"
    assert name_import("qwen-vl-utils") == "qwen_vl_utils"
    assert read_requirements(tmp_path / "none") == (set(), set(), set())
