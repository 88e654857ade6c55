# vextract:template - edit freely
"""A Python interpreter as a tool that the model calls. It keeps its state over an episode, apart from all else."""

import asyncio
import weakref
from typing import Any

from ..rewards.sandbox import require_isolation
from ..rewards.sandboxing.limits import Limits
from ..vendored.tools.base_tool import BaseTool
from ..vendored.tools.schemas import OpenAIFunctionToolSchema, ToolResponse
from .interpreter import Interpreter

SCHEMA = {
    "name": "python",
    "description": "Run Python code. Variables are kept from call to call. What the code prints is shown, and the "
    "value of its last line.",
    "parameters": {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "the code"}},
        "required": ["code"],
    },
}
# The most that all calls of an episode may compute, as a multiple of the time that one may take.
CALLS = 100


class PythonTool(BaseTool):  # type: ignore[misc]
    """Runs code in an interpreter that lives as long as the episode.

    Args:
        config: `seconds` that a call may take (5), `output_kb` that it may print (64), `memory_mb` (512) and
            `processes` (16) of the interpreter, `site_packages` (false): whether it may import what is installed,
            `allow_unisolated` (false): whether it runs where nothing keeps it from the trainer's files.
        tool_schema: in the place of the tool's own.

    Raises:
        SandboxError: nothing here isolates a program.
    """

    def __init__(self, config: dict[str, Any], tool_schema: Any = None) -> None:
        super().__init__(config, tool_schema)
        if unknown := sorted(set(config) - {"type", "seconds", "output_kb", *Limits.__dataclass_fields__}):
            raise ValueError(f"{type(self).__name__} has no setting {', '.join(unknown)}")
        self.seconds, self.output = float(config.get("seconds", 5)), int(config.get("output_kb", 64)) * 1024
        given = {name: config[name] for name in Limits.__dataclass_fields__ if name in config}
        self.limits = Limits(**{**given, "seconds": self.seconds * CALLS, "output_kb": Limits.output_kb})
        self.held = require_isolation(self.limits.allow_unisolated)
        self.interpreters: weakref.WeakKeyDictionary[Any, Interpreter] = weakref.WeakKeyDictionary()

    def get_openai_tool_schema(self) -> Any:
        """Return the schema that the model sees."""
        return OpenAIFunctionToolSchema.model_validate({"type": "function", "function": SCHEMA})

    async def execute(
        self, instance_id: str, parameters: dict[str, Any], agent_data: Any = None, **kwargs: Any
    ) -> tuple[ToolResponse, float, dict[str, Any]]:
        """Run `code` in the interpreter of the episode that `agent_data` is of.

        Raises:
            ValueError: `code` is no text.
        """
        if not isinstance(code := parameters.get("code"), str):
            raise ValueError("the argument `code` has to be a text")
        if agent_data not in self.interpreters:
            made = self.interpreters[agent_data] = Interpreter(self.limits, self.held, self.seconds, self.output)
            weakref.finalize(agent_data, made.close)  # when the episode is over
        return ToolResponse(text=await asyncio.to_thread(self.interpreters[agent_data].run, code)), 0.0, {}
