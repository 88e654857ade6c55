"""The interpreter that the model may call: state over an episode, apart from others, within its limits."""

import asyncio
import gc
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environments import support
from tests.environments.support import MULTI_TURN, Project, parts
from tests.project.support import Configuration

CONFIG = {"type": "native", "seconds": 2, "memory_mb": 400, "output_kb": 1, "allow_unisolated": True}
Run = Callable[..., str]


@pytest.fixture(scope="module")
def project(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    configuration = Configuration("0.9.1", features=support.TOOLS, package="kit")
    with support.imported_beside(configuration, tmp_path_factory.mktemp("computing") / "project", {}) as made:
        yield made


class Episode:
    """Stands for upstream's AgentData."""


@pytest.fixture
def run(project: Project) -> Run:
    """A function that runs code in an episode, by default the same."""
    tool, only = project.module("episodes.python_tool").PythonTool(CONFIG), Episode()

    def called(code: str, episode: Any = only) -> str:
        response, _, _ = asyncio.run(tool.execute("", {"code": code}, agent_data=episode))
        return str(response.text)

    return called


def test_state_is_kept_in_an_episode_and_seen_in_no_other(project: Project, run: Run) -> None:
    other = Episode()
    assert run("def double(x):\n    return 2 * x\n\nx = double(4)") == ""
    assert run("print('so')\nx + 1") == "so\n9"
    assert "NameError: name 'x' is not defined" in run("x", other)
    assert run("x = 'mine'", other) == ""
    assert run("1 / 0").splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert run("print('a' * 10**6)") == "a" * 1024 + "\n(the rest is left out)"
    assert run("x") == "8"
    if project.module("rewards.sandbox").isolation().holds:
        assert "Error" in run(f"open({str(project.root / 'main.py')!r})")
        assert "Error" in run("import socket\nsocket.create_connection(('127.0.0.1', 22))")
    with pytest.raises(ValueError, match="no setting secnds"):
        project.module("episodes.python_tool").PythonTool({**CONFIG, "secnds": 1})


ENDED = {
    "while True:\n    pass": "the code took longer than 2 s",
    "b = bytearray(10**9)": "it had no more memory",
    "exit(3)": "exit code 3",
    "import ctypes\nctypes.string_at(0)": "exit code -11",
}


def test_what_ends_it_costs_its_own_call(run: Run) -> None:
    for code, ended in ENDED.items():
        run("x = 5")
        said = run(code)
        assert f"(The interpreter has ended: {ended}" in said
        assert said.endswith("The next call begins a new one.)")
        assert run("'x' in globals(), 1 + 1") == "(False, 2)"


def test_forks_are_limited_and_end_with_it(run: Run) -> None:
    """A process that the code has forked answers no further call."""
    run("import os, time\nx = 0")
    assert run("if os.fork() == 0:\n    x = 1") == ""
    assert [run("x") for _ in range(3)] == ["0"] * 3
    said = run("for _ in range(40):\n    if os.fork() == 0:\n        time.sleep(60)\ntime.sleep(1)")
    # The kernel does not count root's: more than these are seen after a moment, and ended.
    assert "BlockingIOError" in said or "The interpreter has ended" in said


def test_episodes_have_an_interpreter_each_until_they_end(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the loop: two calls of an episode share one; when a rollout is over there is none."""
    file = tmp_path / "tools.yaml"
    file.write_text(json.dumps({"tools": [{"class_name": "kit.episodes.python_tool.PythonTool", "config": CONFIG}]}))
    model = support.save_ascii_model(project, tmp_path / "toy")

    def call(code: str) -> str:
        return f"<tool_call>{json.dumps({'name': 'python', 'arguments': {'code': code}})}</tool_call><eos>"

    turns = [[call("x = 20"), call("x + 1"), "21<eos>"], [call("x"), "none<eos>"]]
    started: list[Any] = []
    interpreter = project.module("episodes.interpreter").Interpreter
    begin = interpreter._start
    monkeypatch.setattr(interpreter, "_start", lambda self: (begin(self), started.append(self.process)))
    batch = support.played(project, model, turns, f"{MULTI_TURN}.tool_config_path={file}")
    assert [text for own, text in parts(batch, model[1]) if not own][1] == "<tool>21<assistant>"
    assert "NameError" in parts(batch, model[1], 1)[1][1]
    gc.collect()
    deadline = time.monotonic() + 10
    while any(process.poll() is None for process in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [process.poll() for process in started] == [0, 0]
