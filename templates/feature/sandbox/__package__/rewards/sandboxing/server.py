# vextract:template
"""A process that forks supervisors, so that each need not import what it needs. It never sees a program or a test.

Its standard input is a socket, from which it takes one descriptor for each supervisor. It ends when the trainer closes
the other end, or has ended however it may.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from typing import NoReturn

from . import supervisor, system


def main() -> None:
    """Fork supervisors until there is nobody left to ask for them, and exit."""
    import ast  # noqa: F401 - these are what tests and programs often import
    import collections  # noqa: F401
    import math  # noqa: F401
    import symtable  # noqa: F401
    import unittest  # noqa: F401

    for name in () if sys.flags.no_site else ("numpy", "pytest"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    sys.dont_write_bytecode = True
    os.umask(0o022)
    system.hide_memory()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    gc.collect()
    gc.freeze()
    control = socket.socket(fileno=0)
    while True:
        _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not descriptors:
            break
        try:
            if os.fork() == 0:
                _supervise(descriptors[0])
        except OSError:  # no process to be had: the trainer sees that there is no answer
            pass
        os.close(descriptors[0])
    with contextlib.suppress(ChildProcessError):  # a trainer that was killed: programs are ended by their own clocks
        while True:
            os.wait()
    os._exit(0)


def _supervise(connection: int) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(connection, 0)
        os.dup2(connection, 1)
        os.close(connection)
        system.die_with_parent()
        answer = supervisor.run(0)
    except BaseException:
        answer = {"failed": traceback.format_exc(limit=-3)}
    data = memoryview(json.dumps(answer).encode("ascii"))
    try:
        while data:
            data = data[os.write(1, data) :]
    finally:
        os._exit(0)
