# vextract:template
"""A view of the machine without the trainer's files, processes and network: bubblewrap starts the server in it."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# By which the server knows that it is in such a view, and which of several it is: 0 means none.
INSIDE = "SANDBOX_IN_BUBBLEWRAP"
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_SYSTEM = (*("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"), "/etc/ld.so.cache", "/etc/localtime")
_APART = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--cap-drop", "ALL")
# The server of root gives each program a user id of its own, and ends what has it.
_ROOTS = [part for name in ("CAP_SETUID", "CAP_SETGID", "CAP_KILL") for part in ("--cap-add", name)]


def readable() -> list[str]:
    """Return the paths that programs see: the system's, Python's, and the installed packages if they may."""
    places = [*_SYSTEM, "/etc/alternatives"]
    for prefix in (sys.base_prefix, sys.prefix):
        places += [os.path.join(prefix, name) for name in ("bin", "lib", "lib64", "pyvenv.cfg")]
    places.append(os.path.dirname(os.__file__))
    return [place for place in dict.fromkeys(places) if os.path.exists(place)]


@functools.lru_cache(maxsize=1)
def prefix(folder: str) -> Sequence[str]:
    """Return what stands before the server's command: bubblewrap, or nothing where it is missing or may not be used.

    Args:
        folder: of the server's code.
    """
    found = shutil.which("bwrap")
    places = [*readable(), folder]
    shown = sorted({os.path.realpath(place) for place in places})
    above = sorted({str(parent) for place in (*places, *shown) for parent in Path(place).parents[:-1]} - {*places})
    view = [part for place in above for part in ("--perms", "0755", "--dir", place)]  # else only root's
    view += [part for place in shown for part in ("--ro-bind", place, place)]
    links = {place: real for place in places if place != (real := os.path.realpath(place))}
    view += [part for place, real in sorted(links.items()) for part in ("--symlink", real, place)]
    view += ["--dev", "/dev", "--proc", "/proc", "--chdir", "/"]
    ways = [*([_ROOTS] if os.geteuid() == 0 else []), ["--unshare-user"]]
    for way in ways if found is not None else ():
        line = [str(found), *_APART, *way, *view]
        tried = subprocess.run([*line, sys.executable, "-I", "-S", "-c", ""], capture_output=True, check=False)
        if tried.returncode == 0:
            return line
    return ()
