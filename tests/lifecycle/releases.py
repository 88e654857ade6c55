"""Real trees of the supported releases, each generated once per run."""

from dataclasses import dataclass
from functools import cache

import pytest

from extractor.pipeline.generate import Generated, complete, generate
from extractor.values import releases
from extractor.values.options import Options
from tests.releases import source_of


@dataclass(frozen=True)
class Choice:
    """What a project is made with."""

    verl: str
    engine: str = "hf"
    algorithm: str = "grpo"
    features: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "-".join((self.verl, self.engine, self.algorithm, *self.features))


OLD = Choice("0.5.0")
NEW = Choice("0.6.1")
PPO = Choice("0.6.1", algorithm="ppo")
VLLM = Choice("0.6.1", engine="vllm")
BALANCED = Choice("0.6.1", features=("dynamic_bsz",))
STEPS = [(OLD, NEW), (NEW, OLD), (NEW, PPO), (PPO, NEW), (NEW, VLLM), (VLLM, NEW), (NEW, BALANCED), (PPO, OLD)]

# Where upstream's files, roles and config keys changed: the rollout at 0.7.0, the reward at 0.7.1, actor and critic at
# 0.8.0. The longest way is tested always.
LONGEST = (OLD, Choice("0.9.1"))
BREAKS = [
    LONGEST,
    (LONGEST[1], LONGEST[0]),
    (Choice("0.6.1", algorithm="ppo"), Choice("0.7.1", algorithm="ppo")),
    (Choice("0.7.1", algorithm="ppo"), Choice("0.6.1", algorithm="ppo")),
    (Choice("0.7.1", algorithm="ppo"), Choice("0.8.0", algorithm="ppo")),
    (Choice("0.8.0", algorithm="ppo"), Choice("0.7.1", algorithm="ppo")),
    (Choice("0.8.0"), Choice("0.9.1")),
    (Choice("0.9.1"), Choice("0.8.0")),
]
# What changes within a release or between two that are near each other, of which each kind is tested always.
USUAL = [(NEW, OLD), (PPO, NEW), (NEW, VLLM), (NEW, BALANCED)]
EVERY_STEP = [
    *(pytest.param(*step, marks=() if step in USUAL else pytest.mark.thorough) for step in STEPS),
    *(pytest.param(*step, marks=() if step == LONGEST else pytest.mark.thorough) for step in BREAKS),
]


@cache
def options_of(choice: Choice) -> Options:
    asked = Options("toy", choice.verl, choice.engine, choice.algorithm, choice.features)
    return complete(asked, releases.load(choice.verl))


@cache
def generated(choice: Choice) -> Generated:
    return generate(options_of(choice), source_of(choice.verl), releases.load(choice.verl))
