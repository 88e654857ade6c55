"""Import every vendored module of some projects where nothing optional can be imported.

    python import_all.py JOB RESULT

The job lists projects: their root, modules, and the packages that are allowed or stubbed. Importing torch and
transformers takes seconds, so that happens once; each project is imported in a fork.
"""

from __future__ import annotations

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

HEAVY = (
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "transformers",
    "tensordict",
    "datasets",
    "pandas",
    "hydra",
)


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
        """Find a stub."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.names else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Make a stub."""
        return Anything(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def block(names: list[str]) -> None:
    """Make packages unimportable, by `None`: libraries ask with `find_spec` what is there, and no finder may raise."""
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]


def unblock(names: list[str]) -> None:
    """Make packages importable again."""
    for name in names:
        del sys.modules[name]


def stub(names: list[str]) -> None:
    """Put stand-ins in the place of packages, whether they are there or not: some cannot load with others blocked."""
    sys.meta_path.insert(0, Stubs(names))  # type: ignore[arg-type]
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: "0.16.0" if name in names else version(name)


def failures(job: dict[str, Any]) -> dict[str, list[str]]:
    """Import a project's modules; the last lines of each traceback."""
    unblock(job["allowed"])
    stub(job["stubbed"])
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
    block(job["blocked"])
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
