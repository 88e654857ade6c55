"""A small run keeps the memory of freed tensors, and one that has held much gives it back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from extractor.values import resources
from tests.project.support import Configuration, Made
from tests.releases import NEWEST

DRIVER = """
import json, resource
from toy.run.heap import SMALL, freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        b"x" * 2**23
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

found = []
freed_memory.after_step()  # nobody asked for it
found.append(freed_memory.mapped_from)
freed_memory.give_back()
found.append(faults())
freed_memory.after_step()
faults()
found.append(faults())
b"x" * (SMALL + 2**23)
freed_memory.after_step()
found.append(faults())
print(json.dumps(found))
"""


SETTLED = """
from pathlib import Path
from toy.run.heap import freed_memory
import toy
toy.__path__.append("COMMANDS")
from toy.plan.plan import plan_memory
from toy.settings.loading import load_config, settle_device
for kept in True, False:
    config = load_config(Path("config"), ["scale=toy", f"local.keep_freed_memory={kept}", "local.device=cpu"])
    settle_device(config)
    notes = plan_memory(config).notes
    print(freed_memory.mapped_from is None, any("local.keep_freed_memory" in note for note in notes))
"""


@pytest.fixture(scope="module")
def project(made: Callable[[Configuration], Made]) -> Path:
    """A project that gives freed memory back."""
    return made(Configuration(NEWEST[-1], "hf", features=("freed_memory",))).root


def _printed(project: Path, program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_memory_is_kept_where_that_is_asked_for_and_the_plan_says_so(project: Path) -> None:
    assert _printed(project, SETTLED.replace("COMMANDS", str(resources.templates() / "command"))).splitlines()[-2:] == [
        "True True",
        "False False",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_memory_is_kept_by_small_runs_alone(project: Path) -> None:
    untouched, first, small, large = json.loads(_printed(project, DRIVER))
    pages = 10 * 2**23 // 4096
    assert untouched is None
    assert first >= pages / 2  # all of it is asked for anew each time
    assert small < pages / 20
    assert large >= pages / 2
