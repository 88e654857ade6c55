"""The example notebook runs in a real kernel of Jupyter."""

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.project.running import environment
from tests.project.support import Configuration, Maker, copy_of
from tests.releases import NEWEST


@pytest.mark.slow
@pytest.mark.thorough
def test_the_example_trains_twice_and_draws(made: Maker, tmp_path: Path) -> None:
    project = copy_of(made(Configuration(NEWEST[-1], "hf", features=("plots",))), tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"PYTHONPATH": str(project), "IPYTHONDIR": str(project / ".ipython"), "PATH": path}
    notebook = nbformat.read(project / "examples/notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(project)}})
    client.execute(env={**environment(project), **own})
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("<table>" in data.get("text/html", "") for data in shown) == 2
    assert sum("image/png" in data for data in shown) == 2
    first, *_, last = next(eval(data["text/plain"]) for data in shown if data.get("text/plain", "").startswith("["))
    assert last > first + 0.3
