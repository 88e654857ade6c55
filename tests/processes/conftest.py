"""One project for all tests of several processes; each run has a directory of its own."""

from pathlib import Path

import pytest

from tests.project.support import Configuration, make
from tests.releases import NEWEST


@pytest.fixture(scope="session")
def project(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project from the newest release with every feature."""
    root = tmp_path_factory.mktemp("processes") / "project"
    features = (
        "dataset_classes",
        "dynamic_bsz",
        "remove_padding",
        "lora",
        "profiler",
        "multimodal",
        "prime",
        "distillation",
        "peer_watch",
        "rescue",
    )
    configuration = Configuration(NEWEST[-1], "hf", features=(*features, "sharded_checkpoints"), algorithm="ppo")
    return make(configuration, root).root
