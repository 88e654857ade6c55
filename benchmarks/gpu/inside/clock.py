"""The time, once a GPU has done what it was given: for the scripts beside this one."""

import time


def now() -> float:
    """Return seconds; on a GPU all that was started before is done by then."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()
