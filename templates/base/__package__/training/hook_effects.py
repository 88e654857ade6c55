# vextract:template
"""What a hook changes of the process that it runs in, and a run needs as it was.

verl calls rewards and environments in processes of their own. Here they run in the trainer's, where a grader that goes
to another directory would take the checkpoints along, and one that seeds would have every step draw the same responses.
"""

import contextlib
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

_said: set[str] = set()


@contextlib.contextmanager
def undone(config: Any, step: int) -> Iterator[None]:
    """Have what hooks change within it undone: directory, threads of torch, gradients, seed. A note says so once.

    Args:
        config: the whole config.
        step: of the run, which makes other random numbers of each seed.
    """
    before, seed = {name: read() for name, (read, _) in _SHARED.items()}, torch.initial_seed()
    try:
        yield
    finally:
        for name, (read, put_back) in _SHARED.items():
            if before[name] is not None and read() != before[name]:
                put_back(before[name])
                _say(f"a hook has changed {name}, which is {before[name]} again")
        if torch.initial_seed() != seed:
            torch.manual_seed(zlib.crc32(f"{config.local.seed} {step} {os.environ.get('RANK', '0')}".encode()))
            _say("a hook has seeded torch, which draws responses: they are drawn with another seed")


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
