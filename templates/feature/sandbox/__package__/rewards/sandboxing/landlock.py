# vextract:template
"""Landlock: a process gives up access to all files but those named, to TCP, and to signalling others."""

import ctypes
import os
import struct
from collections.abc import Iterable

from . import system

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
EXECUTE, READ_FILE, READ_DIR, WRITE_FILE, TRUNCATE = 1 << 0, 1 << 2, 1 << 3, 1 << 1, 1 << 14
READ = EXECUTE | READ_FILE | READ_DIR
# File rights by the first version of Landlock that has them: 13 in the first, then REFER, TRUNCATE, IOCTL_DEV.
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
TCP_FROM, SCOPES_FROM = 4, 6


def version() -> int:
    """Return the version of Landlock of this kernel; 0: none."""
    try:
        return system.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    except OSError:
        return 0


def restrict(readable: Iterable[str], devices: Iterable[str]) -> None:
    """Restrict this process and all that it starts, for good. Needs `no_new_privileges`.

    Args:
        readable: directories and files that stay readable, with all below them.
        devices: files that stay readable and writable.

    Raises:
        OSError: the kernel refuses.
    """
    abi = version()
    handled = next(rights for first, rights in sorted(FILE_RIGHTS.items(), reverse=True) if first <= abi)
    attributes = struct.pack("QQQ", handled, 3 if abi >= TCP_FROM else 0, 3 if abi >= SCOPES_FROM else 0)
    size = 8 if abi < TCP_FROM else 16 if abi < SCOPES_FROM else 24
    ruleset = system.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for paths, rights in ((readable, READ), (devices, READ_FILE | WRITE_FILE | TRUNCATE)):
            for path in paths:
                _allow(ruleset, path, rights & handled)
        system.syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what is not there needs no access
        return
    try:
        if not os.path.isdir(path):
            rights &= EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE
        rule = struct.pack("=Qi", rights, descriptor)
        system.syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
    finally:
        os.close(descriptor)
