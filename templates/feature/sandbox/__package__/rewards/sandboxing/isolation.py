# vextract:template
"""What keeps a program from everything that is not its own, on this machine."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import landlock, namespaces, seccomp, system
from .limits import ONE_THREAD, Limits, set_limits

# Where the supervisor is root, programs get user ids from here on, which no distribution gives to anybody: two for each
# supervisor, by its process id. Where a container has fewer ids, from the second number on.
FIRST_USER, FIRST_USER_OF_CONTAINER, USERS_OF_CONTAINER = 1 << 24, 20000, 40000
FILES = 4096


@dataclass(frozen=True)
class Isolation:
    """Holds a program.

    Attributes:
        namespaces: "": none; "root": made by root; "user": in a user namespace, which others may make as well.
        user: a user id that nothing else has.
        landlock: the version of Landlock, 0: none.
        seccomp: a filter of system calls.
    """

    namespaces: str = ""
    user: bool = False
    landlock: int = 0
    seccomp: bool = False

    @property
    def holds(self) -> bool:
        """Tell whether it keeps a program from the trainer's files, memory and processes."""
        return bool(self.namespaces) or (self.landlock > 0 and self.seccomp)

    def __str__(self) -> str:
        parts = {
            "namespaces": self.namespaces,
            "a user id of its own": self.user,
            f"Landlock {self.landlock}": self.landlock,
            "seccomp": self.seccomp,
        }
        return ", ".join([name for name, there in parts.items() if there] or ["none"])


def choices() -> Iterator[Isolation]:
    """Return what may work here, the most isolating first; the last one is none at all."""
    root = os.geteuid() == 0
    known = seccomp.is_known()
    best = Isolation(landlock=landlock.version() if known else 0, seccomp=known)
    if known:
        for kernel in (best, replace(best, landlock=0), replace(best, landlock=0, seccomp=False)):
            if root:
                yield replace(kernel, namespaces="root", user=True)
                yield replace(kernel, namespaces="root")
            yield replace(kernel, namespaces="user")
    if root and best.landlock:
        yield replace(best, user=True)
    if best.landlock:
        yield best
    if root:
        yield Isolation(user=True, seccomp=known)
    yield Isolation(seccomp=known)
    yield Isolation()


def leave(isolation: Isolation) -> None:
    """Prepare the parent of the process that is to be isolated; raises OSError."""
    if isolation.namespaces:
        namespaces.leave(with_user=isolation.namespaces == "user")
    elif system.IS_LINUX:
        system.prctl(system.PR_SET_CHILD_SUBREAPER, 1)


def enter(isolation: Isolation, user: int, limits: Limits) -> None:
    """Isolate this process, for good. Its parent has called `leave`.

    Args:
        isolation: what to use: all of it, or none of what follows is run.
        user: the user id that it gets, if it gets one.
        limits: what it may use.

    Raises:
        OSError: the kernel refuses something.
    """
    home = "/"
    if isolation.namespaces:
        home = namespaces.HOME
        namespaces.enter_root(limits.files_mb, FILES)
    os.chdir(home)
    os.environ.clear()
    os.environ.update({"PATH": "/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"})
    os.environ.update(ONE_THREAD if limits.site_packages else {})
    counts_others = not isolation.user and (isolation.namespaces != "user" or _counts_across_namespaces())
    set_limits(limits, counts_others, bool(isolation.namespaces))
    os.umask(0o077)
    if isolation.user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if isolation.seccomp or isolation.namespaces or isolation.landlock:
        system.drop_capabilities()
        system.no_new_privileges()
    if system.IS_LINUX:
        system.die_with_parent()  # a new user id has undone it
    if isolation.landlock and isolation.namespaces:
        landlock.restrict(["/"], [home, "/dev/shm", "/var/tmp"], namespaces.DEVICES)
    elif isolation.landlock:
        landlock.restrict(namespaces.readable(), [], namespaces.DEVICES)
    if isolation.seccomp:
        seccomp.restrict(bool(isolation.namespaces))


def users() -> tuple[int, int]:
    """Return the user ids of this supervisor's candidates and of its judges."""
    number = os.getpid()
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            last = max(int(line.split()[0]) + int(line.split()[2]) for line in file)
    except OSError:
        last = 0
    if last > 1 << 30:
        return FIRST_USER + 2 * number, FIRST_USER + 2 * number + 1
    first = FIRST_USER_OF_CONTAINER + 2 * number % USERS_OF_CONTAINER
    return first, first + 1


def _counts_across_namespaces() -> bool:
    """Tell whether the kernel counts a user's processes together, whatever their namespace: before Linux 5.14."""
    release = os.uname().release.split(".")
    return (int(release[0]), int(release[1])) < (5, 14)
