"""Python processes that begin with a project's libraries imported, which takes longer than what most tests then run.

They are forks of one process, whichever of those that share the tests asks for them. It ends with the tests. What a
process does before or while it imports torch is tested by those that `running.python` starts.
"""

import atexit
import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from tests import generated_once

REPOSITORY = Path(__file__).resolve().parents[2]

# What takes most of the time of `import` in a run, and in a script.
LIBRARIES = [
    "datasets",
    "hydra",
    "matplotlib.figure",
    "pandas",
    "pyarrow.parquet",
    "tensordict",
    "torch",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torchdata.stateful_dataloader",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.qwen2.modeling_qwen2",
]

_started: list[subprocess.Popen[bytes]] = []


class Forked:
    """A process that was forked for a test, used as `subprocess.Popen` is; it leads a session of its own.

    Attributes:
        pid: its number.
        returncode: its exit code, None until it has been waited for; -N where signal N ended it.
    """

    def __init__(self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], files: Sequence[Path]) -> None:
        """Start `python *arguments` (a script, `-m` and a module, `-c` and code) with `files` as its three streams."""
        self.arguments = [*map(str, arguments)]
        self.returncode: int | None = None
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(_address())
        self._talk = self._server.makefile("rw", encoding="utf-8")
        asked = {"arguments": self.arguments, "cwd": str(cwd), "env": dict(env), "files": [*map(str, files)]}
        print(json.dumps(asked), file=self._talk, flush=True)
        self.pid = int(self._talk.readline())

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit code, or raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.arguments, timeout or 0)
            self.returncode = int(self._talk.readline())
            self._talk.close()
            self._server.close()
        return self.returncode

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it with all processes of its session."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)


def run(
    arguments: list[str], *, cwd: Path, env: Mapping[str, str], stdin: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `python *arguments` as `Forked` does, with a text for its stdin."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(stdin, encoding="utf-8")
        process = Forked(arguments, cwd=cwd, env=env, files=files)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        shown = [file.read_text(encoding="utf-8") for file in files[1:]]
    return subprocess.CompletedProcess(arguments, code, *shown)


def _address() -> str:
    """Return the socket of the process that forks; the first that asks starts it."""
    folder = Path(os.environ[generated_once.FOLDER])
    address = folder / "forks"
    with generated_once.alone(folder / "forks.lock"):
        if not address.exists():
            # What libraries read when they are imported.
            read = {"CUDA_VISIBLE_DEVICES": "", "HF_HOME": str(folder / "huggingface"), "HF_HUB_OFFLINE": "1"}
            owner = os.environ[generated_once.PROCESS]
            code = f"from tests.project.forked import serve; serve({str(address)!r}, {owner})"
            command = [sys.executable, "-c", code]
            _started.append(
                subprocess.Popen(
                    command,
                    cwd=REPOSITORY,
                    env={**os.environ, **read},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
            deadline = time.monotonic() + 300  # on a machine that is busy
            while not address.exists():
                assert time.monotonic() < deadline, "the process that forks has not started"
                time.sleep(0.01)
    return str(address)


def serve(address: str, owner: int) -> None:
    """Fork for whoever connects, until the tests have ended: their folder or their first process is gone."""
    sys.path[:] = [entry for entry in sys.path if entry and Path(entry) != REPOSITORY]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        listening.settimeout(1)
        for name in LIBRARIES:
            importlib.import_module(name)
        children: set[int] = set()
        while Path(address).exists() and _is_there(owner):
            children -= {child for child in children if os.waitpid(child, os.WNOHANG)[0]}
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            child = os.fork()
            if child == 0:
                listening.close()
                _answer(connection)
            children.add(child)
            connection.close()


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def _answer(connection: socket.socket) -> NoReturn:
    """Run what is asked for in a process of its own; tell its number, and then its exit code."""
    connection.settimeout(None)
    with connection, connection.makefile("rw", encoding="utf-8") as talk:
        asked = json.loads(talk.readline())
        process = os.fork()
        if process == 0:
            os.close(connection.fileno())
            os.setsid()
            _become(asked["arguments"], asked["cwd"], asked["env"], *asked["files"])
        print(process, file=talk, flush=True)
        while not (ended := os.waitpid(process, os.WNOHANG))[0]:
            if select.select([connection], [], [], 0.02)[0]:  # whoever asked for it is gone
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process, signal.SIGKILL)
        with contextlib.suppress(OSError):
            print(os.waitstatus_to_exitcode(ended[1]), file=talk, flush=True)
    os._exit(0)


def _become(arguments: list[str], cwd: str, env: dict[str, str], *files: str) -> NoReturn:
    for number, file in enumerate(files):
        opened = os.open(file, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, "w" if number else "r", encoding="utf-8", buffering=1, closefd=False) for number in range(3)
    )
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    try:
        _run(arguments, cwd)
        code: object = 0
    except SystemExit as stopped:
        code = stopped.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    os._exit(int(code))  # type: ignore[call-overload]


def _run(arguments: list[str], cwd: str) -> None:
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, cwd)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(arguments[1], vars(main))
    else:
        script = Path(cwd, arguments[0])
        sys.argv = list(arguments)
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")
