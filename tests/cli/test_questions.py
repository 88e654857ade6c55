"""`vextract new` asks in a terminal for what it was not given."""

from pathlib import Path

import pytest

from extractor.project import lock
from tests.cli.terminal import in_terminal


@pytest.mark.usefixtures("verl")
def test_a_project_is_made_of_the_answers(tmp_path: Path) -> None:
    shown = in_terminal("new", cwd=tmp_path, answers=["mine", "", "nosuch", "rloo", ""])  # the third is asked for again
    said = "the same without questions: `vextract new mine --engine hf --algorithm rloo --recipe toy`"
    assert said in "\n".join(shown)
    options = lock.read(tmp_path / "mine").options
    assert (options.package, options.engine, options.algorithm, options.recipe) == ("mine", "hf", "rloo", "toy")
