"""What processes send each other arrives as it was, and its tensors are not pickled."""

from __future__ import annotations

import json
from pathlib import Path

from tests.processes.launching import run_driver

DRIVER = Path(__file__).with_name("exchange_driver.py")
SMALL = 6000  # bytes: of all that is pickled, while the tensors have 180,000


def test_values_arrive_as_they_were_without_their_tensors_being_pickled(project: Path, tmp_path: Path) -> None:
    results = json.loads(run_driver(project, DRIVER, None, tmp_path, timeout=100).splitlines()[-1])
    assert len(results) == 2
    for result in results:
        assert result.pop("pickled") < SMALL
        assert result == {"gathered": True, "alike": True, "batches": True, "told": True}
