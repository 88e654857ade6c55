"""The memory of the generated project in the current directory: `python ours_memory.py key=value ...`."""

from __future__ import annotations

import contextlib
import importlib
import runpy
import sys
from pathlib import Path

from peak import Peak

if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    sys.argv = ["main.py", *sys.argv[1:]]
    peak = Peak()
    policy = importlib.import_module("bench.workers.policy").Policy
    policy.update = peak.beginning(policy.update)
    with contextlib.redirect_stdout(sys.stderr):
        try:
            runpy.run_path("main.py", run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise
    peak.report()
