# vextract:template - edit freely
"""The tools that `multi_turn.tool_config_path` and `multi_turn.function_tool_path` name."""

import contextlib
from pathlib import Path
from typing import Any

from ..errors import ConfigError
from ..settings.setting import choose
from ..switches import TOOLS_MCP
from ..vendored.experimental.agent_loop.tool_parser import ToolParser
from ..vendored.tools.tool_registry import load_all_tools
from .mcp_tools import expand

MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"


def has_tools(config: Any) -> bool:
    """Tell whether the config names tools."""
    multi_turn = config.actor_rollout_ref.rollout.multi_turn
    return bool(multi_turn.tool_config_path or multi_turn.function_tool_path)


def load_tools(config: Any) -> list[Any]:
    """Load the tools that the config names: `BaseTool`s of a YAML file, `function_tool`s of a Python file.

    Raises:
        ConfigError: a file or a class cannot be loaded, two tools have one name, or the parser is unknown.
    """
    multi_turn = config.actor_rollout_ref.rollout.multi_turn
    files = [path for path in (multi_turn.tool_config_path, multi_turn.function_tool_path) if path]
    try:
        with contextlib.redirect_stdout(None):  # classes print their schemas
            if TOOLS_MCP and multi_turn.tool_config_path:
                found = Path(config.trainer.default_local_dir) / "mcp_tools.yaml"
                multi_turn.tool_config_path = expand(multi_turn.tool_config_path, found)
            tools = load_all_tools(multi_turn.tool_config_path, multi_turn.function_tool_path)
    except Exception as error:  # of any class: the files are the owner's
        text = f"the tools of {', '.join(map(str, files))} cannot be loaded: {type(error).__name__}: {error}"
        hint = f"mend the file (a class_name is a module's, as Python finds it here), or set {MULTI_TURN}.enable=false"
        if not TOOLS_MCP:
            if "'mcp' is not a valid" in str(error):
                hint = "vextract add tools_mcp"
        raise ConfigError(text, hint) from error
    if not tools:
        raise ConfigError(
            f"{', '.join(map(str, files))} has no tools",
            "decorate functions with @function_tool, or list classes under `tools` in the YAML file",
        )
    check_format(config)
    return tools


def check_format(config: Any) -> None:
    """Check that calls can be read in the form in which the model is to write them.

    Raises:
        ConfigError: the parser is unknown, or cannot be used.
    """
    form = config.actor_rollout_ref.rollout.multi_turn.format
    if form not in ToolParser._registry:
        hint = choose(str(form), ToolParser._registry)
        raise ConfigError(f"{MULTI_TURN}.format is {form!r}, which no parser has for a name", hint)
    if form == "gemma4":
        text = "calls of gemma4 end by a token that ends no turn, and the rollout engine would write on"
        raise ConfigError(text, f"choose another {MULTI_TURN}.format")


def check_tools(config: Any) -> None:
    """Check that tools are asked for where turns are taken, and can be loaded.

    Raises:
        ConfigError: they are not, or cannot.
    """
    if not has_tools(config):
        return
    if not config.actor_rollout_ref.rollout.multi_turn.enable:
        text = f"{MULTI_TURN} names tools, and each response is one turn"
        raise ConfigError(text, f"set {MULTI_TURN}.enable=true")
    load_tools(config)
