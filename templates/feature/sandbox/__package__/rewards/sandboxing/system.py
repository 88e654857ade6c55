# vextract:template
"""Linux system calls that Python has no function for."""

import ctypes
import os
import platform
import sys

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

IS_LINUX = sys.platform == "linux"
MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
_CAPSET = {"x86_64": 126, "aarch64": 91}

_libc = ctypes.CDLL(None, use_errno=True) if IS_LINUX else None


def call(name: str, *arguments: object) -> int:
    """Call a function of the C library.

    Raises:
        OSError: it failed, or there is none.
    """
    function = getattr(_libc, name, None)
    if function is None:
        raise OSError(f"no {name} on {sys.platform}")
    result: int = function(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: object) -> int:
    """Make a system call by its number; raises OSError."""
    return call("syscall", ctypes.c_long(number), *arguments)


def prctl(option: int, *arguments: int) -> int:
    """Change this process; raises OSError."""
    padded = (*arguments, 0, 0, 0, 0)[:4]
    return call("prctl", option, *(ctypes.c_ulong(value) for value in padded))


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends. Where it cannot, the supervisor's clock has to."""
    if IS_LINUX:
        prctl(PR_SET_PDEATHSIG, 9)


def adopt_orphans() -> None:
    """Become the parent of what descends from this process and loses its own."""
    if IS_LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)


def hide_memory(hidden: bool = True) -> None:
    """Keep other processes of this user from reading this one's memory, descriptors and environment."""
    if IS_LINUX:
        prctl(PR_SET_DUMPABLE, int(not hidden))


def drop_capabilities() -> None:
    """Give up every privilege of root, for good."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    syscall(_CAPSET[MACHINE], ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


def no_new_privileges() -> None:
    """Keep set-uid programs from giving any back."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
