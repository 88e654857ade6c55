"""Read what verl's settings of tools name."""

from __future__ import annotations

from typing import Any

MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"
CLASSES, FUNCTIONS = f"{MULTI_TURN}.tool_config_path", f"{MULTI_TURN}.function_tool_path"


def list_tools(table: Any) -> list[dict[str, Any]]:
    """Return the entries of a table of tools.

    Args:
        table: What the YAML file of `tool_config_path` holds.
    """
    listed = (table.get("tools") or ()) if isinstance(table, dict) else ()
    return [item for item in listed if isinstance(item, dict)]
