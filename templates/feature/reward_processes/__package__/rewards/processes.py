# vextract:template
"""The processes that a scoring function runs in.

They are forked from a server process that imports once what the function is made of, and not from this process, with
its threads and its GPU. They end with this process however it ends.
"""

import importlib
import importlib.util
import inspect
import multiprocessing
import multiprocessing.forkserver
import os
import pickle
import pickletools
import signal
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .scoring import attempt, raw_function


def payload_of(function: Callable[..., Any]) -> bytes:
    """Pickle what a worker needs to have the function as well, with the files of modules that have no import name."""
    raw = raw_function(function)
    parts = getattr(raw, "functions", {"": raw}).values()
    files = {}
    for part in parts:
        module = _module_of(part)
        if module is not None and not _can_be_imported(module.__name__):
            files[module.__name__] = str(Path(inspect.getsourcefile(module) or "").resolve())
    try:
        return pickle.dumps((files, pickle.dumps(function)))
    except Exception as error:
        raise ValueError(
            f"the scoring function cannot be sent to worker processes ({error}): define it at the top of a module, "
            "or set num_workers=0"
        ) from error


def _module_of(function: Any) -> Any:
    """Return the module that a function is defined in, made known by its name if whoever loaded it did not do so."""
    name, names = getattr(function, "__module__", ""), getattr(function, "__globals__", None)
    known = vars(sys.modules[name]) if name in sys.modules else None
    if names is not None and known is not names and not _can_be_imported(name):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(names)
    return inspect.getmodule(function)


def _can_be_imported(name: str) -> bool:
    """Tell whether another process finds a module by its name, rather than this one by having loaded it from a file."""
    package = name.partition(".")[0]
    finders = (getattr(finder, "find_spec", None) for finder in sys.meta_path)
    return name != "__main__" and any(find is not None and find(package, None) is not None for find in finders)


def _modules_named_in(payload: bytes) -> list[str]:
    """Return the modules that are imported to have the function of `payload`: its own, and those of what wraps it."""
    _, function = pickle.loads(payload)
    named = dict.fromkeys(item for _, item, _ in pickletools.genops(function) if isinstance(item, str))
    return [name for name in named if name in sys.modules and _can_be_imported(name)]


def start_pool(payload: bytes, num_workers: int) -> Any:
    """Start the processes, which have the function of `payload`."""
    try:
        from pebble import CONSTS, ProcessPool
    except ImportError as error:
        raise ImportError(
            f"scoring in processes needs pebble\nhint: {sys.executable} -m pip install pebble; or num_workers=0"
        ) from error
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"{__package__}.left_to_trainer", __name__, *_modules_named_in(payload)])
    # The server is a fresh interpreter: what this one can import, it can, so that workers need not import it each.
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [*sys.path, path]))
    try:
        multiprocessing.forkserver.ensure_running()
    finally:
        os.environ.pop("PYTHONPATH")
        os.environ.update({"PYTHONPATH": path} if path is not None else {})
    CONSTS.term_timeout = 0.0  # one that is too late is killed at once: it ignores what asks it to end
    return ProcessPool(num_workers, initializer=_begin_worker, initargs=(payload,), context=context)


_worker_function: Any = None


def _begin_worker(payload: bytes) -> None:
    """Prepare a worker: it ignores signals, which are the trainer's affair, and ends when the trainer has ended."""
    global _worker_function
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _end_with_parent()
    files, function = pickle.loads(payload)
    for name, file in files.items():
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    _worker_function = pickle.loads(function)


def _end_with_parent() -> None:
    """Have the kernel kill this process when the server that forked it goes, which goes with the trainer."""
    if sys.platform == "linux":
        import ctypes

        # The server ends once everybody has closed this end of its pipe, and workers inherit one.
        kept = getattr(getattr(multiprocessing.forkserver, "_forkserver", None), "_forkserver_alive_fd", None)
        if kept is not None:
            os.close(kept)
        parent = os.getppid()
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != parent:  # it went before that
            os._exit(1)


def score_in_worker(sample: dict[str, Any]) -> Any:
    """Score a sample, in a worker."""
    return attempt(_worker_function, sample)
