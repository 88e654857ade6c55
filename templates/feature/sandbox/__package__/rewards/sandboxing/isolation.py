# vextract:template
"""What keeps a program from everything that is not its own, on this machine."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

from . import bubblewrap, landlock, seccomp, system
from .limits import ONE_THREAD, Limits, set_limits

# Where the supervisor is root, programs get user ids from here on, which no distribution gives to anybody: two for each
# supervisor, by its process id. Where a container has fewer ids, from the second number on.
FIRST_USER, FIRST_USER_OF_CONTAINER, USERS_OF_CONTAINER = 1 << 24, 20000, 40000


@dataclass(frozen=True)
class Isolation:
    """Holds a program.

    Attributes:
        bubblewrap: a view of the machine without the trainer's files, processes and network.
        user: a user id that nothing else has.
        landlock: the version of Landlock, 0: none.
        seccomp: a filter of system calls.
    """

    bubblewrap: bool = False
    user: bool = False
    landlock: int = 0
    seccomp: bool = False

    @property
    def holds(self) -> bool:
        """Tell whether it keeps a program from the trainer's files, memory and processes."""
        return self.seccomp and (self.bubblewrap or self.landlock > 0)

    def __str__(self) -> str:
        parts = {
            "bubblewrap": self.bubblewrap,
            "a user id of its own": self.user,
            f"Landlock {self.landlock}": self.landlock,
            "seccomp": self.seccomp,
        }
        return ", ".join([name for name, there in parts.items() if there] or ["none"])


def choices() -> Iterator[Isolation]:
    """Yield what may work here, the most isolating first."""
    known, inside = seccomp.is_known(), os.environ.get(bubblewrap.INSIDE, "0") != "0"
    best = Isolation(bubblewrap=inside, landlock=landlock.version() if known else 0, seccomp=known)
    for kernel in (best, replace(best, landlock=0), Isolation(bubblewrap=inside)):
        if os.geteuid() == 0:
            yield replace(kernel, user=True)
        yield kernel


def enter(isolation: Isolation, user: int, limits: Limits) -> None:
    """Isolate this process, for good.

    Args:
        isolation: what to use: all of it, or none of what follows is run.
        user: the user id that it gets, if it gets one.
        limits: what it may use.

    Raises:
        OSError: the kernel refuses something.
    """
    os.chdir("/")
    os.environ.clear()
    os.environ.update({"PATH": "/usr/bin:/bin", "HOME": "/", "TMPDIR": "/", "LANG": "C.UTF-8"})
    os.environ.update(ONE_THREAD if limits.site_packages else {})
    set_limits(limits, counts_others=not isolation.user)
    os.umask(0o077)
    if isolation.user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if isolation.seccomp:
        system.drop_capabilities()
        system.no_new_privileges()
    if system.IS_LINUX:
        system.die_with_parent()  # a new user id has undone it
    if isolation.landlock:
        landlock.restrict(bubblewrap.readable(), bubblewrap.DEVICES)
    if isolation.seccomp:
        seccomp.restrict()


def users() -> tuple[int, int]:
    """Return the user ids of this supervisor's candidates and of its judges."""
    server = int(os.environ.get(bubblewrap.INSIDE, "0"))  # process ids in its view begin with 1
    number = 32768 * (server % 4096) + os.getpid() % 32768 if server else os.getpid()
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            last = max(int(line.split()[0]) + int(line.split()[2]) for line in file)
    except OSError:
        last = 0
    if last > 1 << 30:
        return FIRST_USER + 2 * number, FIRST_USER + 2 * number + 1
    first = FIRST_USER_OF_CONTAINER + 2 * number % USERS_OF_CONTAINER
    return first, first + 1
