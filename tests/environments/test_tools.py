"""Episodes with tools, the interpreter and MCP servers among them: upstream's loop, with a scripted engine as model."""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environments import support
from tests.environments.support import MULTI_TURN, Project, parts, prompt_of
from tests.project.support import Configuration

RELEASES = ["0.9.1", "0.8.0"]
TOOLS = '''
import time
from kit.vendored.tools.function_tool import function_tool

@function_tool
def add(a: int, b: int):
    """Add two numbers.

    Args:
        a: the first.
        b: the second.
    """
    if a == 13:
        raise RuntimeError("unlucky")
    if a == 14:
        raise SystemExit(3)
    if a == 15:
        time.sleep(30)
    return "9" * 40 if a == 99 else str(a + b), 0.5
'''
STATEFUL = '''
from kit.vendored.tools.base_tool import BaseTool
from kit.vendored.tools.schemas import ToolResponse

RELEASED = []

class Counter(BaseTool):
    """Counts from where the row says."""

    async def create(self, instance_id=None, create_kwargs=None, **kwargs):
        self.at = (create_kwargs or {}).get("start", 0)
        return "one", ToolResponse()

    async def execute(self, instance_id, parameters, **kwargs):
        return ToolResponse(text=str(self.at + parameters["by"])), 1.0, {}

    async def release(self, instance_id, **kwargs):
        RELEASED.append(instance_id)
'''
NATIVE = """
tools:
  - class_name: stateful.Counter
    config: {type: native}
    tool_schema:
      type: function
      function:
        name: count
        description: Count on.
        parameters: {type: object, properties: {by: {type: integer, description: how far}}, required: [by]}
"""
Play = Callable[..., Any]


@pytest.fixture(scope="module", params=RELEASES)
def tooled(verl: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project with tools, and files that define some."""
    configuration = Configuration(request.param, features=support.TOOLS, package="kit")
    files = {"calc.py": TOOLS, "stateful.py": STATEFUL, "tools.yaml": NATIVE}
    with support.imported_beside(configuration, tmp_path_factory.mktemp("tooled") / "project", files) as project:
        yield project


@pytest.fixture
def play(tooled: Project) -> Play:
    """A function that plays an episode for each list of turns, and returns the batch and the tokenizer."""
    model = support.save_ascii_model(tooled, tooled.root / "model")
    path = f"{MULTI_TURN}.function_tool_path={tooled.root / 'calc.py'}"

    def run(*episodes: list[str], settings: tuple[str, ...] = (), **columns: Any) -> Any:
        return support.played(tooled, model, episodes, path, *settings, **columns), model[1]

    return run


def call(name: str = "add", **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def test_calls_are_run_and_only_the_models_tokens_are_trained(play: Play) -> None:
    """Tokens, mask and log-probabilities of two episodes of different lengths; prompts come from the messages."""
    turn = call(a=3, b=4) + "<eos>"
    batch, tokenizer = play([turn, "seven<eos>"], ["no call<eos>"])
    assert parts(batch, tokenizer) == [(1, turn), (0, "<tool>7<assistant>"), (1, "seven<eos>")]
    assert parts(batch, tokenizer, 1) == [(1, "no call<eos>")]
    assert prompt_of(batch, tokenizer, 1) == "<user>question 1<assistant>"
    log_probs, mask = batch.batch["rollout_log_probs"], batch.batch["response_mask"]
    assert (log_probs[mask.bool()] == -batch.batch["responses"][mask.bool()].float()).all()  # as the engine gave them
    assert (log_probs[~mask.bool()] == 0).all()
    columns = batch.non_tensor_batch
    assert columns["env_end"].tolist() == ["terminated"] * 2
    assert columns["tool_rewards"].tolist() == [[0.5], []]
    assert (columns["turns"].tolist(), columns["__num_turns__"].tolist()) == ([2, 1], [4, 2])
    assert columns["conversation"][0] == [
        {"role": "assistant", "content": call(a=3, b=4)},
        {"role": "tool", "content": "7"},
        {"role": "assistant", "content": "seven"},
    ]
    assert columns["tool_calls"].tolist() == [1, 0]


ANSWERS = {
    call(a=13, b=1): "Error executing tool 'add': unlucky",
    call(a=14, b=1): "Error executing tool 'add': SystemExit(3)",
    call(a=15, b=1): "Error executing tool 'add': it took longer than local.env.timeout=0.3 s",
    call("sub", a=1): "Unknown function 'sub'. Available tools: ['add']",
    call(a=99, b=1): "(truncated)..." + "9" * 20,
    call(a=1, b=1) + call(a=2, b=2): "2<tool>4",
}


def test_what_goes_wrong_in_a_tool_is_told_to_the_model(play: Play) -> None:
    settings = (
        "local.env.timeout=0.3",
        f"{MULTI_TURN}.max_tool_response_length=20",
        f"{MULTI_TURN}.tool_response_truncate_side=left",
        f"{MULTI_TURN}.max_parallel_calls=2",
    )
    before = time.monotonic()
    batch, tokenizer = play(*([f"{turn}<eos>", "end<eos>"] for turn in ANSWERS), settings=settings)
    assert time.monotonic() - before < 20
    said = [parts(batch, tokenizer, row)[1][1] for row in range(len(ANSWERS))]
    assert said == [f"<tool>{answer}<assistant>" for answer in ANSWERS.values()]
    assert batch.non_tensor_batch["tool_errors"].tolist() == [1, 1, 1, 1, 0, 0]
    assert batch.non_tensor_batch["env_end"].tolist() == ["terminated"] * len(ANSWERS)


def test_episodes_end_at_their_limits(play: Play) -> None:
    """By turns, by answers, and where no room is left for an answer; a turn that is cut short calls nothing."""
    turn = call(a=3, b=4) + "<eos>"
    for setting, end, own in (
        (f"{MULTI_TURN}.max_assistant_turns=1", "turns_spent", [1]),
        (f"{MULTI_TURN}.max_user_turns=1", "turns_spent", [1, 0, 1]),
        (f"data.max_response_length={len(turn) - 3}", "budget_spent", [1]),
        ("local.env.max_turn_tokens=10", "terminated", [1]),
    ):
        batch, tokenizer = play([turn] * 9, settings=(setting,))
        assert batch.non_tensor_batch["env_end"].tolist() == [end], setting
        found = parts(batch, tokenizer)
        assert [mask for mask, _ in found] == own
        assert batch.non_tensor_batch["conversation"][0][-1]["role"] == "assistant"


def test_classes_of_a_file_keep_state_and_rows_choose_tools(tooled: Project, play: Play) -> None:
    turn = call("count", by=2) + "<eos>"
    chosen = [{"count": {"create_kwargs": {"start": 40}}}, {}]
    infos = [{}, {"tool_selection": ["add"]}]
    settings = (f"{MULTI_TURN}.tool_config_path={tooled.root / 'tools.yaml'}",)
    batch, tokenizer = play([turn, "x<eos>"], [turn, "x<eos>"], infos=infos, settings=settings, tools_kwargs=chosen)
    assert parts(batch, tokenizer)[1] == (0, "<tool>42<assistant>")
    assert parts(batch, tokenizer, 1)[1] == (0, "<tool>Unknown function 'count'. Available tools: ['add']<assistant>")
    assert tooled.module("vendored.tools.tool_registry").sys.modules["stateful"].RELEASED == ["one"]


def test_schemas_are_in_prompts_of_a_dataset(tooled: Project) -> None:
    """By whose lengths rows are left out."""
    _, tokenizer = support.save_ascii_model(tooled, tooled.root / "model", shows_tools=True)
    settings = (f"{MULTI_TURN}.function_tool_path={tooled.root / 'calc.py'}", f"{MULTI_TURN}.enable=true")
    config, datasets = tooled.config(*settings, "data.max_prompt_length=40"), tooled.module("data.datasets")
    rows = [{"prompt": "1+1", "ground_truth": "2"}]
    data = datasets.dataset_of_rows(rows, "train", datasets.data_section(config), tokenizer)
    assert tokenizer.decode(data.__getitems__([0])[0]["raw_prompt_ids"]) == "[add]<user>1+1<assistant>"


def test_what_cannot_be_used_is_refused(tooled: Project, tmp_path: Path) -> None:
    """Before a model is loaded: files that define no tool or cannot be loaded, unknown parsers, templates."""
    empty, missing = tmp_path / "empty.py", tmp_path / "missing.yaml"
    empty.write_text("x = 1\n")
    missing.write_text("tools: [{class_name: nowhere.Tool, config: {type: native}}]\n")
    good, on = f"{MULTI_TURN}.function_tool_path={tooled.root / 'calc.py'}", f"{MULTI_TURN}.enable=true"
    cases = {
        (good,): "each response is one turn",
        (on, f"{MULTI_TURN}.function_tool_path={empty}"): "has no tools",
        (on, f"{MULTI_TURN}.tool_config_path={missing}"): "missing.yaml cannot be loaded",
        (on, good, f"{MULTI_TURN}.format=hermess"): "'hermess', which no parser has",
    }
    support.check_refused(tooled, tooled.module("episodes.tools").check_tools, cases)
    model, tokenizer = support.save_ascii_model(tooled, tmp_path / "toy")
    no_tools = "{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    tokenizer.chat_template = f"{{% for m in messages %}}{no_tools}{{{{ m.content }}}}{{% endfor %}}"
    config = tooled.config(f"actor_rollout_ref.model.path={model}")
    with pytest.raises(tooled.module("errors").ConfigError, match=r"chat template cannot .*: no tools"):
        tooled.module("episodes.tool_turns").joined_by(config, tokenizer)


INTERPRETER = {"type": "native", "seconds": 2, "memory_mb": 400, "output_kb": 1, "allow_unisolated": True}


class Episode:
    """Stands for upstream's AgentData."""


@pytest.fixture
def run(tooled: Project) -> Callable[..., str]:
    """A function that runs code in an episode, by default the same."""
    tool, only = tooled.module("episodes.python_tool").PythonTool(INTERPRETER), Episode()

    def called(code: str, episode: Any = only) -> str:
        response, _, _ = asyncio.run(tool.execute("", {"code": code}, agent_data=episode))
        return str(response.text)

    return called


@pytest.mark.parametrize("tooled", ["0.9.1"], indirect=True)
def test_state_is_kept_in_an_episode_and_seen_in_no_other(tooled: Project, run: Callable[..., str]) -> None:
    other = Episode()
    assert run("def double(x):\n    return 2 * x\n\nx = double(4)") == ""
    assert run("print('so')\nx + 1") == "so\n9"
    assert "NameError: name 'x' is not defined" in run("x", other)
    assert run("x = 'mine'", other) == ""
    assert run("1 / 0").splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert run("print('a' * 10**6)") == "a" * 1024 + "\n(the rest is left out)"
    assert run("x") == "8"
    if tooled.module("rewards.sandbox").isolation().holds:
        assert "Error" in run(f"open({str(tooled.root / 'main.py')!r})")
        assert "Error" in run("import socket\nsocket.create_connection(('127.0.0.1', 22))")
    with pytest.raises(ValueError, match="no setting secnds"):
        tooled.module("episodes.python_tool").PythonTool({**INTERPRETER, "secnds": 1})


ENDED = {
    "while True:\n    pass": "the code took longer than 2 s",
    "b = bytearray(10**9)": "it had no more memory",
    "import ctypes\nctypes.string_at(0)": "exit code -11",
}


@pytest.mark.parametrize("tooled", ["0.9.1"], indirect=True)
def test_what_ends_it_costs_its_own_call(run: Callable[..., str]) -> None:
    for code, ended in ENDED.items():
        run("x = 5")
        said = run(code)
        assert f"(The interpreter has ended: {ended}" in said
        assert said.endswith("The next call begins a new one.)")
        assert run("'x' in globals(), 1 + 1") == "(False, 2)"


@pytest.mark.parametrize("tooled", ["0.9.1"], indirect=True)
def test_episodes_have_an_interpreter_each_until_they_end(
    tooled: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the loop: two calls of an episode share one; when a rollout is over there is none."""
    file = tmp_path / "tools.yaml"
    tool = {"class_name": "kit.episodes.python_tool.PythonTool", "config": INTERPRETER}
    file.write_text(json.dumps({"tools": [tool]}))
    model = support.save_ascii_model(tooled, tmp_path / "toy")
    first, second, other = (call("python", code=code) + "<eos>" for code in ("x = 20", "x + 1", "x"))
    turns = [[first, second, "21<eos>"], [other, "none<eos>"]]
    started: list[Any] = []
    interpreter = tooled.module("episodes.interpreter").Interpreter
    begin = interpreter._start
    monkeypatch.setattr(interpreter, "_start", lambda self: (begin(self), started.append(self.process)))
    batch = support.played(tooled, model, turns, f"{MULTI_TURN}.tool_config_path={file}")
    assert [text for own, text in parts(batch, model[1]) if not own][1] == "<tool>21<assistant>"
    assert "NameError" in parts(batch, model[1], 1)[1][1]
    gc.collect()
    deadline = time.monotonic() + 10
    while any(process.poll() is None for process in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [process.poll() for process in started] == [0, 0]


SERVER = '''
import asyncio, os
from typing import Optional
from mcp.server.mcpserver import MCPServer

server = MCPServer("sums", log_level="CRITICAL")

@server.tool()
def add(a: int, b: int, places: Optional[list[int]] = None) -> str:
    """Add two numbers."""
    return str(a + b + int(os.environ.get("MORE", "0")))

@server.tool()
async def odd(how: str) -> str:
    """Go wrong."""
    if how == "raise":
        raise ValueError("unlucky")
    if how == "die":
        os._exit(3)
    await asyncio.sleep(30)

server.run("stdio")
'''
ENTRY = """
tools:
  - class_name: verl.tools.mcp_base_tool.MCPBaseTool
    config: {{type: mcp, timeout: 5, rate_limit: 100}}
    mcp: {{mcp_servers_config_path: {servers}, tool_selected_list: [{selected}]}}
"""


def answer(tool: Any, **arguments: Any) -> str:
    async def called() -> str:
        instance, _ = await tool.create()
        response, _, _ = await tool.execute(instance, arguments)
        await tool.release(instance)
        return str(response.text)

    return asyncio.run(called())


@pytest.mark.parametrize("tooled", ["0.9.1"], indirect=True)
def test_tools_of_servers_answer_and_are_called_in_episodes(tooled: Project, tmp_path: Path) -> None:
    """Schemas are the server's, whole; what breaks costs its own call, and the server is started again."""
    pytest.importorskip("mcp")
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    by_pipes = {"command": sys.executable, "args": [str(program)], "env": {"MORE": "100"}}

    def settings_of(server: dict[str, Any], selected: str = "") -> tuple[str, ...]:
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"sums": server}}))
        (tmp_path / "tools.yaml").write_text(ENTRY.format(servers=tmp_path / "servers.json", selected=selected))
        files = (f"{MULTI_TURN}.tool_config_path={tmp_path / 'tools.yaml'}", f"trainer.default_local_dir={tmp_path}")
        return f"{MULTI_TURN}.enable=true", *files

    loading = tooled.module("episodes.tools")
    tools = {tool.name: tool for tool in loading.load_tools(tooled.config(*settings_of(by_pipes)))}
    assert list(tools) == ["add", "odd"]
    schema = tools["add"].tool_schema.model_dump(exclude_unset=True, exclude_none=True)
    properties = schema["function"]["parameters"]["properties"]
    assert properties["a"] == {"title": "A", "type": "integer"}
    assert properties["places"]["anyOf"][0] == {"items": {"type": "integer"}, "type": "array"}
    assert schema["function"]["parameters"]["required"] == ["a", "b"]
    for name, arguments, said in (
        ("odd", {"how": "raise"}, "Error executing tool odd"),
        ("odd", {"how": "hang"}, "longer than 5 s"),
        ("odd", {"how": "die"}, "closed"),
        ("add", {"a": "x"}, "integer"),
    ):
        with pytest.raises(Exception, match=said):
            answer(tools[name], **arguments)
        assert answer(tools["add"], a=5, b=4) == "109"
    model = support.save_ascii_model(tooled, tmp_path / "toy", shows_tools=True)
    turns = [call(a=3, b=4) + "<eos>", "7<eos>"]
    batch = support.played(tooled, model, [turns], *settings_of(by_pipes, "add"))
    assert parts(batch, model[1])[1] == (0, "<tool>107<assistant>")
    assert support.prompt_of(batch, model[1]) == "[add]<user>question 0<assistant>"
    for server, selected, said in (
        ({"command": str(tmp_path / "none")}, "", "the MCP server 'sums': FileNotFoundError"),
        (by_pipes, "subtract", "no MCP server of .*servers.json has subtract"),
    ):
        support.check_refused(tooled, loading.check_tools, {settings_of(server, selected): said})
