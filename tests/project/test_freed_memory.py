"""A small run keeps the memory of freed tensors, and one that has held much gives it back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_memory_is_kept_by_small_runs_alone(project: Path) -> None:
    done = subprocess.run([sys.executable, "-c", DRIVER], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    untouched, first, small, large = json.loads(done.stdout)
    pages = 10 * 2**23 // 4096
    assert untouched is None
    assert first >= pages / 2  # all of it is asked for anew each time
    assert small < pages / 20
    assert large >= pages / 2
