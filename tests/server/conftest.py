"""Projects that take rollouts from a server, made once, and what runs them."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import started
from tests.project.support import Configuration, make
from tests.releases import NEWEST

SMALL = (
    "scale=toy",
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.logger=[console]",
)


START = "import sys; sys.path.insert(0, {tests!r}); from sglang_double import main; main()"


@pytest.fixture(scope="session")
def sglang_project(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of engine sglang, whose package is `sgl`, which plays episodes and corrects for the engine."""
    features = ("dynamic_sampling", "episodes", "overlap", "rescue", "rollout_correction", "watch")
    configuration = Configuration(NEWEST[-1], "sglang", features=features, package="sgl")
    return make(configuration, tmp_path_factory.mktemp("made") / "sgl").root


@pytest.fixture(scope="session")
def vllm_project(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of engine vllm, whose package is `vll`."""
    configuration = Configuration(NEWEST[-1], "vllm", features=("watch",), package="vll")
    return make(configuration, tmp_path_factory.mktemp("made") / "vll").root


@pytest.fixture
def module(sglang_project: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The project's module of requests to a server, which tries again at once."""
    monkeypatch.syspath_prepend(str(sglang_project))
    found = importlib.import_module("sgl.workers.servers.http")
    monkeypatch.setattr(found, "RETRY_SECONDS", (0.01, 0.01))
    return found


@pytest.fixture
def start() -> Iterator[Callable[..., Run]]:
    """Starts `python main.py` in a project; what still runs at the end is killed."""
    runs: list[Run] = []

    def starter(project: Path, directory: Path, *overrides: str, processes: int = 1, **variables: str) -> Run:
        runs.append(Run(project, directory, overrides, processes, variables))
        return runs[-1]

    yield starter
    for run in runs:
        run.process.kill()
        run.process.wait()


@pytest.fixture
def run(sglang_project: Path, tmp_path: Path, start: Callable[..., Run]) -> Callable[..., Run]:
    """Starts a run in a directory of the test's own; its server is the project's own double, tests/sglang_double.py."""
    package = tmp_path / "path" / "sglang"  # whose `launch_server` is run
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text(START.format(tests=str(sglang_project / "tests")))

    def runs(*overrides: str, name: str = "run", processes: int = 1) -> Run:
        return start(sglang_project, tmp_path / name, *overrides, processes=processes, PYTHONPATH=str(package.parent))

    return runs


class Run:
    """`python main.py` in a process of its own, or by torchrun in several, with its output in a file."""

    def __init__(
        self, project: Path, directory: Path, overrides: tuple[str, ...], processes: int, variables: dict[str, str]
    ) -> None:
        self.directory = directory
        self.output = directory.with_suffix(".out")
        several = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}")
        arguments = ("main.py", *SMALL, f"trainer.default_local_dir={directory}", *overrides)
        self.process = started(project, self.output, *several[: 4 * (processes > 1)], *arguments, **variables)

    def text(self) -> str:
        """What it has printed so far."""
        return self.output.read_text(encoding="utf-8", errors="replace")

    def steps(self) -> list[dict[str, float]]:
        """The metrics of the steps so far."""
        path = self.directory / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def wait_for_steps(self, count: int, timeout: float = 120.0) -> None:
        """Wait until so many steps are done."""
        wait_until(lambda: len(self.steps()) >= count or self.process.poll() is not None, timeout)
        assert len(self.steps()) >= count, self.text()[-4000:]

    def end(self, timeout: float = 120.0) -> int:
        """Wait for the end; the exit code."""
        return self.process.wait(timeout)

    def server_processes(self) -> list[int]:
        """The processes whose command line names this run's directory, other than the trainer's own."""
        return [pid for pid, command in commands() if str(self.directory) in command and "main.py" not in command]

    def server(self) -> int:
        """The process of the server itself, which another one keeps."""
        own, others = self.server_processes(), dict(commands())
        (found,) = (pid for pid in own if "keeper.py" not in others[pid])
        return found


def commands() -> list[tuple[int, str]]:
    """All processes that have not ended, with their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if command:
                found.append((int(entry.name), command))
    return found


def wait_until(condition: Callable[[], bool], timeout: float = 20.0) -> None:
    """Wait until something is so; fail if it takes longer."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.1)
