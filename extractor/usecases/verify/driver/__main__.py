"""Start a job: `python DRIVER imports|parity|methods JOB.json RESULT.json`.

The Python that runs this is the project's. It has no vextract, so this directory is imported as a package of its own.
"""

import importlib
import sys
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.path[0] = str(here.parent)
    run = importlib.import_module(f"{here.name}.run")
    del sys.path[0]
    run.main(*sys.argv[1:])
