# vextract:template
"""What a hook changes of the process that it runs in, and a run needs as it was.

verl calls rewards and environments in processes of their own. Here they run in the trainer's, where a grader that goes
to another directory would take the checkpoints along, and one that seeds would have every step draw the same responses.
"""

import contextlib
import os
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

_said: set[str] = set()


class SharedState:
    """What hooks may change of the process: directory, threads of torch, gradients, seed.

    Args:
        config: the whole config.
        step: of the run, which makes other random numbers of each seed.
    """

    def __init__(self, config: Any, step: int) -> None:
        self._seed, self._step = config.local.seed, step
        self._before, self._torch_seed = {name: read() for name, (read, _) in _SHARED.items()}, torch.initial_seed()

    def put_back(self) -> None:
        """Undo what hooks have changed since. A note says so once."""
        for name, (read, put_back) in _SHARED.items():
            if self._before[name] is not None and read() != self._before[name]:
                put_back(self._before[name])
                _say(f"a hook has changed {name}, which is {self._before[name]} again")
        if torch.initial_seed() != self._torch_seed:
            torch.manual_seed(zlib.crc32(f"{self._seed} {self._step} {os.environ.get('RANK', '0')}".encode()))
            _say("a hook has seeded torch, which draws responses: they are drawn with another seed")


@contextlib.contextmanager
def staying_in_process() -> Iterator[None]:
    """End a process that a hook has forked within it and that comes back from there: it would go on with the run."""
    process = os.getpid()
    try:
        yield
    except BaseException as error:
        if os.getpid() == process:
            raise
        if isinstance(error, SystemExit) and isinstance(error.code, (int, type(None))):
            os._exit(error.code or 0)
        traceback.print_exception(error)
        os._exit(1)
    if os.getpid() != process:
        os.write(2, b"error: a process that a hook has forked returns from the hook: end it with os._exit\n")
        os._exit(1)


def _directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed
        return None


# What a process shares: how to ask for it, and how to set it.
_SHARED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "the working directory": (_directory, os.chdir),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "whether torch computes gradients": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
}


def _say(text: str) -> None:
    if text not in _said and os.environ.get("RANK", "0") == "0":
        print(f"note: {text}", file=sys.stderr, flush=True)
    _said.add(text)
