"""How long phases take."""

import pytest
from toy.tracking import timed


def test_phases_nest_and_a_phase_that_raises_is_not_counted():
    seconds: dict[str, float] = {}
    with timed("step", seconds):
        with pytest.raises(ValueError, match="boom"), timed("gen", seconds):
            raise ValueError("boom")
        with timed("adv", seconds):
            pass
    assert list(seconds) == ["adv", "step"] and seconds["adv"] <= seconds["step"]
