# vextract:template - edit freely
"""Tools behind a Model Context Protocol server: upstream's client is not part of its released wheel."""

from __future__ import annotations

from typing import Any, NoReturn


async def initialize_mcp_tool(tool_cls: type, tool_config: Any) -> NoReturn:
    """Refuse: upstream connects to an MCP server here.

    Raises:
        NotImplementedError: always; the tool configuration asks for `type: mcp`.
    """
    raise NotImplementedError(
        f"{tool_cls.__name__} asks for an MCP server, whose client verl does not ship\n"
        "hint: use tools of `type: native`"
    )
