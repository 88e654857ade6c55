"""Runs in a real kernel of Jupyter: the example, an interrupt, hooks that run event loops, and a second trainer."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager, start_new_kernel
from nbclient import NotebookClient

from tests.project.running import environment, overrides
from tests.project.support import PACKAGE, Configuration, Maker, copy_of
from tests.releases import NEWEST

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
PATIENCE = 240
BEGIN = f"""
import asyncio, time
from {PACKAGE} import LocalPPOTrainer, load_config
ROWS = [{{"prompt": f"{{a}}7=", "ground_truth": f"{{a + 1}}8"}} for a in range(9)] * 4
def config(name, *more):
    return load_config(*{overrides("trainer.logger=[console]")!r}, f"trainer.experiment_name={{name}}", *more)
"""
LOOPS = """
async def reward(data_source, solution_str, ground_truth, extra_info=None):
    await asyncio.sleep(0)
    return float(len(solution_str))
def blocking(data_source, solution_str, ground_truth, extra_info=None):
    return asyncio.run(reward(data_source, solution_str, ground_truth))
first = LocalPPOTrainer(config("first"), train_dataset=ROWS, reward_fn=reward)
second = LocalPPOTrainer(config("second"), train_dataset=ROWS, reward_fn=blocking)
results = [trainer.fit() for trainer in (second, first)]
assert all(result.finished for result in results)
assert results[0].metrics[2]["critic/score/mean"] == results[1].metrics[2]["critic/score/mean"]
first.close()
second.generate(["17="])
second.close()
await asyncio.sleep(0)  # the kernel's own loop is as it was
print("done")
"""
INTERRUPTED = """
def slow(data_source, solution_str, ground_truth, extra_info=None):
    time.sleep(0.02)
    return 1.0
trainer = LocalPPOTrainer(config("long", "trainer.total_training_steps=500"), train_dataset=ROWS, reward_fn=slow)
for step in trainer.steps():
    if step.number == 1:
        print("one step is done", flush=True)
print("finished" if trainer.finished else f"stopped, saved at {trainer.checkpoints.last_complete().name[:12]}")
"""


@pytest.fixture(scope="module")
def project(made: Maker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    configuration = Configuration(NEWEST[-1], "hf", features=("plots", "reward_processes"))
    return copy_of(made(configuration), tmp_path_factory.mktemp("notebook"))


@pytest.fixture(scope="module")
def surroundings(project: Path) -> dict[str, str]:
    """A kernel's environment: this Python, and the project on the path."""
    return {
        **environment(project),
        "PYTHONPATH": str(project),
        "IPYTHONDIR": str(project / ".ipython"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.fixture(scope="module")
def kernel(project: Path, surroundings: dict[str, str]) -> Iterator[tuple[KernelManager, Any]]:
    """One kernel for all: what a run leaves in it does not disturb the next."""
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(project), env=surroundings)
    try:
        run(client, BEGIN)
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run(client: Any, program: str, seen: Callable[[str], None] = lambda text: None) -> tuple[str, Any]:
    """Run a cell; return what it printed, and the reply of the kernel. `seen` is told of each text as it is printed."""
    texts: list[str] = []

    def note(message: Any) -> None:
        if message["msg_type"] == "stream":
            texts.append(message["content"]["text"])
            seen(texts[-1])

    reply = client.execute_interactive(program, timeout=PATIENCE, output_hook=note)
    return "".join(texts), reply["content"]


def test_the_example_trains_twice_and_draws(project: Path, surroundings: dict[str, str]) -> None:
    notebook = nbformat.read(project / "examples/notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(notebook, timeout=PATIENCE, resources={"metadata": {"path": str(project)}})
    client.execute(env=surroundings)
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("<table>" in data.get("text/html", "") for data in shown) == 2
    assert sum("image/png" in data for data in shown) == 2
    first, *_, last = next(eval(data["text/plain"]) for data in shown if data.get("text/plain", "").startswith("["))
    assert last > first + 0.3


def test_hooks_may_run_event_loops(kernel: tuple[KernelManager, Any]) -> None:
    printed, reply = run(kernel[1], LOOPS)
    assert reply["status"] == "ok", reply
    assert printed.endswith("done\n")


def test_an_interrupt_stops_the_run_and_keeps_the_kernel(kernel: tuple[KernelManager, Any]) -> None:
    manager, client = kernel

    def interrupt(text: str) -> None:
        if "one step is done" in text:
            manager.interrupt_kernel()

    printed, reply = run(client, INTERRUPTED, interrupt)
    assert reply["status"] == "ok", reply
    assert "stopping after this step" in printed
    assert "stopped, saved at global_step_" in printed
    assert run(client, "print(1 + 1)")[0] == "2\n"
