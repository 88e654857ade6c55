# vextract:template - edit freely
"""When a run ends early."""

import pytest
from omegaconf import OmegaConf

from __package__.errors import ConfigError
from __package__.training.early_stopping import EarlyStopping


def stopping(**settings):
    defaults = {"patience": 2, "min_delta": 0.0, "metric": None, "lower_is_better": False}
    return EarlyStopping(OmegaConf.create({**defaults, **settings}))


def after(watch, scores):
    """Note scores; return the number of validations after which the run ended."""
    for number, score in enumerate(scores, 1):
        watch.note(score, number)
        if watch.reason:
            return number
    return None


@pytest.mark.parametrize(
    ("settings", "ends"),
    [({}, 5), ({"patience": 3}, 6), ({"patience": None}, None), ({"min_delta": 0.3}, 3)],
)
def test_it_waits_for_so_many_validations_without_progress(settings, ends):
    assert after(stopping(**settings), [0.1, 0.2, 0.3, 0.3, 0.1, 0.2]) == ends


def test_a_run_that_is_resumed_goes_on_waiting():
    first, second = stopping(), stopping()
    assert after(first, [0.5, 0.4]) is None
    second.restore(first.state())
    assert after(second, [0.3]) == 1
    assert "after step 1, 0.5" in second.reason


def test_a_metric_of_its_own_may_be_better_when_it_is_less():
    watch = stopping(metric="val/loss", lower_is_better=True)
    assert watch.score_of({"val/loss": 2.0}, None) == -2.0
    with pytest.raises(ConfigError, match="(?s)no metric val/loss.*one of: val-core/x"):
        watch.score_of({"val-core/x": 1.0, "time": 2.0}, 1.0)
