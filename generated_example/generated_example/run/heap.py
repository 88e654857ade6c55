# vextract:template base/__package__/run/heap.py - edit freely
"""Freed memory of a process that computes on a CPU."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
MAPPED_FROM, KEPT_AT_THE_END = 2**20, 64 * 2**20


def return_freed_memory() -> None:
    """Have the C library give the memory of tensors back when they are freed (glibc; elsewhere nothing is changed).

    By itself glibc soon keeps all that are smaller than 32 MiB, and those in use come to lie between those that were
    freed: a process may hold twice what it needs.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, MAPPED_FROM)
        set_option(M_TRIM_THRESHOLD, KEPT_AT_THE_END)
