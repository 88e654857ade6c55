# vextract:template
"""Run a program that the model wrote, with limits.

THIS IS NO SECURITY BOUNDARY. It keeps a program that is wrong, or that learned to cheat, from disturbing the training:
from running for ever, eating the memory or the disk, filling the machine with processes, signalling the trainer, or
leaving anything behind. It does not hold a program that means to break out, and what any user of the machine may read,
it may read. For programs that you would not run yourself, use a container or a machine of their own (verl has
`sandbox_fusion` in the config for such a service).

A program runs in a process group, an environment and a directory of its own, under resource limits (`Limits`), and,
where the kernel lets this user (`isolation()` says so), without network and in a process namespace of its own, which
ends with everything in it. If the trainer is root, the program runs under a user id that nothing else has.
"""

import functools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import wait
from pathlib import Path

LAUNCHER = Path(__file__).with_name("sandbox_launcher.py")
# Prefixes of a command, the most isolating first: no network, own process ids (killed together).
ISOLATIONS = (
    ("unshare", "--net", "--pid", "--fork", "--kill-child"),
    ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child"),
    ("unshare", "--user", "--map-root-user", "--net"),
)


@dataclass(frozen=True)
class Limits:
    """What a program may use.

    Attributes:
        seconds: on the clock, from start to end.
        memory_mb: address space of each of its processes.
        output_kb: what it may print, to standard output or error, and the size of any file that it writes.
        processes: processes and threads at once, the program itself included. Where the trainer is neither root nor
            may make namespaces, the limit counts from what its user runs at that moment.
        site_packages: whether it may import what is installed, which takes longer to start.
    """

    seconds: float = 5.0
    memory_mb: int = 512
    output_kb: int = 1024
    processes: int = 16
    site_packages: bool = False


@dataclass(frozen=True)
class Run:
    """How a program ended.

    Attributes:
        status: "ok" (it ended by itself, without an error), "error", "timeout", "memory", "output" (it printed more
            than it may).
        exit_code: of the process; negative: the signal that ended it.
        stdout: what it printed, and `stderr`, cut off at the limit; bytes that are no UTF-8 are replaced.
        seconds: that it took, start and end included.
        passed: for each of the asserts whether it held.
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
        asserts: statements to run after it, in its namespace, one by one; a program with asserts is imported
            (`__name__` is not "__main__").
        limits: the default `Limits()`.

    Raises:
        RuntimeError: the sandbox itself could not be started.
    """
    if sys.platform == "win32":
        raise RuntimeError("programs are run with POSIX resource limits, which Windows does not have")
    limits = limits or Limits()
    outer = Path(tempfile.mkdtemp(prefix="sandbox-"))
    try:
        return _run_in(outer, source, stdin, tuple(asserts), limits)
    finally:
        shutil.rmtree(outer, ignore_errors=True)


@functools.lru_cache(maxsize=1)
def isolation() -> tuple[str, ...]:
    """The command that isolates programs on this machine: one of ISOLATIONS, or nothing if the kernel allows none."""
    # A user namespace would hide from root's programs the user ids that theirs is taken from.
    choices = ISOLATIONS[:1] if os.geteuid() == 0 else ISOLATIONS[1:]
    for command in choices:
        if shutil.which(command[0]) is None:
            break
        with tempfile.TemporaryFile() as nothing:
            done = subprocess.run([*command, "true"], stdin=nothing, stdout=nothing, stderr=nothing, timeout=10)
        if done.returncode == 0:
            return command
    return ()


def _run_in(outer: Path, source: str, stdin: str, asserts: tuple[str, ...], limits: Limits) -> Run:
    outer.chmod(0o711)  # the program's user passes through it
    work = outer / "work"
    work.mkdir(mode=0o700)
    (work / "solution.py").write_text(source, encoding="utf-8", errors="surrogatepass")
    token = secrets.token_hex(8)
    job = {"work": str(work), "asserts": asserts, "token": token, **asdict(limits)}
    job["parent_is_hidden"] = "--pid" in isolation()
    (outer / "job.json").write_text(json.dumps(job), encoding="utf-8")
    (outer / "stdin").write_text(stdin, encoding="utf-8")
    flags = ["-I", "-B"] if limits.site_packages else ["-I", "-B", "-S"]
    command = [*isolation(), sys.executable, *flags, str(LAUNCHER), str(outer / "job.json"), str(outer / "verdicts")]
    start = time.monotonic()
    with (outer / "stdin").open("rb") as given, (outer / "out").open("wb") as out, (outer / "err").open("wb") as err:
        process = subprocess.Popen(
            command,
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=work,
            env={"PATH": "/usr/bin:/bin", "HOME": str(work), "TMPDIR": str(work), "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        try:
            # The launcher keeps the time; this is for a launcher that was hurt.
            late = not _ended_within(process, limits.seconds + 2.0)
        finally:
            _kill_group(process)
    seconds = time.monotonic() - start
    stdout, stderr = (_read(outer / name, limits.output_kb * 1024) for name in ("out", "err"))
    ended, verdicts = _verdicts(outer / "verdicts", token)
    if ended is None and not late and process.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"the sandbox could not be started (exit code {process.returncode}): {stderr[-500:]}")
    code, reason = ended or (-signal.SIGKILL, "timeout" if late else "error")
    full = max((outer / name).stat().st_size for name in ("out", "err")) >= limits.output_kb * 1024
    status = "output" if full and reason != "timeout" else reason
    passed = tuple(verdicts.get(index, False) for index in range(len(asserts)))
    return Run(status, code, stdout, stderr, seconds, passed)


def _ended_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait without polling, where the system can."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True
    try:
        return bool(wait([descriptor], seconds))
    finally:
        os.close(descriptor)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)  # its own group: start_new_session
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def _read(path: Path, limit: int) -> str:
    with path.open("rb") as file:
        return file.read(limit).decode("utf-8", errors="replace")


def _verdicts(path: Path, token: str) -> tuple[tuple[int, str] | None, dict[int, bool]]:
    """What the launcher wrote: how the program ended, and which asserts held. Lines without the token are not its."""
    ended, held = None, {}
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, rest = line.partition(" ")
            if key == f"{token}-end":
                code, _, reason = rest.partition(" ")
                ended = int(code), reason
            elif key == token:
                held[int(rest.split()[0])] = rest.split()[1] == "1"
    return ended, held
