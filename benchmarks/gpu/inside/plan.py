"""Plan the memory of a run: `plan.py PACKAGE key=value ...`, in a project. Prints GiB of the largest phase, by line."""

import importlib
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, ".")
    package = importlib.import_module(sys.argv[1])
    package.__path__.append(str(Path(__file__).parents[3] / "templates" / "command"))
    plan_memory = importlib.import_module(f"{sys.argv[1]}.plan.plan").plan_memory
    plan = plan_memory(package.load_config(*sys.argv[2:]))
    print(json.dumps({name: line.get(plan.peak, 0) / 2**30 for name, line in plan.lines.items()}))
