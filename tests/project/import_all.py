"""Import every vendored module of some projects where nothing optional can be imported.

    python import_all.py JOB RESULT

The job lists projects: their root, modules, and the packages that are allowed or stubbed. Importing torch and
transformers takes seconds, so that happens once; each project is imported in a fork.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import tempfile
import traceback
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

HEAVY = ["torch.distributed.fsdp", "torch.distributed.tensor", "transformers", "tensordict", "datasets", "hydra"]


class Anything(ModuleType):
    """A module that has every attribute, each a class that can be subclassed and called."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *args, **kwargs: None})


class Stubs:
    """Finds every module below the stubbed packages."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.names else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def failures(job: dict[str, Any]) -> dict[str, list[str]]:
    """Import a project's modules, with stand-ins for some packages, there or not; the last lines of each traceback."""
    for name in job["allowed"]:
        del sys.modules[name]
    sys.meta_path.insert(0, Stubs(job["stubbed"]))  # type: ignore[arg-type]
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: "0.16.0" if name in job["stubbed"] else version(name)
    sys.path.insert(0, job["root"])
    found = {}
    for name in job["modules"]:
        try:
            importlib.import_module(name)
        except BaseException:
            found[name] = traceback.format_exc().splitlines()[-4:]
    return found


def main(job_path: str, result_path: str) -> None:
    """Run the job."""
    job = json.loads(Path(job_path).read_text(encoding="utf-8"))
    # By `None`, not by a finder that raises: libraries ask with `find_spec` what is there.
    sys.modules.update(dict.fromkeys(job["blocked"]))  # type: ignore[arg-type]
    for name in HEAVY:
        importlib.import_module(name)
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, project in job["projects"].items():
            answer = Path(folder) / "answer"
            answer.write_text('{"": ["the process died"]}', encoding="utf-8")
            child = os.fork()
            if child == 0:
                answer.write_text(json.dumps(failures(project)), encoding="utf-8")
                os._exit(0)
            os.waitpid(child, 0)
            result[name] = json.loads(answer.read_text(encoding="utf-8"))
    Path(result_path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
