# vextract:template
"""Run a program that the model wrote, with limits, apart from everything that is not its own.

A program sees Python and the system's libraries; no file of the trainer's, no process but those it starts, no network,
and it writes no files. It runs in bubblewrap where that is installed (under a user id of its own where the trainer is
root), with Landlock and a filter of system calls, as far as this machine has them: `isolation()` says what holds, and
where neither bubblewrap nor Landlock do, nothing is run unless `allow_unisolated` says so. What it uses is limited
(`Limits`), and all that it starts is ended.

Tests are evaluated in another process, which asks the program's functions for values (`sandboxing`).

It is the kernel that holds a program: against one that knows a way out of the kernel, use a virtual machine.
"""

import functools
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .sandboxing.cases import check
from .sandboxing.client import NoAnswer, Server
from .sandboxing.errors import SandboxError, TestsError
from .sandboxing.isolation import Isolation
from .sandboxing.limits import Limits
from .sandboxing.names import INSTALLED, PROGRAM_MODULES

__all__ = [
    *("Isolation", "Limits", "Run", "SandboxError", "TestsError"),
    *("check_tests", "isolation", "judge_program", "run_inputs", "run_program"),
]

ALLOW = "REWARDS_ALLOW_UNISOLATED"
SITE_PACKAGES = "REWARDS_SITE_PACKAGES"
PERMIT = "local.reward.site_packages=true lets tests and programs import it, or Limits(site_packages=True)"
ATTEMPTS = 3
# Seconds that a supervisor may take beyond the limits of its program.
SLACK = 15.0
_announced: list[Isolation] = []
# By whether programs may import what is installed.
SERVERS = {choice: Server(choice) for choice in (False, True)}


@dataclass(frozen=True)
class Run:
    """Says how a program ended.

    Attributes:
        status: "ok" (it ended by itself, without an error), "error", "timeout", "memory", "output" (it printed more
            than it may).
        exit_code: of the process; negative: the signal that ended it.
        stdout: what it printed, and `stderr`, cut off at the limit; bytes that are not UTF-8 are replaced.
        seconds: that it took.
        passed: for each of the tests whether it held.
    """

    status: str
    exit_code: int
    stdout: str
    stderr: str
    seconds: float
    passed: tuple[bool, ...] = ()


def run_program(source: str, *, stdin: str = "", asserts: Sequence[str] = (), limits: Limits | None = None) -> Run:
    """Run a Python program to its end, or until it reaches a limit.

    Args:
        source: the program.
        stdin: what it reads from standard input.
        asserts: statements that are tests of what it defines, see `judge_program`; a program with asserts is imported
            (`__name__` is not "__main__").
        limits: the default `Limits()`.

    Raises:
        SandboxError: programs cannot be run here.
    """
    if asserts:
        return judge_program(source, {"asserts": [str(test) for test in asserts]}, limits)
    return run_inputs(source, [stdin], limits)[0]


def run_inputs(source: str, inputs: Sequence[str], limits: Limits | None = None) -> list[Run]:
    """Run a program once for each input, each time afresh; arguments and errors as of `run_program`."""
    return _runs({"source": source, "inputs": list(inputs), "has_tests": False}, None, limits or Limits())


def judge_program(source: str, tests: Mapping[str, Any], limits: Limits | None = None) -> Run:
    """Import a program, and evaluate tests of what it defines in another process.

    Args:
        source: the program.
        tests: some of what `sandboxing.judge.Tests` has: setup, entry_point, asserts, module, calls.
        limits: of the program, and of the tests.

    Raises:
        SandboxError: programs cannot be run here.
    """
    (run,) = _runs({"source": source, "inputs": [], "has_tests": True}, tests, limits or Limits())
    return run


def check_tests(tests: Mapping[str, Any], limits: Limits | None = None) -> None:
    """Check tests, whatever the program; arguments as of `judge_program`.

    Raises:
        TestsError: no program could pass them, or each would.
    """
    sources = tests.get("setup") or "", tuple(tests.get("asserts", ())), tests.get("module") or ""
    _check_tests(*sources, tests.get("entry_point"), _allowed(limits or Limits()).site_packages)


@functools.lru_cache(maxsize=1024)
def _check_tests(setup: str, asserts: tuple[str, ...], module: str, entry_point: str | None, installed: bool) -> None:
    """Check tests before any program is; raises TestsError."""
    needed = sorted(check(setup, asserts, module, entry_point))
    for name in _ask([{"modules": needed}], installed, 60.0)["missing"] if needed else ():
        if not installed and not _ask([{"modules": [name]}], True, 60.0)["missing"]:
            raise TestsError(f"the tests import {name}, which they may not: it does not come with Python", PERMIT)
        program = "; a program is imported as " + ", ".join(PROGRAM_MODULES[:-1]) + f" or {PROGRAM_MODULES[-1]}"
        install = f"{sys.executable} -m pip install {name}" if name in INSTALLED else "install the package that has it"
        hint = f"{install}; {PERMIT}" + ("" if name in INSTALLED else program)
        raise TestsError(f"the tests import {name}, which is not installed", hint)


@functools.lru_cache(maxsize=1)
def isolation() -> Isolation:
    """Return what holds programs on this machine, found out by trying."""
    if sys.platform == "win32":
        raise SandboxError("programs are run with POSIX resource limits, which Windows does not have")
    return Isolation(**_ask([{"probe": True}], False, 60.0)["isolation"])


def require_isolation(allow_unisolated: bool = False) -> Isolation:
    """Check that something holds programs on this machine.

    Args:
        allow_unisolated: run them all the same where nothing does; this holds for the processes started from now on.

    Raises:
        SandboxError: nothing does, and that is not allowed.
    """
    if allow_unisolated:
        os.environ[ALLOW] = "1"  # for worker processes, too
    held = isolation()
    if not held.holds and not allow_unisolated and os.environ.get(ALLOW) != "1":
        raise SandboxError(
            "nothing here keeps the programs that the model writes from the trainer's files and processes: neither "
            f"bubblewrap nor Landlock, with seccomp; there is: {held}",
            "apt install bubblewrap, or use Linux 5.13 or newer; or, where programs may read and do what this user "
            "may: local.reward.allow_unisolated=true, or Limits(allow_unisolated=True)",
        )
    return held


def announce(allow_unisolated: bool, site_packages: bool = False) -> None:
    """Say once, on the first of several processes, what holds the programs.

    Args:
        allow_unisolated: as above; errors as well.
        site_packages: whether programs and tests may import what is installed, from now on.
    """
    if site_packages:
        os.environ[SITE_PACKAGES] = "1"  # for worker processes, too
    held = require_isolation(allow_unisolated)
    if not _announced and os.environ.get("RANK", "0") == "0":
        _announced.append(held)
        print(f"programs that the model writes are isolated by: {held}", flush=True)


def _runs(job: dict[str, Any], tests: Mapping[str, Any] | None, limits: Limits) -> list[Run]:
    held, limits = require_isolation(limits.allow_unisolated), _allowed(limits)
    try:
        return _attempted(job, tests, limits, held)
    except SandboxError:
        # No program is known that keeps its supervisor from answering. One that does costs its own sample, and not the
        # run, if others can be run.
        check = {"source": "", "inputs": [""], "has_tests": False}
        _attempted(check, None, replace(limits, seconds=5.0, total_seconds=None), held)
    ended = Run("error", -signal.SIGKILL, "", "its supervisor did not answer", 0.0, (False,) if tests else ())
    return [ended] * (1 if tests else len(job["inputs"]))


def _allowed(limits: Limits) -> Limits:
    return replace(limits, site_packages=limits.site_packages or os.environ.get(SITE_PACKAGES) == "1")


def _attempted(job: dict[str, Any], tests: Mapping[str, Any] | None, limits: Limits, held: Isolation) -> list[Run]:
    messages = [{**job, "limits": asdict(limits), "isolation": asdict(held)}, *([tests] if tests is not None else [])]
    total = limits.total_seconds or 10 * limits.seconds
    longest = (total if job["inputs"] else limits.seconds) + SLACK
    for attempt in range(ATTEMPTS):
        result = _ask(messages, limits.site_packages, longest)
        refused = [run["refused"] for run in result["runs"] if run["refused"]]
        if not refused:
            break
        time.sleep(0.2 * (attempt + 1))  # a machine may be short of processes for a moment
    else:
        raise SandboxError(f"a program could not be isolated as at the start ({held}): {refused[0]}")
    passed = tuple(bool(value) for value in result.get("passed", ()))
    return [
        Run(run["status"], run["code"], run["stdout"], run["stderr"], run["seconds"], passed) for run in result["runs"]
    ]


def _ask(messages: Sequence[Mapping[str, Any]], site_packages: bool, seconds: float) -> Any:
    for attempt in range(ATTEMPTS):
        try:
            return SERVERS[site_packages].ask(messages, seconds)
        except NoAnswer as error:
            reason = error
            time.sleep(0.2 * (attempt + 1))
    raise SandboxError(str(reason)) from reason
