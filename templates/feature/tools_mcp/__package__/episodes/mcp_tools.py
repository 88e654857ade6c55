# vextract:template - edit freely
"""The tools of MCP servers, each as a `BaseTool`."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ..vendored.tools.base_tool import BaseTool
from ..vendored.tools.schemas import (
    OpenAIFunctionParametersSchema,
    OpenAIFunctionPropertySchema,
    OpenAIFunctionSchema,
    OpenAIFunctionToolSchema,
    ToolResponse,
)
from .mcp_servers import TIMEOUT, Connection, connection_to, on_loop, servers_in

# Upstream's class, which releases from 0.8.0 on do not have.
UPSTREAM = "verl.tools.mcp_base_tool.MCPBaseTool"


class AnyProperty(OpenAIFunctionPropertySchema, extra="allow"):  # type: ignore[call-arg, misc]
    """A parameter as the server describes it, with anything that JSON Schema has."""

    type: Any = None


class AnyParameters(OpenAIFunctionParametersSchema, extra="allow"):  # type: ignore[call-arg, misc]
    """Parameters as the server describes them."""

    properties: dict[str, AnyProperty] = {}


class AnyFunction(OpenAIFunctionSchema):  # type: ignore[misc]
    """A function as the server describes it."""

    parameters: AnyParameters


class AnyTool(OpenAIFunctionToolSchema):  # type: ignore[misc]
    """The schema of a tool as the server describes it."""

    function: AnyFunction


class McpTool(BaseTool):  # type: ignore[misc]
    """A tool of an MCP server. Derive from it to change what becomes of a result.

    Args:
        config: of the entry in the file of tools, and what `expand` has put there.
    """

    def get_openai_tool_schema(self) -> AnyTool:
        """Return the schema, whole."""
        return AnyTool.model_validate(self.config["schema"])

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        """Call the tool on its server; arguments and errors as of any tool."""
        connection = connection_of(self.config)
        timeout = float(self.config.get("timeout", TIMEOUT))
        content = await asyncio.wrap_future(on_loop(connection.call(self.name, parameters, timeout)))
        return ToolResponse(text=self.text_of(content)), 0.0, {}

    def text_of(self, content: list[Any]) -> str:
        """Return what the model is told of the parts of a result: their texts, with spaces between them.

        Raises:
            ValueError: a part is no text.
        """
        others = sorted({part.type for part in content} - {"text"})
        if others:
            raise ValueError(f"the MCP server answers by {', '.join(others)}, and only text can be shown to the model")
        return " ".join(part.text for part in content)


def connection_of(config: dict[str, Any]) -> Connection:
    """Return the connection of a tool, by its config."""
    settings = servers_in(config["servers"])[config["server"]]
    return connection_to(json.dumps(settings, sort_keys=True), config.get("rate_limit"), os.getpid())


def expand(path: str, target: Path) -> str:
    """Write a file of tools in which each tool of an MCP server has an entry of its own.

    Args:
        path: of a file of tools. Entries with `config.type: mcp` have `mcp.mcp_servers_config_path`, and may have
            `mcp.tool_selected_list`, `config.timeout` (seconds), `config.rate_limit` (calls a second), `class_name`.
        target: of the file that is written.

    Returns:
        Its path, or the one given where that has no MCP servers.

    Raises:
        ValueError: a server has no tools, or not those that were selected.
        Exception: of any class: it cannot be reached.
    """
    given = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    if not any(entry["config"]["type"] == "mcp" for entry in given["tools"]):  # type: ignore[index, call-overload]
        return path
    tools: list[dict[str, Any]] = []
    for entry in given["tools"]:  # type: ignore[index, call-overload]
        tools += _expanded(entry) if entry["config"]["type"] == "mcp" else [entry]
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f"{target.name}.{os.getpid()}")
    OmegaConf.save({**given, "tools": tools}, scratch)  # type: ignore[dict-item]
    scratch.replace(target)  # several processes write the same
    return str(target)


def _expanded(entry: dict[str, Any]) -> list[dict[str, Any]]:
    name = entry.get("class_name", UPSTREAM)
    config, mcp = entry["config"], entry["mcp"]
    selected = set(mcp.get("tool_selected_list") or ())
    found = {}
    for server in servers_in(mcp["mcp_servers_config_path"]):
        made = {**config, "type": "native", "servers": mcp["mcp_servers_config_path"], "server": server}
        try:
            tools = on_loop(connection_of(made).list_tools()).result()
        except Exception as error:
            while parts := getattr(error, "exceptions", None):  # of tasks that it has begun
                error = parts[0]
            raise ValueError(f"the MCP server {server!r}: {type(error).__name__}: {error}") from error
        for tool in tools:
            if not selected or tool.name in selected:
                found[tool.name] = {**made, "schema": _schema(tool)}
    if missing := sorted(selected - set(found)):
        raise ValueError(f"no MCP server of {mcp['mcp_servers_config_path']} has {', '.join(missing)}")
    if not found:
        raise ValueError(f"the MCP servers of {mcp['mcp_servers_config_path']} have no tools")
    cls = f"{McpTool.__module__}.McpTool" if name == UPSTREAM else name
    return [{"class_name": cls, "config": made} for made in found.values()]


def _schema(tool: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, "required": [], **tool.input_schema}
    function = {"name": tool.name, "description": tool.description or "", "parameters": parameters, "strict": False}
    return {"type": "function", "function": function}
