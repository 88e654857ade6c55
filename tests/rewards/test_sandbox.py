"""Programs that are right, wrong or hostile."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import psutil
import pytest

Library = Callable[[str], ModuleType]
ISOLATED = pytest.mark.parametrize("isolated", [True, False], ids=["namespaces", "plain"])


@pytest.fixture
def run(library: Library, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Run a program with time enough for a busy machine, with namespaces where there are any, or without."""
    sandbox = library("sandbox")

    def runner(source: str, isolated: bool = True, **settings: object) -> object:
        if not isolated:
            monkeypatch.setattr(sandbox, "isolation", lambda: ())
        limits = sandbox.Limits(**{"seconds": 20, "memory_mb": 256, **settings.pop("limits", {})})  # type: ignore[dict-item]
        return sandbox.run_program(source, limits=limits, **settings)

    return runner


def leftovers(folder: Path) -> list[str]:
    """Processes that a sandbox started and that are still there after a moment in which the kernel ends them."""
    found: list[str] = []
    for _ in range(40):
        commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
        found = [" ".join(command) for command in commands if any(str(folder) in part for part in command[1:])]
        if not found:
            break
        time.sleep(0.05)
    return found


def test_a_program_reads_and_prints(run: Callable) -> None:
    done = run("print(int(input()) + 1)\nimport sys; print('note', file=sys.stderr)", stdin="41\n")
    assert (done.status, done.exit_code, done.stdout, done.stderr) == ("ok", 0, "42\n", "note\n")
    assert run("raise SystemExit(3)").exit_code == 3
    assert "SyntaxError" in run("def f(:").stderr
    assert run("import asyncio, decimal, socket, statistics; print(statistics.mean([1, 3]))").stdout == "2\n"


def test_asserts_are_run_one_by_one(run: Callable) -> None:
    source = "def f(x): return x + 1\nif __name__ == '__main__': raise SystemExit(9)"
    done = run(source, asserts=["assert f(1) == 2", "assert f(1) == 3", "oops(", "assert f(2) == 3"])
    assert done.passed == (True, False, False, True)


@pytest.mark.parametrize("cheat", ["import os; os._exit(0)", "raise SystemExit(0)", "import sys; sys.exit()"])
def test_leaving_early_passes_no_assert(run: Callable, cheat: str) -> None:
    assert run(cheat, asserts=["assert False"]).passed == (False,)


def test_an_assert_that_hangs_costs_those_after_it(run: Callable) -> None:
    asserts = ["assert f() == 1", "while True: pass", "assert f() == 1"]
    done = run("def f(): return 1", asserts=asserts, limits={"seconds": 2})
    assert done.status == "timeout"
    assert done.passed == (True, False, False)


@ISOLATED
@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("import time; time.sleep(60)", "timeout"),
        ("import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", "timeout"),
        (
            "import signal\nfor n in range(1, 60):\n  try: signal.signal(n, signal.SIG_IGN)\n  except Exception: pass\n"
            "while True: pass",
            "timeout",
        ),
        ("9**9**9**9", "timeout"),
        ("kept = []\nwhile True: kept.append(bytearray(10**7))", "memory"),
        ("while True: print('x' * 1000)", "output"),
        ("open('file', 'wb').write(bytes(10**7))", "error"),
        ("import ctypes; ctypes.string_at(0)", "error"),
    ],
    ids=["sleep", "fork bomb", "deaf", "spin", "memory eater", "endless output", "large file", "crash"],
)
def test_hostile_programs_end_and_leave_nothing(
    run: Callable, folder: Path, source: str, status: str, isolated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[str] = []
    make = tempfile.mkdtemp
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **settings: places.append(make(**settings)) or places[-1])
    done = run(source, isolated=isolated, limits={"seconds": 0.6} if status == "timeout" else {})
    assert done.status == status
    assert len(done.stdout) <= 1024 * 1024
    assert leftovers(folder) == []
    assert len(places) == 1
    assert not Path(places[0]).exists()


@ISOLATED
def test_what_a_program_leaves_running_is_ended(run: Callable, folder: Path, isolated: bool) -> None:
    sleeper = "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: time.sleep(60)\n  os._exit(0)\n"
    assert run(sleeper + "print('done')", isolated=isolated).stdout == "done\n"
    assert leftovers(folder) == [] or (not isolated and os.geteuid() != 0)


@ISOLATED
def test_the_trainer_is_out_of_its_reach(run: Callable, isolated: bool) -> None:
    """The parent process, its own group, everybody: no signal of it arrives."""
    for target in ("os.getppid()", "-1"):
        run(f"import os, signal\nos.kill({target}, signal.SIGTERM)", isolated=isolated)
    done = run("import os; print(sorted(os.environ), os.getcwd() == os.environ['HOME'])", isolated=isolated)
    assert "PYTHONPATH" not in done.stdout
    assert "True" in done.stdout


def test_there_is_no_network(run: Callable, library: Library) -> None:
    if not any("--net" in part for part in library("sandbox").isolation()):
        pytest.skip("this user may not make network namespaces")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = run(f"import socket; socket.create_connection(('127.0.0.1', {port}), 1)")
    assert (done.status == "error" and "OSError" in done.stderr) or "Refused" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give programs a user id of their own")
@ISOLATED
def test_roots_programs_are_not_root(run: Callable, tmp_path: Path, isolated: bool) -> None:
    secret = tmp_path / "secret"
    secret.write_text("42")
    secret.chmod(0o600)
    assert "PermissionError" in run(f"print(open({str(secret)!r}).read())", isolated=isolated).stderr
    assert "PermissionError" in run(f"open({str(secret)!r}, 'w').write('x')", isolated=isolated).stderr
    assert secret.read_text() == "42"


@ISOLATED
def test_processes_are_counted(run: Callable, isolated: bool) -> None:
    source = (
        "import os, time\nn = 0\nwhile n < 200:\n  try: child = os.fork()\n  except OSError: break\n"
        "  if child == 0: time.sleep(60)\n  n += 1\nprint(n)"
    )
    started = int(run(source, isolated=isolated, limits={"processes": 10}).stdout)
    assert 1 <= started <= 10


def test_tests_of_a_program(library: Library) -> None:
    code = library("verified_code")
    text = "Here it is:\n```python\nn = int(input())\nprint(n * 2 if n < 10 else 0)\n```\nDone."
    tests = {"inputs": ["1", "2", "30"], "outputs": ["2", "4\n\n", "60"], "asserts": None}
    assert code.run_tests(code.extract_code(text), tests) == ["passed", "passed", "wrong"]
    scored = code.score_code("", text, tests)
    assert scored == {"score": pytest.approx(2 / 3), "acc": 0.0, "passed": pytest.approx(2 / 3), "timeout": 0.0}
    assert code.score_code("", text, tests, partial_credit=False)["score"] == 0.0
    assert code.score_code("", "def f(): return 1", {"asserts": ["assert f() == 1"]})["acc"] == 1.0
    assert code.extract_code("```py\nx = 1\n```\n```python\ny = 2") == "y = 2"
    with pytest.raises(ValueError, match="1 inputs, 0 outputs, 0 asserts"):
        code.run_tests("", {"inputs": ["1"]})
