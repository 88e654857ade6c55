# vextract:template
"""What a program may use: the kernel's limits of a process, and the memory of all its processes together."""

import os
import resource
from dataclasses import dataclass

MB = 1024 * 1024
OPEN_FILES = 64
# What keeps NumPy and its like from starting a thread for each of the machine's cores.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Limits:
    """Holds what a program may use.

    Attributes:
        seconds: on the clock, from start to end.
        memory_mb: address space of each of its processes, and memory of all of them together.
        output_kb: what it may print, to standard output or error.
        processes: processes and threads at once, the program itself included.
        site_packages: whether it and its tests may import what is installed, as numpy and pytest.
        total_seconds: of all runs of one program, one for each input; what is not run by then is "timeout".
            None: ten times `seconds`.
        allow_unisolated: run programs also where nothing keeps them from the trainer's files and processes.
    """

    seconds: float = 5.0
    memory_mb: int = 512
    output_kb: int = 1024
    processes: int = 16
    site_packages: bool = False
    total_seconds: float | None = None
    allow_unisolated: bool = False


def set_limits(limits: Limits, counts_others: bool) -> None:
    """Set the limits of this process and of all that it starts; it may write no files.

    Args:
        limits: what it may use.
        counts_others: whether the kernel counts other processes of this user against the limit of processes.
    """
    others = _running_as(os.getuid()) if counts_others else 0
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_AS, limits.memory_mb * MB),
        (resource.RLIMIT_CPU, int(limits.seconds) + 1),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, others + limits.processes),
    ):
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(kind, (value, value))
        except (OSError, ValueError):  # macOS has no limit of the address space
            pass


def use_of(process: int) -> tuple[int, int]:
    """Return the bytes that a process and all that descend from it have in memory, and how many they are.

    Zero where the kernel does not say.
    """
    total, waiting, count = 0, [process], 0
    while waiting and count < 1000:
        number = waiting.pop()
        count += 1
        try:
            with open(f"/proc/{number}/statm", encoding="ascii") as file:
                total += int(file.read().split()[1]) * resource.getpagesize()
            for thread in os.listdir(f"/proc/{number}/task"):
                with open(f"/proc/{number}/task/{thread}/children", encoding="ascii") as file:
                    waiting += [int(child) for child in file.read().split()]
        except (OSError, ValueError, IndexError):
            continue
    return total, count


def _running_as(user: int) -> int:
    """Return how many processes and threads a user has."""
    count = 0
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit():
            try:
                if os.stat(f"/proc/{entry}").st_uid == user:
                    count += len(os.listdir(f"/proc/{entry}/task"))
            except OSError:
                pass
    return count
