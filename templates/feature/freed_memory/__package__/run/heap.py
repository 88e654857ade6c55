# vextract:template - edit freely
"""Freed memory of a process that computes on a CPU."""

import ctypes
import math
import sys
from pathlib import Path
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
MAPPED_FROM, MAPPED_FROM_IF_SMALL, KEPT_AT_THE_END = 2**20, 32 * 2**20, 64 * 2**20
SMALL = 384 * 2**20  # bytes that a run adds to its process


class FreedMemory:
    """Has the C library give the memory of tensors back when they are freed (glibc; elsewhere nothing is changed).

    By itself glibc soon keeps all that are smaller than 32 MiB, and those in use come to lie between those that were
    freed: a process may hold twice what it needs. But memory that was given back has to be asked for again, page by
    page, which takes a fifth of a small model's step: a run that is found to be small keeps it.

    Attributes:
        mapped_from: bytes of the smallest tensor that is given back; None: glibc decides.
    """

    def __init__(self) -> None:
        self.mapped_from: int | None = None
        self._before = math.inf  # the most that the process had held when it was first asked to give memory back

    def give_back(self) -> None:
        """Give all of it back from now on, as long as nothing says that the run is small."""
        if self.mapped_from is None and hasattr(_library(), "mallopt"):
            self._before = _peak()
        self._set(MAPPED_FROM)

    def after_step(self) -> None:
        """Keep it while the run has never held much, and give it back once it has."""
        if self.mapped_from is not None:
            is_small = _peak() - self._before <= SMALL  # False where neither is known
            self._set(MAPPED_FROM_IF_SMALL if is_small else MAPPED_FROM)

    def _set(self, mapped_from: int) -> None:
        library = _library()
        if mapped_from == self.mapped_from or not hasattr(library, "mallopt"):
            return
        library.mallopt(M_MMAP_THRESHOLD, mapped_from)
        library.mallopt(M_TRIM_THRESHOLD, KEPT_AT_THE_END)
        if self.mapped_from is not None and mapped_from < self.mapped_from:
            library.malloc_trim(0)  # what was kept until now
        self.mapped_from = mapped_from


def _library() -> Any:
    return ctypes.CDLL(None) if sys.platform == "linux" else None


def _peak() -> float:
    """Return the most bytes that this process has held; `getrusage` counts what its parent held as well."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        status = ""
    found = status.partition("VmHWM:")[2].split()  # some containers do not say it
    return int(found[0]) * 1024 if found else math.inf


freed_memory = FreedMemory()  # of this process, which has one heap
