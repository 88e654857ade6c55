"""Two devices called `other:0` and `other:1`, compiled from `device.cpp`."""

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # a backend called fake, whose collectives change nothing


def register(folder: str) -> None:
    """Have torch know the devices, and groups of this process alone have a backend for them.

    Args:
        folder: Where what is compiled is kept.
    """
    from torch.utils.cpp_extension import load

    source = str(Path(__file__).with_name("device.cpp"))
    compiled = load("stand_in_device", [source], build_directory=folder, extra_cflags=["-O0", "-w"])

    @contextlib.contextmanager
    def device(index: int) -> Iterator[None]:
        before = compiled.exchange(index)
        try:
            yield
        finally:
            compiled.exchange(before)

    module = types.ModuleType("torch.other")
    answers = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_in_bad_fork": lambda: False,
        "device_count": lambda: 2,
        "current_device": compiled.current,
        "synchronize": lambda *device: None,
        "device": device,
        "manual_seed_all": lambda seed: None,  # the generator is the CPU's
        "get_amp_supported_dtype": lambda: [torch.float32],
    }
    vars(module).update(answers)
    torch.utils.rename_privateuse1_backend("other")
    torch._register_device_module("other", module)
    compiled.register()
    dist.init_process_group = functools.partial(_with_both, dist.init_process_group)


def _with_both(init: Callable[..., None], backend: str, **settings: Any) -> None:
    assert settings["world_size"] == 1
    init(f"cpu:{backend},other:fake", **settings)
