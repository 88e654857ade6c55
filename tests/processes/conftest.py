"""One project for all tests of several processes; each run has a directory of its own."""

from pathlib import Path

import pytest

from tests.project.support import Configuration, Maker
from tests.releases import NEWEST

FEATURES = (
    "dataset_classes",
    "dynamic_bsz",
    "remove_padding",
    "logits_in_pieces",
    "lora",
    "prime",
    "peer_watch",
    "rescue",
    "sharded_checkpoints",
)


@pytest.fixture(scope="session")
def project(made: Maker) -> Path:
    """A project of the newest release."""
    return made(Configuration(NEWEST[-1], features=FEATURES, algorithm="ppo")).root
