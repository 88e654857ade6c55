"""Tools of MCP servers: real servers of the official package, over a program's pipes and over HTTP."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environments import support
from tests.environments.support import MULTI_TURN, OneProcess, Project, parts
from tests.project.support import Configuration

pytest.importorskip("mcp")
SERVER = '''
import asyncio
import os
import sys
from typing import Optional
from mcp.server.mcpserver import MCPServer

server = MCPServer("sums", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int, places: Optional[list[int]] = None) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def told() -> str:
    """Tell a variable."""
    return os.environ.get("SECRET", "nothing")


@server.tool()
async def odd(how: str) -> str:
    """Go wrong."""
    if how == "raise":
        raise ValueError("unlucky")
    if how == "die":
        os._exit(3)
    await asyncio.sleep(30)


kind, *port = sys.argv[1:]
server.run(kind, **({"port": int(port[0])} if port else {}))
'''
ENTRY = """
tools:
  - class_name: verl.tools.mcp_base_tool.MCPBaseTool
    config: {{type: mcp, timeout: {timeout}, rate_limit: 100}}
    mcp:
      mcp_servers_config_path: {servers}
      tool_selected_list: [{selected}]
"""


@pytest.fixture(scope="module")
def project(verl: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    configuration = Configuration("0.9.1", features=support.TOOLS, package="kit")
    folder = tmp_path_factory.mktemp("served")
    with support.imported_beside(configuration, folder / "project", {"server.py": SERVER}) as made:
        yield made


@pytest.fixture(scope="module")
def address(project: Project) -> Iterator[str]:
    """A server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = [sys.executable, "server.py", "streamable-http", str(port)]
    with subprocess.Popen(program, cwd=project.root, stderr=subprocess.DEVNULL) as process:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


def settings_of(folder: Path, server: dict[str, Any], selected: str = "", timeout: float = 20) -> list[str]:
    """The settings that name a server's tools, in verl's keys."""
    (folder / "servers.json").write_text(json.dumps({"mcpServers": {"sums": server}}))
    text = ENTRY.format(servers=folder / "servers.json", selected=selected, timeout=timeout)
    (folder / "tools.yaml").write_text(text)
    return [
        f"{MULTI_TURN}.enable=true",
        f"{MULTI_TURN}.tool_config_path={folder / 'tools.yaml'}",
        f"trainer.default_local_dir={folder / 'run'}",
    ]


def program(project: Project) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(project.root / "server.py"), "stdio"], "env": {"SECRET": "seven"}}


def answer(tool: Any, **arguments: Any) -> str:
    async def called() -> str:
        instance, _ = await tool.create()
        response, _, _ = await tool.execute(instance, arguments)
        await tool.release(instance)
        return str(response.text)

    return asyncio.run(called())


def test_its_tools_answer(project: Project, address: str, tmp_path: Path) -> None:
    """Schemas are the server's, whole; what breaks costs its own call, and the server is started again."""
    for server in ({"url": address, "auth_token": "x"}, program(project)):
        config = project.config(*settings_of(tmp_path, server, timeout=5))
        tools = {tool.name: tool for tool in project.module("episodes.tools").load_tools(config)}
        assert list(tools) == ["add", "told", "odd"]
        schema = tools["add"].tool_schema.model_dump(exclude_unset=True, exclude_none=True)
        properties = schema["function"]["parameters"]["properties"]
        assert properties["a"] == {"title": "A", "type": "integer"}
        assert properties["places"]["anyOf"][0] == {"items": {"type": "integer"}, "type": "array"}
        assert schema["function"]["parameters"]["required"] == ["a", "b"]
        assert answer(tools["add"], a=3, b=4) == "7"
        assert answer(tools["told"]) == ("nothing" if "url" in server else "seven")
        for name, arguments, said in (
            ("odd", {"how": "raise"}, "Error executing tool odd"),
            ("odd", {"how": "hang"}, "longer than 5 s"),
            ("add", {"a": "x"}, "integer"),
        ):
            with pytest.raises(Exception, match=said):
                answer(tools[name], **arguments)
        assert answer(tools["add"], a=5, b=4) == "9"
    config = project.config(*settings_of(tmp_path, program(project)))
    tools = {tool.name: tool for tool in project.module("episodes.tools").load_tools(config)}
    with pytest.raises(Exception, match="closed"):
        answer(tools["odd"], how="die")
    assert answer(tools["add"], a=5, b=4) == "9"


def test_episodes_call_them(project: Project, tmp_path: Path) -> None:
    """Their schemas are in the prompts."""
    model, tokenizer = support.save_ascii_model(project, tmp_path / "toy", shows_tools=True)
    sizes = (f"actor_rollout_ref.model.path={model}", "data.max_prompt_length=40", "data.max_response_length=200")
    config = project.config(*settings_of(tmp_path, program(project), selected="add"), *sizes)
    project.module("episodes.tools").check_tools(config)
    turns = ['<tool_call>{"name": "add", "arguments": {"a": 3, "b": 4}}</tool_call><eos>', "7<eos>"]
    engine = support.scripted(project, tokenizer, [turns])
    prompts = support.questions(project, 1)
    batch = support.rollouts_of(project, config, tokenizer, OneProcess(), engine).generate(prompts)
    assert parts(batch, tokenizer)[1] == (0, "<tool>7<assistant>")
    assert tokenizer.decode(engine.calls[0][0][0]) == "[add]<user>question 0<assistant>"


def test_what_cannot_be_used_is_refused(project: Project, tmp_path: Path) -> None:
    for server, selected, said in (
        ({"command": str(tmp_path / "none")}, "", "the MCP server 'sums': FileNotFoundError"),
        (program(project), "subtract", "no MCP server of .*servers.json has subtract"),
    ):
        settings = tuple(settings_of(tmp_path, server, selected=selected))
        support.check_refused(project, project.module("episodes.tools").check_tools, {settings: said})
