"""Starting a project in several processes."""

import json
import os
import signal
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
from tests.project.forked import Forked
from tests.project.running import environment

DRIVER = Path(__file__).with_name("driver.py")
SCORE = Path(__file__).with_name("score.py")
# No two tests use the same port: torchrun finds a free one.
TORCHRUN = ("-m", "torch.distributed.run", "--standalone")


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


class Started(Forked):
    """A project's process that is running, and what it has printed, both streams."""

    def __init__(self, arguments: Sequence[str], root: Path, log: Path) -> None:
        self.log = log
        super().__init__(arguments, cwd=root, env=environment(root), files=[Path(os.devnull), log, log])

    def text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def wait_for(self, text: str, seconds: float = 120) -> None:
        """Wait until it has printed something."""
        deadline = time.monotonic() + seconds
        while text not in self.text():
            assert self.poll() is None or text in self.text(), self.text()[-4000:]
            assert time.monotonic() < deadline, f"no {text!r} in {seconds} s:\n{self.text()[-4000:]}"
            time.sleep(0.1)

    def workers(self) -> list[int]:
        """The processes that it has started, in the order of their ranks."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return sorted(int(child) for child in children.split())


@contextmanager
def started(arguments: Sequence[str], root: Path, log: Path) -> Iterator[Started]:
    """Start Python with some arguments, and see to it that nothing of it is left."""
    running = Started(arguments, root, log)
    try:
        yield running
    finally:
        with suppress(OSError):
            for worker in running.workers():  # they lead sessions of their own
                os.kill(worker, signal.SIGKILL)
        running.kill()
