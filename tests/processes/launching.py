"""Starting a project in several processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.project.running import environment

DRIVER = Path(__file__).with_name("driver.py")
SCORE = Path(__file__).with_name("score.py")
# No two tests use the same port: torchrun finds a free one.
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")


def overrides(*groups: Sequence[str]) -> list[str]:
    """Settings, of which later ones replace earlier ones with the same key."""
    return list({setting.partition("=")[0]: setting for group in groups for setting in group}.values())


def drive(root: Path, processes: int, cases: dict[str, list[str]], directory: Path) -> None:
    """Run cases of driver.py."""
    directory.mkdir(exist_ok=True)
    file = directory / "cases.json"
    file.write_text(json.dumps(cases))
    arguments = [*TORCHRUN, f"--nproc-per-node={processes}", str(DRIVER), str(file), str(directory)]
    done = subprocess.run(
        arguments, cwd=root, env=environment(root), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr.partition("torch/distributed/elastic")[0][-4000:]


class Started:
    """A command that is running.

    Attributes:
        process: the command itself.
        log: what it has printed, both streams.
    """

    def __init__(self, arguments: Sequence[str], cwd: Path, root: Path, log: Path) -> None:
        self.log = log
        with log.open("w") as file:
            self.process = subprocess.Popen(
                arguments, cwd=cwd, env=environment(root), stdout=file, stderr=file, start_new_session=True
            )

    def text(self) -> str:
        return self.log.read_text()

    def wait_for(self, text: str, seconds: float = 120) -> None:
        """Wait until it has printed something."""
        deadline = time.monotonic() + seconds
        while text not in self.text():
            assert self.process.poll() is None or text in self.text(), self.text()[-4000:]
            assert time.monotonic() < deadline, f"no {text!r} in {seconds} s:\n{self.text()[-4000:]}"
            time.sleep(0.1)

    def wait(self, seconds: float = 120) -> int:
        return self.process.wait(seconds)

    def workers(self) -> list[int]:
        """The processes that it has started, in the order of their ranks."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return sorted(int(child) for child in children.split())

    def kill(self) -> None:
        """Kill it and what it has started, if they are still there."""
        try:
            workers = self.workers()
        except OSError:
            workers = []
        for process in (*workers, self.process.pid):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


@contextmanager
def started(arguments: Sequence[str], root: Path, log: Path, cwd: Path | None = None) -> Iterator[Started]:
    """Start a command, and see to it that nothing of it is left."""
    running = Started(arguments, cwd or root, root, log)
    try:
        yield running
    finally:
        running.kill()
