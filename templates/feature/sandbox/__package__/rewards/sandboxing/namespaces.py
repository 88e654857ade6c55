# vextract:template
"""Namespaces: a process has process ids, mounts, a network, IPC objects and a root directory of its own.

The root is a file system in memory, of limited size, that nobody else sees and that ends with the process; what
Python and its programs need is in it, read-only.
"""

import ctypes
import os
import struct
import sys

from . import system

NEW_MOUNTS, NEW_UTS, NEW_IPC, NEW_USER, NEW_PIDS, NEW_NETWORK = (
    0x00020000,
    0x04000000,
    0x08000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
ALL = NEW_MOUNTS | NEW_UTS | NEW_IPC | NEW_PIDS | NEW_NETWORK
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
DETACH = 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE = 442, -100, 0x8000
HOME = "/tmp"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SYSTEM_DIRECTORIES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")


def leave(with_user: bool) -> None:
    """Enter new namespaces; process ids are new for what is forked from here on.

    Args:
        with_user: make a user namespace as well, which is what a user who is not root may do.

    Raises:
        OSError: this user may not.
    """
    user, group = os.getuid(), os.getgid()
    system.call("unshare", ctypes.c_int(ALL | (NEW_USER if with_user else 0)))
    if with_user:
        system.hide_memory(False)  # a process with hidden memory may not write these
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
        system.hide_memory()


def readable() -> list[str]:
    """Return the paths that programs see: the system's, Python's, and the installed packages if they may."""
    places = list(SYSTEM_DIRECTORIES + SYSTEM_FILES)
    for prefix in (sys.base_prefix, sys.prefix):
        places += [os.path.join(prefix, name) for name in ("bin", "lib", "lib64")]
    places.append(os.path.dirname(os.__file__))
    return [place for place in dict.fromkeys(places) if os.path.exists(place)]


def enter_root(size_mb: int, files: int) -> None:
    """Make the root directory, and leave the one of the machine. To be called in the new namespaces, with privileges.

    Args:
        size_mb: of all files that a program writes.
        files: how many.
    """
    places = [(place, os.path.realpath(place)) for place in readable()]
    system.call("mount", None, b"/", None, ctypes.c_ulong(RECURSIVE | PRIVATE), None)
    options = f"size={size_mb}m,nr_inodes={files},mode=0755".encode()
    system.call("mount", b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(NO_SUID | NO_DEV), options)
    os.mkdir("/tmp/.machine")
    system.syscall(PIVOT_ROOT[system.MACHINE], b"/tmp", b"/tmp/.machine")
    os.chdir("/")
    for place, real in places:
        _show(place, real)
    os.mkdir("/proc")
    for settings in (b"subset=pid", None):
        try:
            system.call("mount", b"proc", b"/proc", b"proc", ctypes.c_ulong(NO_SUID | NO_DEV | NO_EXEC), settings)
            break
        except OSError:  # a container that hides parts of /proc allows no new one, and Python needs none
            continue
    os.makedirs("/dev", exist_ok=True)
    for device in DEVICES:
        if os.path.exists("/.machine" + device):
            _bind(device)
    for place in (HOME, "/dev/shm", "/var/tmp"):
        os.makedirs(place, exist_ok=True)
        os.chmod(place, 0o1777)
    system.call("umount2", b"/.machine", ctypes.c_int(DETACH))
    os.rmdir("/.machine")


def _show(place: str, real: str) -> None:
    """Show a directory or file of the machine, and under the name that leads to it by links, if that is another."""
    if not os.path.lexists(real):
        os.makedirs(os.path.dirname(real), exist_ok=True)
        _bind(real)
        _make_read_only(real)
    if not os.path.lexists(place):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.symlink(real, place)


def _bind(place: str) -> None:
    outside = "/.machine" + place
    if os.path.isdir(outside):
        os.mkdir(place)
    else:
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
    system.call("mount", outside.encode(), place.encode(), None, ctypes.c_ulong(BIND | RECURSIVE), None)


def _make_read_only(place: str) -> None:
    attributes = struct.pack("QQQQ", READ_ONLY | NO_SUID | NO_DEV, 0, 0, 0)
    try:
        arguments = (ctypes.c_int(AT_FDCWD), place.encode(), ctypes.c_uint(AT_RECURSIVE), attributes)
        system.syscall(MOUNT_SETATTR, *arguments, ctypes.c_size_t(32))
    except OSError:  # before Linux 5.12: without the mounts below it, and with what the mount forbids already
        kept = os.statvfs(place).f_flag & (NO_SUID | NO_DEV | NO_EXEC | 1024 | 2048)
        flags = ctypes.c_ulong(REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEV | kept)
        system.call("mount", None, place.encode(), None, flags, None)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
