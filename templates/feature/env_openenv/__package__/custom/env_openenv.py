# vextract:hook  yours: written once, never touched by an upgrade
"""An environment on a server of OpenEnv: openenv:http://localhost:8000, or what starts it, with {port} in it."""

import json
from collections.abc import Mapping
from typing import Any

from ..episodes.actions import Action, first_message, numbers_in, read_action
from ..episodes.openenv_session import Server, Session, fields_of_action
from ..errors import ConfigError


def make_env(name: str, settings: Mapping[str, Any]) -> "OpenEnvEnv":
    """Return a session; `settings`: kwargs (of the environment's `reset`), prompt, and timeout: 60 seconds."""
    if "{port}" not in name and not name.startswith(("http://", "https://")):
        raise ConfigError(f"openenv:{name} is neither a URL nor a command", "write {port} where its port belongs")
    return OpenEnvEnv(Server(name).ready() if "{port}" in name else name.rstrip("/"), settings)


class OpenEnvEnv:
    """Plays in a session of its own: the server has to allow as many as a batch has episodes."""

    def __init__(self, url: str, settings: Mapping[str, Any]) -> None:
        self.name, self.settings, self.fields = url, settings, fields_of_action(url)
        self.session = Session(url, settings.get("timeout", 60))
        self.close = self.session.close

    async def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        data = await self.session.ask("reset", {"seed": seed, **(self.settings.get("kwargs") or {})})
        return first_message(self.settings, self.shown(data["observation"])), {}

    async def step(self, turn: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = read_action(turn)
        data = await self.session.ask("step", self.data_of(action))
        if "code" in data:
            rules = f"That is no action: it has the fields {', '.join(self.fields)}."
            return action.answer(rules), 0.0, False, False, {"valid": 0.0}
        seen, info = data["observation"], {**data["observation"], **(data.get("metadata") or {}), "valid": 1.0}
        return action.answer(self.shown(seen)), float(data["reward"] or 0), bool(data["done"]), False, numbers_in(info)

    def data_of(self, action: Action) -> dict[str, Any]:
        """Return what is sent: a call of an MCP tool, the arguments of a call, JSON, or the text in the first field."""
        if action.arguments is not None and "tool_name" in self.fields:
            return {"type": "call_tool", "tool_name": action.name, "arguments": action.arguments}
        try:
            given = action.arguments or json.loads(action.text)
        except ValueError:
            given = None
        return dict(given) if isinstance(given, Mapping) else {self.fields[0]: action.text}

    def shown(self, observation: dict[str, Any]) -> str:
        """Return an observation as text: its only text, or all of it as JSON."""
        seen = {name: value for name, value in observation.items() if name != "metadata"}
        texts = [value for value in seen.values() if isinstance(value, str) and value]
        return texts[0] if len(texts) == 1 else json.dumps(seen)
