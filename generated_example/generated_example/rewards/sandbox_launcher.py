# vextract:template
"""The process between the trainer and a program: sets the limits, runs it in a child, ends all that it leaves behind.

Run by sandbox.py as a script, without site-packages; imports nothing but the standard library.
"""

import json
import os
import resource
import signal
import sys
import traceback
from typing import Any, NoReturn

OUT_OF_MEMORY = 101
# Descriptors of the directories that modules come from.
FIRST_DIRECTORY = 200
# Where the trainer is root, programs get user ids from here on: no distribution gives these to anybody.
FIRST_USER, USERS = 52000, 8000


class TimeOver(Exception):
    """The program has used its seconds."""


def main(job_path: str, verdicts_path: str) -> None:
    """Run the job; write how it ended, and exit."""
    with open(job_path, encoding="utf-8") as file:
        job = json.load(file)
    verdicts = os.open(verdicts_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    user = os.getuid()
    if _may_change_user():
        user = FIRST_USER + int(job["token"], 16) % USERS
        os.chown(job["work"], user, user)
        os.chown(os.path.join(job["work"], "solution.py"), user, user)
    signal.signal(signal.SIGALRM, _time_over)
    # Also if the trainer is gone by then.
    signal.setitimer(signal.ITIMER_REAL, job["seconds"])
    child = os.fork()
    if child == 0:
        _become_program(job, user, verdicts)
    reason = "timeout"
    status = None
    try:
        while status is None:  # as the first process of a namespace it gets the orphans, too
            ended, ended_status = os.waitpid(-1, 0)
            status = ended_status if ended == child else None
    except TimeOver:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    _end_all(child, user, job["parent_is_hidden"])
    code = -signal.SIGKILL if status is None else os.waitstatus_to_exitcode(status)
    if status is not None:
        reason = {0: "ok", OUT_OF_MEMORY: "memory", -signal.SIGXCPU: "timeout"}.get(code, "error")
    os.write(verdicts, f"{job['token']}-end {code} {reason}\n".encode())
    os._exit(0)


def _may_change_user() -> bool:
    """Root outside of a user namespace, which knows no other users."""
    if os.geteuid() != 0:
        return False
    try:
        with open("/proc/self/uid_map", encoding="utf-8") as file:
            return any(int(line.split()[2]) >= FIRST_USER + USERS for line in file)
    except OSError:
        return True


def _time_over(number: int, frame: Any) -> NoReturn:
    raise TimeOver


def _end_all(child: int, user: int, is_first_process: bool) -> None:
    """Kill what the program has started. In a namespace of its own the kernel does so, when this process ends."""
    if not is_first_process:
        if user != os.getuid():
            killer = os.fork()  # everything that runs as the program's user
            if killer == 0:
                os.setgid(user)
                os.setuid(user)
                os.kill(-1, signal.SIGKILL)
                os._exit(0)
            os.waitpid(killer, 0)
        try:
            os.killpg(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


def _become_program(job: dict[str, Any], user: int, verdicts: int) -> NoReturn:
    os.setsid()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if user != os.getuid():
        _keep_modules_in_reach()
    _set_limits(job, user)
    os.closerange(3, verdicts)
    os.closerange(verdicts + 1, FIRST_DIRECTORY)
    code = 1
    try:
        code = _run(job, verdicts)
    except MemoryError:
        job = {}
        code = OUT_OF_MEMORY
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            code = code or 1
        os._exit(code)


def _keep_modules_in_reach() -> None:
    """Let another user import what this one can, wherever Python is installed (in a closed home directory, say).

    A directory that is open can be read although the ones above it cannot be passed.
    """
    reached: dict[str, str] = {}
    for path in sys.path:
        if os.path.isdir(path):
            number = FIRST_DIRECTORY + len(reached)
            descriptor = os.open(path, os.O_RDONLY)
            os.dup2(descriptor, number)
            os.close(descriptor)
            reached[path] = f"/proc/self/fd/{number}"
    if not os.path.isdir("/proc/self/fd"):
        return
    sys.path[:] = [reached.get(path, path) for path in sys.path]
    by_depth = sorted(reached, key=len, reverse=True)
    for module in list(sys.modules.values()):
        places = getattr(module, "__path__", None)
        if isinstance(places, list):  # of a package that is imported: its further modules are found here
            module.__path__ = [_moved(place, by_depth, reached) for place in places]
    sys.path_importer_cache.clear()


def _moved(place: str, by_depth: list[str], reached: dict[str, str]) -> str:
    for path in by_depth:
        if place.startswith(path + "/"):
            return reached[path] + place[len(path) :]
    return place


def _set_limits(job: dict[str, Any], user: int) -> None:
    size = job["output_kb"] * 1024
    memory = job["memory_mb"] * 1024 * 1024
    seconds = int(job["seconds"]) + 1
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, size),
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_NOFILE, 64),
    ):
        _limit(kind, limit)
    changes = user != os.getuid()
    others = 0 if changes or job["parent_is_hidden"] else _running_as(user)
    _limit(resource.RLIMIT_NPROC, others + job["processes"])
    os.umask(0o077)
    if changes:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    elif not job["parent_is_hidden"]:
        sys.addaudithook(_no_signals)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):  # macOS has no limit of the address space
        pass


def _running_as(user: int) -> int:
    """How many processes and threads a user has: the kernel's limit counts them all."""
    count = 0
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if entry.isdigit():
            try:
                if os.stat(f"/proc/{entry}").st_uid == user:
                    count += len(os.listdir(f"/proc/{entry}/task"))
            except OSError:
                pass
    return count


def _no_signals(event: str, arguments: tuple[Any, ...]) -> None:
    """Where the program could reach the trainer's processes: keep it from signalling any by accident."""
    if event in ("os.kill", "os.killpg"):
        raise PermissionError("programs may not send signals here")


def _run(job: dict[str, Any], verdicts: int) -> int:
    asserts = job["asserts"]
    sys.argv = ["solution.py"]
    sys.path.insert(0, job["work"])
    namespace: dict[str, Any] = {"__name__": "solution" if asserts else "__main__", "__file__": "solution.py"}
    token = job["token"]
    job.clear()
    with open("solution.py", encoding="utf-8") as file:
        source = file.read()
    code = _executed(source, namespace)
    if code != 0:
        return code
    for index, test in enumerate(asserts):
        held = _executed(test, namespace) == 0
        os.write(verdicts, f"{token} {index} {int(held)}\n".encode())
    return 0


def _executed(source: str, namespace: dict[str, Any]) -> int:
    """Run source text; its exit code."""
    try:
        exec(compile(source, "solution.py", "exec"), namespace)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except MemoryError:
        raise
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
