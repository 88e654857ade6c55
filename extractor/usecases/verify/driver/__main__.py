"""Start a job: `python DRIVER imports|parity JOB.json RESULT.json`.

The Python that runs this is the project's. It has no vextract, so this directory becomes a package by hand.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

PACKAGE = "vextract_driver"


def main() -> None:
    """Load this directory as a package and run the named job."""
    here = Path(__file__).resolve().parent
    sys.path = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = importlib.util.spec_from_file_location(PACKAGE, here / "__init__.py", submodule_search_locations=[str(here)])
    assert spec is not None
    assert spec.loader is not None
    sys.modules[PACKAGE] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    script, job, result = sys.argv[1:]
    importlib.import_module(f"{PACKAGE}.run").main(script, Path(job), Path(result))


if __name__ == "__main__":
    main()
