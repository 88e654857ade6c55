"""Starting a project in several processes."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file
from torch.distributed.checkpoint import HuggingFaceStorageReader

from tests.project import forked
from tests.project.running import environment

DRIVER = Path(__file__).with_name("driver.py")
SCORE = Path(__file__).with_name("score.py")
# No two tests use the same port: torchrun finds a free one.
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone")


def overrides(*groups: Sequence[str]) -> list[str]:
    """Settings, of which later ones replace earlier ones with the same key."""
    return list({setting.partition("=")[0]: setting for group in groups for setting in group}.values())


# Cases of driver.py that some processes run together: a directory, how many there are, settings by name, and
# directories of earlier runs, copied to that of a case beforehand.
Phase = tuple[str, int, dict[str, list[str]], dict[str, str]]


def drive(root: Path, phases: Sequence[Phase], directory: Path) -> None:
    """Run phases one after the other, in directories below this one."""
    run_driver(root, DRIVER, phases, directory)


def run_driver(root: Path, driver: Path, what: object, directory: Path, timeout: float = 600) -> str:
    """Run a driver inside a project, which gets `what` as a JSON file in `directory`; returns what it printed."""
    file = directory / "driver.json"
    file.write_text(json.dumps(what))
    env = {**environment(root), "PYTHONPATH": str(root)}
    done = forked.run([str(driver), str(file)], cwd=root, env=env, stdin="", timeout=timeout)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def saved(directory: Path) -> dict[str, torch.Tensor]:
    """Weights of a model's directory in a checkpoint, or its optimizer's tensors; in one piece, whoever wrote them."""
    if (whole := directory / "model.safetensors").exists():
        return load_file(whole)
    shares = directory / "weights" if (directory / "weights").is_dir() else directory
    if not shares.is_dir():
        return {}
    reader = HuggingFaceStorageReader(str(shares))
    listed = reader.read_metadata().state_dict_metadata
    found = {name: torch.empty(entry.size, dtype=entry.properties.dtype) for name, entry in listed.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this process is alone, and knows it
        dcp.load(found, storage_reader=reader, no_dist=True)
    return found


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
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()


@contextmanager
def started(arguments: Sequence[str], root: Path, log: Path, cwd: Path | None = None) -> Iterator[Started]:
    """Start a command, and see to it that nothing of it is left."""
    running = Started(arguments, cwd or root, root, log)
    try:
        yield running
    finally:
        running.kill()
