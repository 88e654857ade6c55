"""The server as a process: it starts, its failures are told, and it never outlives the trainer.

Python's own HTTP server stands where vLLM or SGLang would: what is tested is how a process is kept.
"""

import importlib
import os
import signal
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.project.running import started
from tests.server.conftest import commands, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

SERVE = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1"]
# A server with a process of its own, which a signal to the server alone does not reach; both name {mark}.
FAMILY = (
    "import subprocess, sys, time; "
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', '{mark}']); time.sleep(600)"
)


@pytest.fixture
def process(sglang_project: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the project that is tested."""
    monkeypatch.syspath_prepend(str(sglang_project))
    return importlib.import_module("sgl.workers.servers.process")


@pytest.fixture
def launch(process: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes a server process from a command line, which is stopped at the end."""
    launched = []

    def launcher(command: Callable[[int], list[str]], port: int | None = None, **environment: str) -> Any:
        scratch, log = tmp_path / "scratch", tmp_path / "run" / "server.log"
        scratch.mkdir(exist_ok=True)
        told = {"host": "127.0.0.1", "port": port, "log": log, "scratch": scratch}
        launched.append(process.ServerProcess("the test server", command, environment, **told))
        return launched[-1]

    yield launcher
    for server in launched:
        server.stop()


def serve(port: int) -> list[str]:
    return [*SERVE, str(port)]


def python(code: str) -> Callable[[int], list[str]]:
    return lambda port: [sys.executable, "-c", code]


def answers(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(url, timeout=2).status == 200)
    except OSError:
        return False


def named(mark: object) -> list[int]:
    """The processes that name `mark`."""
    return [pid for pid, command in commands() if str(mark) in command and pid != os.getpid()]


def test_a_server_that_does_not_start_is_told(
    launch: Any, process: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that ends shows its log; one that never answers is stopped; and progress is shown meanwhile."""
    monkeypatch.setattr(process, "PROGRESS_SECONDS", 0.3)
    hangs = f"import time; print('loading shards', flush=True); time.sleep(600)  # {tmp_path}"
    for command, seconds, said in (
        (python("import sys; print('no such model'); sys.exit(3)"), 30, r"no such model(.|\n)*exit code 3"),
        (lambda port: ["/no/such/python", "-m", "server"], 30, "/no/such/python"),
        (python(hangs), 2, "did not answer within 2 s"),
    ):
        with pytest.raises(process.RolloutError, match=said):
            launch(command).wait(lambda url: False, timeout=seconds)
    assert not named(tmp_path)
    shown = capsys.readouterr().out
    assert "waiting for the test server" in shown
    assert "loading shards" in shown


def test_what_it_started_ends_with_it(launch: Any, process: Any, tmp_path: Path) -> None:
    """It has ended although what it has started is still ending."""
    server = launch(python(FAMILY.format(mark=tmp_path)))
    wait_until(lambda: len(named(tmp_path)) >= 3)  # the keeper, the server, the server's own
    server.stop()
    wait_until(lambda: not named(tmp_path))
    server = launch(python(f"{FAMILY.format(mark=tmp_path).rpartition(';')[0]}; sys.exit(3)"))
    wait_until(lambda: not (tmp_path / "scratch").exists())
    assert named(tmp_path)
    with pytest.raises(process.RolloutError, match=r"has ended(.|\n)*exit code 3"):
        server.check()


def test_a_death_of_the_server_or_its_keeper_is_the_others(launch: Any, process: Any, tmp_path: Path) -> None:
    """It is told with the end of the log."""
    server = launch(serve)
    server.wait(answers, timeout=30)
    server.check()
    (child,) = [pid for pid, command in commands() if f"127.0.0.1 {server.port}" in command and "keeper" not in command]
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: not server.running())
    with pytest.raises(process.RolloutError, match=r"has ended(.|\n)*exit code -9"):
        server.check()
    wait_until(lambda: not (tmp_path / "scratch").exists())
    assert "http.server" in (tmp_path / "run" / "server.log").read_text().splitlines()[0]
    server = launch(serve)
    server.wait(answers, timeout=30)
    os.kill(server._keeper.pid, signal.SIGKILL)
    wait_until(lambda: not answers(server.url))


TRAINER = """
import sys, time
from pathlib import Path
from sgl.workers.servers.process import ServerProcess
folder = Path({folder!r})
code = {family!r}
server = ServerProcess("it", lambda port: [sys.executable, "-c", code], {{}}, host="127.0.0.1", port=None,
                       log=folder / "log", scratch=folder / "scratch")
time.sleep(600)
"""


def test_nothing_is_left_of_trainers_that_are_killed(sglang_project: Path, tmp_path: Path) -> None:
    trainers = {number: tmp_path / number.name for number in (signal.SIGKILL, signal.SIGTERM)}
    running = []
    for number, folder in trainers.items():
        (folder / "scratch").mkdir(parents=True)
        code = TRAINER.format(family=FAMILY.format(mark=folder), folder=str(folder))
        running.append(started(sglang_project, tmp_path / f"{number.name}.out", "-c", code))
    for trainer, (number, folder) in zip(running, trainers.items(), strict=True):
        wait_until(lambda folder=folder: len(named(folder / "scratch")) == 1 and len(named(folder)) >= 3, timeout=60)
        trainer.send_signal(number)
        trainer.wait()
        wait_until(lambda folder=folder: not named(folder))
        wait_until(lambda folder=folder: not (folder / "scratch").exists())


def test_a_port_in_use_is_told_and_torchruns_variables_are_not_the_servers(
    launch: Any, process: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(process.ConfigError, match=f"local.server.port is {port}"):
            launch(serve, port=port)
    for name in ("RANK", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
        monkeypatch.setenv(name, "1")
    server = launch(python("import os, time; print(sorted(os.environ), flush=True); time.sleep(600)"), EXTRA="1")
    log = tmp_path / "run" / "server.log"
    wait_until(lambda: "EXTRA" in log.read_text())
    assert not any(name in log.read_text() for name in ("RANK", "MASTER_PORT", "TORCHELASTIC"))
    assert server.running()
