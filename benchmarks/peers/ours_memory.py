"""The memory of the generated project in the current directory: `python ours_memory.py key=value ...`."""

import importlib
import sys

import project
from peak import Peak

if __name__ == "__main__":
    project.begin(sys.argv[1:])
    peak = Peak()
    policy = importlib.import_module("bench.workers.policy").Policy
    policy.update = peak.beginning(policy.update)
    project.run()
    peak.report()
