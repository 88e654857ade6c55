"""One project for all tests of a process, imported: look, do not touch."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.environments.support import OneProcess, Project, Scripted, imported_beside, multi_turn, rollouts_of
from tests.releases import OF_BOTH_KINDS


@pytest.fixture(scope="session", params=OF_BOTH_KINDS)
def episodic(verl: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project of the multi-turn recipe whose package is called `eps`."""
    with imported_beside(multi_turn(request.param), tmp_path_factory.mktemp("episodic") / "project") as project:
        yield project


@pytest.fixture(autouse=True)
def _on_a_cpu_without_a_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def model_path(episodic: Project, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The toy model in a directory of its own."""
    return str(episodic.module("data.toy").ensure_toy_model(tmp_path_factory.mktemp("model") / "toy", task="guess"))


@pytest.fixture(scope="session")
def tokenizer(model_path: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model_path)


@pytest.fixture
def play(episodic: Project, tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Any, Scripted]]:
    """A function that plays episodes from prompts, and returns the batch and the engine.

    It takes `say`, from the contexts as texts to what is written in each, as text; `make_env`; and overrides.
    """

    def run(say: Any, make_env: Any, prompts: Any, *overrides: str) -> tuple[Any, Scripted]:
        monkeypatch.setattr(episodic.module("custom.env_wrapper"), "make_env", make_env)

        def write(contexts: list[list[int]]) -> list[list[int]]:
            texts = say([tokenizer.decode(tokens) for tokens in contexts])
            return [tokenizer(text)["input_ids"] for text in texts]

        config = episodic.config("local.env.max_turn_tokens=null", *overrides)
        engine = Scripted(episodic, write, wider=3)
        return rollouts_of(episodic, config, tokenizer, OneProcess(), engine).generate(prompts), engine

    return run
