"""How processes that hold one engine together come to their responses; the engine itself is in test_training.py."""

import json
from pathlib import Path

import pytest

from tests.project.running import check_python
from tests.project.support import Configuration, make
from tests.releases import NEWEST

DRIVER = Path(__file__).with_name("team_driver.py")


@pytest.mark.thorough
def test_processes_may_ask_more_or_less_often_and_draw_with_the_numbers_of_the_first(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    root = make(Configuration(NEWEST[-1], "vllm"), tmp_path / "project").root
    check_python(root, str(DRIVER), "toy", str(tmp_path))
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first["calls"] == second["calls"] == [["a", "b", "e", "f", "g"], ["c"], ["d"]]
    asked = [[(prompt, sampling) for prompt, sampling, _ in answer] for answer in first["answers"] + second["answers"]]
    own, other = "sampling of 0", "sampling of 1"
    assert asked == [[("a", own), ("b", own)], [("c", own)], [("d", own)], [("e", other), ("f", other), ("g", other)]]
    numbers = [number for answer in first["answers"] + second["answers"] for _, _, number in answer]
    assert len(set(numbers)) == len(numbers)
    assert first["moved"]
    assert not second["moved"], "its own numbers are for what it alone draws"
