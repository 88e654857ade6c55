from __future__ import annotations

from pathlib import Path

import pytest

from extractor.usecases.verify import subject
from extractor.usecases.verify.importable import check_importable
from extractor.usecases.verify.report import CheckStatus
from tests.verify.projects import small

# torch would take seconds.
GOOD = {"toy/core.py": "import yaml\n\nx = yaml.safe_load('1')\n", "toy/other.py": "from toy.core import x\n"}


def test_modules_that_need_only_what_is_required(tmp_path: Path, python: str) -> None:
    check = check_importable(subject.read(small(tmp_path / "p", GOOD)), python)
    assert check.status is CheckStatus.OK
    assert "3 vendored modules imported without Ray, verl" in check.summary


@pytest.mark.parametrize("package", ["ray", "verl", "pytest", "vllm"])
def test_what_is_not_required_cannot_be_imported(tmp_path: Path, python: str, package: str) -> None:
    project = small(tmp_path / "p", {**GOOD, "toy/core.py": f"import {package}\n"})
    check = check_importable(subject.read(project), python)
    assert check.status is CheckStatus.FAILED
    assert check.details[0] == f"toy.core: ModuleNotFoundError: No module named '{package}' (toy/core.py:1)"
