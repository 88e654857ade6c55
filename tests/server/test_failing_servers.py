"""Whole runs whose server fails: what was trained is saved, and the run goes on as if nothing had happened."""

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.conftest import Run
from tests.server.wire import RawServer, Received, as_json, http

# One request at a time these are tested by test_transport.py.
pytestmark = [pytest.mark.slow, pytest.mark.thorough, pytest.mark.skipif(sys.platform == "win32", reason="signals")]

GENERATE, UPDATE = "/generate", "/update_weights_from_disk"
STEPS = 3
VALIDATION = "fails in a validation"


class Double(RawServer):
    """The project's double of SGLang, which from some point on does something else.

    Attributes:
        path: of the model at the start.
        attack: is asked before each answer: the content instead, or None for the right one.
        updates: how often weights have come: once at the start, and after each step.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.path = model, model.path
        self.updates = 0
        self.attack: Callable[[Received, Any], Any] = lambda received, answer: None
        super().__init__(self._reply)

    async def _reply(self, writer: Any, received: Received) -> None:
        answer = self._right(received)
        attacked = self.attack(received, answer)
        writer.write(as_json(answer) if attacked is None else attacked)
        await writer.drain()

    def _right(self, received: Received) -> Any:
        if received.path == GENERATE:
            return self.model.generate(received.body)
        if received.path == UPDATE:
            self.updates += 1
            return self.model.update_weights(received.body)
        return self.model.info() if received.path == "/get_model_info" else "done"


@pytest.fixture(scope="module")
def model_path(sglang_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(sglang_project))
        patch.syspath_prepend(str(sglang_project / "tests"))
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        toy = importlib.import_module("sgl.data.toy")
        yield toy.ensure_toy_model(tmp_path_factory.mktemp("model") / "toy")


@pytest.fixture
def double(model_path: Path) -> Iterator[Double]:
    server = Double(importlib.import_module("sglang_double").Model(str(model_path)))
    yield server
    server.close()


@pytest.fixture
def train(
    sglang_project: Path, model_path: Path, double: Double, start: Callable[..., Run]
) -> Callable[..., tuple[int, str, Run]]:
    """Trains in a directory until the run ends."""

    def training(directory: Path, *settings: str) -> tuple[int, str, Run]:
        double.updates = 0
        run = start(
            sglang_project,
            directory,
            f"actor_rollout_ref.model.path={model_path}",
            f"local.server.url={double.url}",
            f"trainer.total_training_steps={STEPS}",
            "data.train_max_samples=9",
            "actor_rollout_ref.rollout.calculate_log_probs=true",
            "actor_rollout_ref.actor.optim.lr=0.001",
            *settings,
        )
        return run.end(), run.text(), run

    return training


def metrics(run: Run) -> list[dict[str, Any]]:
    """The rows, without what depends on the clock."""
    clock = re.compile(r"time$|timing|perf/")
    return [{name: value for name, value in row.items() if not clock.search(name)} for row in run.steps()]


def weights(run: Run) -> bytes:
    return (run.directory / f"global_step_{STEPS}" / "actor" / "model.safetensors").read_bytes()


def in_generation(change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda double, received, answer: change(answer) if received.path == GENERATE else None


def not_a_number(answer: Any) -> bytes:
    return http(200, re.sub(r"\[\[-[^,]*", "[[NaN", json.dumps(answer), count=1).encode())


def refused(double: Double, received: Received, answer: Any) -> bytes | None:
    return as_json({"success": False, "message": "no room"}) if received.path == UPDATE else None


def started_again(double: Double, received: Received, answer: Any) -> None:
    if received.path == GENERATE:
        double.model.__init__(double.path)


# Of what a server may answer, test_answers.py and test_transport.py have every kind.
FAILURES: dict[str, tuple[Callable[..., Any], int, str, str]] = {
    # what happens, after how many updates; what is said, and with which steps the run goes on
    "NaN": (in_generation(not_a_number), 2, "it is not valid JSON .NaN is not a number", "from before this step"),
    "errors": (in_generation(lambda _: http(500, b"out of memory")), 2, "500 out of memory", "from before this"),
    "weights refused": (refused, 3, "did not take the weights: no room", "state after step 2 is saved"),
    "started again": (started_again, 2, "has other weights than it was given: default", "from before this step"),
    VALIDATION: (in_generation(lambda _: http(500, b"gone")), 3, "500 gone", "state after step 2 is saved"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_a_run_whose_server_fails_goes_on_as_if_it_had_not(
    train: Any, double: Double, tmp_path: Path, name: str
) -> None:
    settings = ("trainer.test_freq=2",) if name == VALIDATION else ()
    code, text, whole = train(tmp_path / "whole", *settings)
    assert code == 0, text
    fault, after, message, saved = FAILURES[name]
    double.attack = lambda *given: fault(double, *given) if double.updates == after else None
    code, text, run = train(tmp_path / "run", *settings)
    assert code == 1, text
    assert re.search(rf"\nerror: .*{message}", text), text
    assert "\nhint: " in text
    assert double.url in text
    assert saved in text
    assert "Traceback" not in text
    double.attack = lambda received, answer: None
    code, text, run = train(tmp_path / "run", *settings)
    assert code == 0, text
    expected = metrics(whole)
    if name == VALIDATION:  # that of step 2 is not made again
        expected[1] = {key: value for key, value in expected[1].items() if not key.startswith("val-")}
    assert metrics(run) == expected
    assert weights(run) == weights(whole)
