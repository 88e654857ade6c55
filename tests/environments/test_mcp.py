"""Tools of MCP servers: real servers of the official package, over a program's pipes and over HTTP."""

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.environments import support
from tests.environments.support import MULTI_TURN, parts
from tests.project.support import Configuration

pytest.importorskip("mcp")
SERVER = '''
import asyncio, os, sys
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

kind, *port = sys.argv[1:]
server.run(kind, **({"port": int(port[0])} if port else {}))
'''
ENTRY = """
tools:
  - class_name: verl.tools.mcp_base_tool.MCPBaseTool
    config: {{type: mcp, timeout: 5, rate_limit: 100}}
    mcp: {{mcp_servers_config_path: {servers}, tool_selected_list: [{selected}]}}
"""


@contextlib.contextmanager
def served(program: Path) -> Any:
    """A server over HTTP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(program), "streamable-http", str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
        process.kill()


def answer(tool: Any, **arguments: Any) -> str:
    async def called() -> str:
        instance, _ = await tool.create()
        response, _, _ = await tool.execute(instance, arguments)
        await tool.release(instance)
        return str(response.text)

    return asyncio.run(called())


def test_tools_of_servers_answer_and_are_called_in_episodes(verl: None, tmp_path: Path) -> None:
    """Schemas are the server's, whole; what breaks costs its own call, and the server is started again."""
    configuration = Configuration("0.9.1", features=support.TOOLS, package="kit")
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    by_pipes = {"command": sys.executable, "args": [str(program), "stdio"], "env": {"MORE": "100"}}

    def settings_of(server: dict[str, Any], selected: str = "") -> tuple[str, ...]:
        (tmp_path / "servers.json").write_text(json.dumps({"mcpServers": {"sums": server}}))
        (tmp_path / "tools.yaml").write_text(ENTRY.format(servers=tmp_path / "servers.json", selected=selected))
        return f"{MULTI_TURN}.enable=true", f"{MULTI_TURN}.tool_config_path={tmp_path / 'tools.yaml'}"

    with support.imported_beside(configuration, tmp_path / "project") as project, served(program) as url:
        loading = project.module("episodes.tools")
        for server, more in (({"url": url, "auth_token": "x"}, 0), (by_pipes, 100)):
            tools = {tool.name: tool for tool in loading.load_tools(project.config(*settings_of(server)))}
            assert list(tools) == ["add", "odd"]
            schema = tools["add"].tool_schema.model_dump(exclude_unset=True, exclude_none=True)
            properties = schema["function"]["parameters"]["properties"]
            assert properties["a"] == {"title": "A", "type": "integer"}
            assert properties["places"]["anyOf"][0] == {"items": {"type": "integer"}, "type": "array"}
            assert schema["function"]["parameters"]["required"] == ["a", "b"]
            wrong = [("odd", {"how": "raise"}, "Error executing tool odd"), ("odd", {"how": "hang"}, "longer than 5 s")]
            wrong += [("add", {"a": "x"}, "integer")] + [("odd", {"how": "die"}, "closed")] * bool(more)
            for name, arguments, said in wrong:
                with pytest.raises(Exception, match=said):
                    answer(tools[name], **arguments)
                assert answer(tools["add"], a=5, b=4) == str(9 + more)
        model = support.save_ascii_model(project, tmp_path / "toy", shows_tools=True)
        turns = ['<tool_call>{"name": "add", "arguments": {"a": 3, "b": 4}}</tool_call><eos>', "7<eos>"]
        batch = support.played(project, model, [turns], *settings_of(by_pipes, "add"))
        assert parts(batch, model[1])[1] == (0, "<tool>107<assistant>")
        assert support.prompt_of(batch, model[1]) == "[add]<user>question 0<assistant>"
        for server, selected, said in (
            ({"command": str(tmp_path / "none")}, "", "the MCP server 'sums': FileNotFoundError"),
            (by_pipes, "subtract", "no MCP server of .*servers.json has subtract"),
        ):
            support.check_refused(project, loading.check_tools, {settings_of(server, selected): said})
