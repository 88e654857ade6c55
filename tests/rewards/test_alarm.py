"""The alarm in training: what it warns of, and what it does not."""

import random
from collections.abc import Callable
from types import ModuleType

Library = Callable[[str], ModuleType]
STEPS = 60


def run(library: Library, steps: int = STEPS, noise: float = 0.05, **ends: tuple[float, float]) -> list[str]:
    """Metrics that go from one value to another over a run, noisily, and what the alarm says of them."""
    alarm, draw = library("alarm").RewardAlarm(window=20), random.Random(0)
    names = {"score": "critic/score/mean", "length": "response_length/mean"}
    said = []
    for step in range(steps):
        metrics = {
            names.get(name, f"reward/{name}/mean"): (a + (b - a) * step / steps) * (1 + noise * draw.uniform(-1, 1))
            for name, (a, b) in ends.items()
        }
        said += alarm.look(metrics)
    return said


ASTRAY: tuple[tuple[dict[str, tuple[float, float]], str], ...] = (
    ({"length": (100, 900)}, "responses went from"),
    ({"length": (900, 50)}, "responses went from"),
    ({"length": (100, 110), "acc": (0.6, 0.2)}, "acc fell from"),
    ({"length": (100, 110), "format": (1.0, 0.5)}, "format fell from"),
)
USUAL: tuple[dict[str, tuple[float, float]], ...] = (
    {"score": (0.2, 0.8), "length": (100, 150), "acc": (0.2, 0.7)},  # it learns
    {"score": (0.5, 0.5), "length": (100, 900)},  # the reward does not rise
    {"score": (0.8, 0.2), "acc": (0.8, 0.2)},
    {"score": (0.2, 0.8), "other": (0.8, 0.2)},  # not a check
    {"length": (100, 900)},
)


def test_a_reward_that_rises_while_something_goes_astray_is_told(library: Library) -> None:
    for ends, words in ASTRAY:
        said = run(library, score=(0.2, 0.8), **ends)
        assert 1 <= len(said) <= 2, ends  # not again at each step
        assert all("over 40 steps the reward rose from" in text and words in text for text in said)
    for ends in USUAL:
        assert run(library, **ends) == [], ends


def test_it_needs_two_windows_and_can_be_off(library: Library) -> None:
    assert run(library, steps=39, score=(0.2, 0.8), length=(100, 900)) == []
    alarm = library("alarm").RewardAlarm(window=0)
    assert [alarm.look({"critic/score/mean": float(n), "response_length/mean": 2.0**n}) for n in range(50)] == [[]] * 50
