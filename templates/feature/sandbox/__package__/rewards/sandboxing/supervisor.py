# vextract:template
"""The process between the trainer and the programs: starts them, keeps their time, and says how they ended.

It reads two messages: what the candidate may know, and, where there are asserts, the tests. It forks the candidate
before it has read the second.
"""

import contextlib
import functools
import importlib.util
import json
import os
import resource
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

from . import candidate, channel, isolation, judge, limits, system
from .isolation import Isolation
from .limits import Limits

MESSAGE_LIMIT = 1 << 30
# Bytes of an answer to a test: as many as the program may print, but at least these.
ANSWER_LIMIT = 4 << 20
# Seconds that a process may take to disappear once it has ended or was killed.
GRACE = 3.0
TICK = 0.1
# The descriptors that a child works with; those of standard input, output and error are 0 to 2.
REQUESTS, ANSWERS = 3, 4
REPORT = 5


def run(descriptor: int) -> dict[str, Any]:
    """Do what the messages from a descriptor say.

    Returns:
        {"isolation": what works}, {"missing": which modules are not there}, or {"runs": how each ended, "passed":
        which tests held}.
    """
    job = json.loads(channel.receive(descriptor, MESSAGE_LIMIT))
    if job.get("probe"):
        return {"isolation": asdict(_probe())}
    if "modules" in job:
        return {"missing": [name for name in job["modules"] if importlib.util.find_spec(name) is None]}
    return _Supervisor(job, descriptor).run()


@dataclass
class _Child:
    """A process that is watched, by its keeper's report.

    Attributes:
        keeper: process id of the keeper, and `report`, the descriptor that it writes to.
        process: process id of what it keeps.
        output: what came from each descriptor that is read.
    """

    keeper: int
    report: int
    started: float
    process: int = 0
    code: int | None = None
    reason: str = ""
    refused: str = ""
    seconds: float = 0.0
    output: dict[str, bytearray] = field(default_factory=dict)


class _Supervisor:
    def __init__(self, job: dict[str, Any], trainer: int) -> None:
        self.trainer = trainer
        self.limits = Limits(**job["limits"])
        self.isolation = Isolation(**job["isolation"])
        self.source, self.inputs, self.has_tests = job["source"], job["inputs"], job["has_tests"]
        self.users = isolation.users()
        self.selector = selectors.DefaultSelector()

    def run(self) -> dict[str, Any]:
        if self.has_tests:
            return self._judged()
        total = self.limits.total_seconds or 10 * self.limits.seconds
        end = time.monotonic() + total
        runs: list[dict[str, Any]] = []
        work = functools.partial(candidate.run_program, self.source)
        for given in self.inputs:
            if time.monotonic() >= end and runs:
                runs.append(
                    {"status": "timeout", "code": -9, "stdout": "", "stderr": "", "seconds": 0.0, "refused": ""}
                )
                continue
            with _file(given.encode("utf-8", "surrogateescape")) as file:
                child = self._start(work, {0: file.fileno()}, self.users[0], ("stdout", "stderr"))
            self._watch([child], child, min(time.monotonic() + self.limits.seconds, end))
            runs.append(_ended(child))
        return {"runs": runs}

    def _judged(self) -> dict[str, Any]:
        requests, answers = os.pipe(), os.pipe()
        limit = max(ANSWER_LIMIT, self.limits.output_kb * 1024)
        source = self.source
        asked = self._start(
            lambda: candidate.serve(source, REQUESTS, ANSWERS, limit),
            {0: os.open("/dev/null", os.O_RDONLY), REQUESTS: requests[0], ANSWERS: answers[1]},
            self.users[0],
            ("stdout", "stderr"),
        )
        os.close(requests[0])
        os.close(answers[1])

        # From here on there are expected values in this process.
        def evaluate() -> int:
            verdicts = os.dup(1)  # tests may print what the candidate returned: that is discarded
            os.dup2(0, 1)
            judge.run(judge.Tests(**json.loads(received)), REQUESTS, ANSWERS, limit, verdicts)
            return 0

        received = channel.receive(self.trainer, MESSAGE_LIMIT)
        descriptors = {0: os.open("/dev/null", os.O_RDWR), REQUESTS: requests[1], ANSWERS: answers[0]}
        judging = self._start(evaluate, descriptors, self.users[1], ("verdicts", "stderr"))
        os.close(requests[1])
        os.close(answers[0])
        self._watch([asked, judging], judging, time.monotonic() + self.limits.seconds)
        lines = [json.loads(line) for line in bytes(judging.output["verdicts"]).splitlines() if line.endswith(b"}")]
        count = next((line["count"] for line in reversed(lines) if "count" in line), 0) or 1
        held = {line["test"]: line["passed"] for line in lines if "test" in line}
        ended = _ended(asked)
        if ended["status"] == "ok" and judging.reason:  # the candidate was idle, and the judge took too long
            ended["status"] = judging.reason
        elif ended["status"] == "ok" and len(held) < count:
            ended["status"] = "error"
        ended["refused"] = ended["refused"] or judging.refused
        return {"runs": [ended], "passed": [bool(held.get(index)) for index in range(count)]}

    def _start(
        self, work: Callable[[], int], descriptors: dict[int, int], user: int, outputs: tuple[str, str]
    ) -> _Child:
        """Fork a keeper, and from it a process that is isolated and then does its work."""
        pipes = {number: os.pipe() for number in (1, 2)}
        report = os.pipe()
        given = {**descriptors, **{number: pipe[1] for number, pipe in pipes.items()}}
        keeper = os.fork()
        if keeper == 0:
            _keep(work, given, report[1], self.isolation, user, self.limits)
        for descriptor in (report[1], *(pipe[1] for pipe in pipes.values())):
            os.close(descriptor)
        child = _Child(keeper, report[0], time.monotonic())
        for name, number in zip((*outputs, "report"), (pipes[1][0], pipes[2][0], report[0]), strict=True):
            child.output[name] = bytearray()
            os.set_blocking(number, False)
            self.selector.register(number, selectors.EVENT_READ, (child, name))
        return child

    def _watch(self, children: list[_Child], main: _Child, deadline: float) -> None:
        """Read from children until one of them has ended; then end the others."""
        latest = deadline + GRACE
        next_look = time.monotonic() + TICK
        while any(child.code is None for child in children) and time.monotonic() < latest:
            now = time.monotonic()
            if now >= deadline:
                for child in children:
                    child.reason = child.reason or ("timeout" if child.code is None else "")
                    _kill(child)
                deadline = latest
            if main.code is not None:
                for child in children:
                    child.reason = child.reason or ("not needed" if child.code is None else "")
                    _kill(child)
                deadline = latest = min(latest, now + GRACE)
            if now >= next_look:
                self._look_at_use(children)
                next_look = time.monotonic() + TICK
            for key, _ in self.selector.select(max(0.0, min(deadline, next_look, latest) - now)):
                self._read(key)
        for child in children:
            if child.code is None:
                child.code, child.reason = -signal.SIGKILL, child.reason or "timeout"
                os.kill(child.keeper, signal.SIGKILL)  # and with it, by the kernel, what it keeps
            os.waitpid(child.keeper, 0)
        for key in list(self.selector.get_map().values()):
            self._read(key, to_the_end=True)

    def _read(self, key: selectors.SelectorKey, to_the_end: bool = False) -> None:
        child, name = key.data
        kept, size = child.output[name], self.limits.output_kb * 1024
        while True:
            try:
                data = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                data = b""
                if not to_the_end:
                    return
            kept += data
            if not data or (to_the_end and len(kept) > size):
                self.selector.unregister(key.fd)
                os.close(key.fd)
            if name == "report":
                _take_report(child)
            elif len(kept) > size:
                del kept[size:]
                child.reason = child.reason or "output"
                _kill(child)
            if not data or not to_the_end:
                return

    def _look_at_use(self, children: list[_Child]) -> None:
        """End those that use more, with all that they have started, than the kernel's limits of a process allow one."""
        for child in children:
            if child.process and child.code is None and not child.reason:
                memory, processes = limits.use_of(child.process)
                if memory > self.limits.memory_mb * limits.MB or processes > self.limits.processes:
                    child.reason = "memory" if processes <= self.limits.processes else "error"
                    _kill(child)


def _take_report(child: _Child) -> None:
    for line in child.output["report"].splitlines():
        report = json.loads(line)
        child.process = report.get("process", child.process)
        child.refused = report.get("refused", child.refused)
        if "code" in report:
            child.code, child.seconds = report["code"], time.monotonic() - child.started


def _kill(child: _Child) -> None:
    """Kill what a keeper keeps; the keeper says so."""
    if child.process and child.code is None:
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(child.process, signal.SIGKILL)


def _ended(child: _Child) -> dict[str, Any]:
    code = -signal.SIGKILL if child.code is None else child.code
    status = {0: "ok", candidate.OUT_OF_MEMORY: "memory", -signal.SIGXCPU: "timeout"}.get(code, "error")
    if child.reason in ("timeout", "memory", "output", "error"):
        status = child.reason
    elif child.reason and code == -signal.SIGKILL:  # it waited for further questions
        status, code = "ok", 0
    texts = {name: bytes(child.output[name]).decode("utf-8", "replace") for name in ("stdout", "stderr")}
    return {"status": status, "code": code, "seconds": child.seconds, "refused": child.refused, **texts}


def _file(content: bytes) -> Any:
    """Return a file that has no name."""
    if hasattr(os, "memfd_create"):
        file: Any = os.fdopen(os.memfd_create("input"), "w+b")
    else:
        import tempfile

        file = tempfile.TemporaryFile()
    file.write(content)
    file.flush()
    file.seek(0)
    return file


def _keep(
    work: Callable[[], int], descriptors: dict[int, int], report: int, held: Isolation, user: int, limit: Limits
) -> NoReturn:
    """Be the parent of an isolated process: say how it ends, and end all that it leaves behind."""
    try:
        system.die_with_parent()
        system.adopt_orphans()
        process = os.fork()
        if process == 0:
            _become(work, {**descriptors, REPORT: report}, held, user, limit)
        _take_descriptors({0: report})
        report = 0
        _say(report, process=process)
        _, status = os.waitpid(process, 0)
        _end_all(process, user if held.user else None)
        _say(report, code=os.waitstatus_to_exitcode(status))
    except BaseException as error:
        with contextlib.suppress(BaseException):
            _say(report, code=1, refused=f"{type(error).__name__}: {error}")
    os._exit(0)


def _become(
    work: Callable[[], int], descriptors: dict[int, int], held: Isolation, user: int, limit: Limits
) -> NoReturn:
    code = 1
    try:
        os.setsid()
        _take_descriptors(descriptors)
        try:
            isolation.enter(held, user, limit)
        except Exception as error:
            _say(REPORT, refused=f"{type(error).__name__}: {error}")
            os._exit(1)
        os.close(REPORT)
        code = work()
    except MemoryError:
        code = candidate.OUT_OF_MEMORY
    except BaseException as error:
        with contextlib.suppress(BaseException):
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
    candidate.end(code)


def _say(report: int, **line: Any) -> None:
    os.write(report, json.dumps(line).encode() + b"\n")


def _take_descriptors(descriptors: dict[int, int]) -> None:
    """Keep these descriptors, under these numbers, and no others."""
    first = 1 + max(*descriptors, *descriptors.values())
    moved = {number: os.dup2(descriptor, first + number, False) for number, descriptor in descriptors.items()}
    for number, descriptor in moved.items():
        os.dup2(descriptor, number, True)
    for number in set(range(max(descriptors))) - set(descriptors):
        os.closerange(number, number + 1)
    os.closerange(1 + max(descriptors), min(max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 16), 1 << 20))


def _end_all(process: int, user: int | None) -> None:
    """Kill a process's group, and what has left it and is this keeper's by now."""
    end = time.monotonic() + GRACE / 2
    while time.monotonic() < end:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process, signal.SIGKILL)
        if user is not None:
            _kill_user(user)
        with contextlib.suppress(OSError), open("/proc/thread-self/children", encoding="ascii") as file:
            for child in file.read().split():
                os.kill(int(child), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _kill_user(user: int) -> None:
    killer = os.fork()
    if killer == 0:
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        os.kill(-1, signal.SIGKILL)
        os._exit(0)
    os.waitpid(killer, 0)


def _probe() -> Isolation:
    """Return the first isolation that works: in it a process reads what it should, and runs."""

    def reads() -> int:
        with open(os.__file__, "rb"), open("/dev/null", "rb"):
            pass
        import colorsys  # noqa: F401 - what has not been imported yet

        return 0

    for choice in isolation.choices():
        report, out = os.pipe(), os.pipe()
        keeper = os.fork()
        if keeper == 0:
            descriptors = {0: 0, 1: out[1], 2: out[1]}
            _keep(reads, descriptors, report[1], choice, isolation.users()[0], Limits())
        os.close(report[1])
        os.close(out[1])
        os.waitpid(keeper, 0)
        with os.fdopen(report[0], "rb") as file:
            said = file.read()
        os.close(out[0])
        if any(json.loads(line).get("code") == 0 for line in said.splitlines()):
            return choice
    return Isolation()
