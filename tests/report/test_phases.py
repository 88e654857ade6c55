"""What a step consists of has one list; whatever shows the phases must know each of them."""

from __future__ import annotations

import re
from pathlib import Path

from extractor.usecases.report import phases
from tests.project.support import REPOSITORY

TEMPLATES = REPOSITORY / "templates"


def test_every_phase_that_is_timed_is_in_the_list_and_has_its_colors() -> None:
    shown = (*phases.STEP_PHASES, *phases.AFTER_STEP)
    timed = {
        name
        for path in (*TEMPLATES.rglob("*.py"), *TEMPLATES.rglob("*.py.jinja"))
        for name in re.findall(r'timed\("(\w+)", ', path.read_text(encoding="utf-8"))
    }
    assert timed - {"step"} == set(shown)
    style = Path(phases.__file__).with_name("page.css").read_text(encoding="utf-8")
    assert set(re.findall(r"--phase-(\w+):", style)) == {*shown, "other"}
