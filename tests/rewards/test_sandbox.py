"""Programs that are right or wrong: how they end, what they may use, and what holds them."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psutil
import pytest

pytestmark = pytest.mark.slow  # runs programs

Library = Callable[[str], ModuleType]


@pytest.fixture(params=["all", "landlock", "none"])
def held(request: pytest.FixtureRequest, library: Library, monkeypatch: pytest.MonkeyPatch) -> str:
    """What holds the programs of a test, and is made to hold them: all that this machine has, or less."""
    isolation = library("sandbox").isolation()
    kind = type(isolation)
    if request.param == "landlock":
        isolation = kind(landlock=isolation.landlock, seccomp=isolation.seccomp)
        if not isolation.holds:
            pytest.skip("this kernel has no Landlock")
    elif request.param == "none":
        isolation = kind()
    monkeypatch.setattr(library("sandbox"), "isolation", lambda: isolation)
    return str(request.param)


@pytest.fixture
def run(library: Library) -> Callable[..., object]:
    """Run a program with time enough for a busy machine."""
    sandbox = library("sandbox")

    def runner(source: str, **settings: object) -> object:
        given = {"seconds": 20, "memory_mb": 256, "allow_unisolated": True, **settings.pop("limits", {})}  # type: ignore[dict-item]
        return sandbox.run_program(source, limits=sandbox.Limits(**given), **settings)

    return runner


def _innermost(server: int) -> psutil.Process:
    """The server itself, where it runs in bubblewrap."""
    process = psutil.Process(server)
    while process.name() == "bwrap":
        process = process.children()[0]
    return process


def started(library: Library) -> list[psutil.Process]:
    """What the servers of supervisors have started and is still there, after a moment in which the kernel ends it."""
    processes: list[psutil.Process] = []
    for _ in range(60):
        servers = [server._process for server in library("sandbox").SERVERS.values() if server._process]
        processes = [child for server in servers for child in _innermost(server.pid).children(recursive=True)]
        if not processes:
            break
        time.sleep(0.05)
    return processes


def test_a_program_reads_and_prints(run: Callable, held: str) -> None:
    done = run("print(int(input()) + 1)\nimport sys; print('note', file=sys.stderr)", stdin="41\n")
    assert (done.status, done.exit_code, done.stdout, done.stderr) == ("ok", 0, "42\n", "note\n")
    assert run("raise SystemExit(3)").exit_code == 3
    assert "SyntaxError" in run("def f(:").stderr
    assert run("import asyncio, colorsys, socket, statistics; print(statistics.mean([1, 3]))").stdout == "2\n"
    assert run("import sys; print(len(sys.stdin.read()))", stdin="ä" * 300_000).stdout == "300000\n"


def test_asserts_are_evaluated_one_by_one(run: Callable, held: str) -> None:
    source = "def f(x): return x + 1\nif __name__ == '__main__': raise SystemExit(9)"
    done = run(
        source, asserts=["assert f(1) == 2", "assert f(1) == 3", "oops(", "assert f(2) == 3", "raise SystemExit"]
    )
    assert done.passed == (True, False, False, True, False)
    asserts = ["assert f(1) == 2", "while True: pass", "assert f(1) == 2"]  # one that hangs costs those after it
    done = run(source, asserts=asserts, limits={"seconds": 1.5})
    assert (done.status, done.passed) == ("timeout", (True, False, False))


ENDS = {
    "import time; time.sleep(60)": "timeout",
    "kept = []\nwhile True: kept.append(bytearray(10**7))": "memory",
    # Of all processes together.
    "import os, time\nos.fork(), os.fork()\nkept = b'x' * 10**8\ntime.sleep(19)": "memory",
    "while True: print('x' * 1000)": "output",
    "open('file', 'wb').write(bytes(10**7))": "error",
    "import ctypes; ctypes.string_at(0)": "error",
    "import os, time\nif os.fork() == 0:\n  time.sleep(60)\nprint('done')": "ok",
}


def test_how_a_program_ends_is_said_and_what_it_leaves_running_is_ended(
    run: Callable, library: Library, held: str
) -> None:
    for source, status in ENDS.items():
        if held == "none" and os.geteuid() == 0 and "open" in source:
            continue  # without isolation a program of root's may write where it likes
        done = run(source, limits={"seconds": 0.5} if status == "timeout" else {})
        assert done.status == status, source
        assert len(done.stdout) <= 1024 * 1024
        assert started(library) == []


def test_processes_are_counted(run: Callable, library: Library, held: str) -> None:
    source = (
        "import os, time\nn = 0\nwhile n < 100:\n  try: child = os.fork()\n  except OSError: break\n"
        "  if child == 0: time.sleep(60)\n  n += 1\ntime.sleep(1)\nprint(n)"
    )
    done = run(source, limits={"processes": 10})
    # The kernel does not count root's: more than these are seen after a moment, and ended.
    is_root = os.geteuid() == 0 and not library("sandbox").isolation().user
    assert done.status == "error" if is_root else 1 <= int(done.stdout) <= 10
    assert started(library) == []


@pytest.mark.parametrize("held", ["all", "landlock"], indirect=True)
def test_a_program_sees_nothing_of_the_trainer(
    run: Callable, library: Library, held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, pid = tmp_path / "secret", os.getpid()
    secret.write_text("42")
    monkeypatch.setenv("SECRET", "a token")
    server = socket.create_server(("127.0.0.1", 0))
    for attempt in (
        f"open({str(secret)!r})",
        f"open({str(secret)!r}, 'w')",
        f"os.unlink({str(secret)!r})",
        f"os.listdir({str(tmp_path)!r})",
        f"open('/proc/{pid}/environ', 'rb').read()",
        f"os.kill({pid}, 0)",
        "open('/usr/left', 'w')",
        f"socket.create_connection({server.getsockname()}, 1)",
        "os.listdir('/home')",
        "os.unshare(os.CLONE_NEWUSER) if hasattr(os, 'unshare') else open('/none')",
    ):
        done = run(f"import os, socket\ntry: {attempt}\nexcept OSError as error: print('refused')")
        assert done.stdout == "refused\n", (attempt, done)
    server.close()
    assert secret.read_text() == "42"
    if library("sandbox").isolation().user:
        assert int(run("import os; print(os.getuid())").stdout) > 20000  # root's programs are not root
    seen = run(
        "import os; print(sorted(os.environ), [n for n in range(3, 60) if os.path.exists(f'/dev/fd/{n}')])"
    ).stdout
    assert seen == "['HOME', 'LANG', 'PATH', 'TMPDIR'] []\n"


def test_without_isolation_nothing_is_run_unless_allowed(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = library("sandbox")
    nothing = type(sandbox.isolation())(seccomp=True)
    monkeypatch.setattr(sandbox, "isolation", lambda: nothing)
    monkeypatch.delenv(sandbox.ALLOW, raising=False)
    with pytest.raises(
        sandbox.SandboxError, match=r"neither bubblewrap nor Landlock(.|\n)*local.reward.allow_unisolated=true"
    ):
        sandbox.run_program("print(1)")
    assert sandbox.run_program("print(1)", limits=sandbox.Limits(allow_unisolated=True)).stdout == "1\n"
    monkeypatch.setenv(sandbox.ALLOW, "")
    sandbox.require_isolation(allow_unisolated=True)
    assert sandbox.run_program("print(1)").stdout == "1\n"


KILLED = """
import os, signal, sys, threading, time
sys.path.insert(0, {folder!r})
from reward_library import sandbox
sleeper = "import os, time\\nif os.fork() == 0: time.sleep(60)\\ntime.sleep(60)"
def run(): sandbox.run_program(sleeper, limits=sandbox.Limits(seconds=2))
sandbox.isolation()
threading.Thread(target=run, daemon=True).start()
while not sandbox.SERVERS[False]._process: time.sleep(0.01)
print(sandbox.SERVERS[False]._process.pid, flush=True)
time.sleep(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_no_program_outlives_a_trainer_that_is_killed(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED.format(folder=str(folder))], capture_output=True, text=True, timeout=60
    )
    server = psutil.Process(int(done.stdout)) if psutil.pid_exists(int(done.stdout)) else None
    left = [server, *server.children(recursive=True)] if server else []
    _, alive = psutil.wait_procs(left, timeout=15)
    assert alive == []


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from reward_library import sandbox
assert sandbox.isolation().holds
print(sandbox.run_program("def f(x): return x + 1", asserts=["assert f(1) == 2", "assert f(1) == 3"]).passed)
print(sandbox.run_program("open({victim!r})").exit_code, sandbox.run_program("import os; os.kill(-1, 9)").status)
"""


def test_it_holds_for_another_user(folder: Path) -> None:
    if os.geteuid() != 0 or not Path("/usr/bin/python3").exists():
        pytest.skip("only root can become another user, and there must be a Python that everybody may run")
    for path in (folder, *folder.parents[:3], *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o055)
    script, victim = Path(folder, "used_by_anybody.py"), Path("/var/tmp", f"victim-{os.getpid()}")
    script.write_text(SCRIPT.format(folder=str(folder), victim=str(victim)))
    script.chmod(0o644)
    victim.write_text("secret")
    os.chown(victim, 54321, -1)
    command = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "/usr/bin/python3", str(script)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=60)
    finally:
        victim.unlink()
    if "requires" in done.stderr or "SyntaxError" in done.stderr:
        pytest.skip("the system's Python is older than 3.10")
    assert done.stdout.splitlines() == ["(True, False)", "1 error"], done.stderr
