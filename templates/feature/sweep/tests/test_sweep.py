# vextract:template - edit freely
"""--multirun: the runs that a command line asks for."""

import pytest

from __package__.errors import ConfigError
from __package__.run.sweep import combinations


def test_a_sweep_is_every_combination():
    assert combinations(["a.lr=1e-6,1e-5", "preset=ppo,rloo", "b=[1,2]", "~c"]) == [
        [f"a.lr={lr}", f"preset={preset}", "b=[1,2]", "~c"] for lr in ("1e-06", "1e-05") for preset in ("ppo", "rloo")
    ]
    assert combinations(["seed=range(1,4)"]) == [["seed=1"], ["seed=2"], ["seed=3"]]
    assert combinations([]) == [[]]
    with pytest.raises(ConfigError, match="hint:"):
        combinations(["a=[1,"])
