"""Real trees of the supported releases, each generated once per run."""

from functools import cache

import pytest

from extractor.pipeline.generate import Generated, generate
from extractor.values import releases
from extractor.values.options import Options
from tests.project.support import Configuration
from tests.releases import source_of

OLD, NEW = Configuration("0.5.0"), Configuration("0.6.1")
VLLM = Configuration("0.6.1", engine="vllm")
# What changes within a release, or between two that are near each other.
STEPS = [
    (NEW, OLD),
    (Configuration("0.6.1", algorithm="ppo"), NEW),
    (NEW, VLLM),
    (NEW, Configuration("0.6.1", features=("dynamic_bsz",))),
]
# Where upstream's files, roles and config keys changed: the rollout at 0.7.0, the reward at 0.7.1, actor and critic at
# 0.8.0. The longest way is tested always.
LONGEST = (OLD, Configuration("0.9.1"))
PPO_BREAKS = [
    tuple(Configuration(of, algorithm="ppo") for of in step) for step in (("0.6.1", "0.7.1"), ("0.7.1", "0.8.0"))
]
FURTHER = [LONGEST[::-1], *PPO_BREAKS, *(step[::-1] for step in PPO_BREAKS)]
BREAKS = [pytest.param(*LONGEST), *(pytest.param(*step, marks=pytest.mark.thorough) for step in FURTHER)]
EVERY_STEP = [*STEPS, *BREAKS]


@cache
def options_of(choice: Configuration) -> Options:
    return choice.options(releases.load(choice.release))


@cache
def generated(choice: Configuration) -> Generated:
    return generate(options_of(choice), source_of(choice.release), releases.load(choice.release))


def emitted(release: str) -> dict[str, bytes]:
    """The files of a release's default project."""
    return {file.path: file.data for file in generated(Configuration(release)).tree}
