"""Python processes that begin with a project's libraries imported, which takes longer than what most tests then run.

They are forks of one process, which `multiprocessing`'s fork server keeps until the tests end. What a process does
before or while it imports torch is tested by those that `running.python` starts.
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.forkserver
import os
import runpy
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest

# What takes most of the time of `import` in a run, and in a script.
LIBRARIES = [
    "datasets",
    "hydra",
    "matplotlib.figure",
    "pandas",
    "pyarrow.parquet",
    "tensordict",
    "torch",
    "torch.distributed.checkpoint.state_dict",
    "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel",
    "torchdata.stateful_dataloader",
    "transformers.generation.utils",
    "transformers.models.auto.modeling_auto",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.qwen2.modeling_qwen2",
]


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    with pytest.MonkeyPatch.context() as patch:  # what libraries read when they are imported
        for name, value in {"CUDA_VISIBLE_DEVICES": "", "HF_HOME": folder.name, "HF_HUB_OFFLINE": "1"}.items():
            patch.setenv(name, value)
        multiprocessing.forkserver.ensure_running()
    return context


def run(
    arguments: list[str], *, cwd: Path, env: Mapping[str, str], stdin: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `python *arguments`, which are a script, `-m` and a module or `-c` and code, and what is for them."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("stdin", "stdout", "stderr")]
        files[0].write_text(stdin, encoding="utf-8")
        process = _server().Process(target=_become, args=(arguments, str(cwd), dict(env), *map(str, files)))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(arguments, timeout)
        shown = [file.read_text(encoding="utf-8") for file in files[1:]]
    return subprocess.CompletedProcess(arguments, process.exitcode, *shown)


def _become(arguments: list[str], cwd: str, env: dict[str, str], *files: str) -> NoReturn:
    for number, file in enumerate(files):
        opened = os.open(file, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, "w" if number else "r", encoding="utf-8", buffering=1, closefd=False) for number in range(3)
    )
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    try:
        _run(arguments, cwd)
        code: object = 0
    except SystemExit as stopped:
        code = stopped.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code))  # type: ignore[call-overload]


def _run(arguments: list[str], cwd: str) -> None:
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, cwd)
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path.insert(0, "")
        sys.modules["__main__"] = main = ModuleType("__main__")
        exec(arguments[1], vars(main))
    else:
        script = Path(cwd, arguments[0])
        sys.argv = list(arguments)
        sys.path.insert(0, str(script.parent))
        runpy.run_path(str(script), run_name="__main__")
