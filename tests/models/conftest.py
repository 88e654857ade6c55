"""A project whose model side is tested, imported into this process, and what is made of its parts."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.project.support import Configuration, forget, make
from tests.releases import OF_BOTH_KINDS

PACKAGE = "fit"
FEATURES = ("dataset_classes", "dynamic_bsz", "episodes", "lora", "mfu", "offload")
FEATURES += ("placement", "qlora", "rollout_correction", "sharded_checkpoints")
# From settings to a config, or to a policy.
Make = Callable[..., Any]
MODEL = "actor_rollout_ref.model"


@pytest.fixture(scope="module", params=OF_BOTH_KINDS)
def release(request: pytest.FixtureRequest) -> str:
    """Upstream's training engine, and the last release whose engines can be held in the process."""
    return str(request.param)


@pytest.fixture(scope="module")
def root(verl: None, release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project that can be imported."""
    import torch

    path = make(Configuration(release, features=FEATURES, package=PACKAGE), tmp_path_factory.mktemp("projects")).root
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(path))
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        patch.setenv("HF_HUB_OFFLINE", "1")
        torch.set_num_threads(1)
        yield path
    forget(PACKAGE)


def module(path: str) -> ModuleType:
    return importlib.import_module(f"{PACKAGE}.{path}")


@pytest.fixture(scope="module")
def ranks(root: Path) -> Iterator[Any]:
    """This process, alone."""
    alone = module("run.distributed").Ranks()
    yield alone
    alone.close()


@pytest.fixture(scope="module")
def model_path(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy model."""
    return module("data.toy").ensure_toy_model(tmp_path_factory.mktemp("model") / "toy")


@pytest.fixture(scope="module")
def default(root: Path) -> Any:
    return module("settings.loading").load_config(root / "config", ["scale=toy"])


@pytest.fixture
def config(default: Any, model_path: Path) -> Make:
    """A function from settings to a config with toy sizes and the toy model."""
    from omegaconf import OmegaConf, open_dict

    def make(*settings: str) -> Any:
        made = default.copy()
        with open_dict(made):  # an older name is none of the config's own
            made = OmegaConf.merge(made, OmegaConf.from_dotlist([f"{MODEL}.path={model_path}", *settings]))
        module("settings.loading").settle_device(made)
        return made

    return make


@pytest.fixture
def policy(config: Make, ranks: Any) -> Make:
    """A function from settings to a policy."""

    def make(*settings: str, total_steps: int = 10) -> Any:
        made = config(*settings)
        tokenizer = module("workers.models").load_tokenizer(made.actor_rollout_ref.model, ranks)
        path = made.actor_rollout_ref.model.path
        return module("workers.policy").Policy(made, tokenizer, ranks, path, total_steps)

    return make
