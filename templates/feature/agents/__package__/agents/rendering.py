# vextract:template - edit freely
"""Conversations as tokens: how one begins, how messages go on after a turn, and the calls that a turn makes.

What the model has written stays as it was sampled. A user's message follows it as an environment's does, a tool's as
upstream's builder of turns has it.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..episodes.observations import Observations
from ..episodes.tools import MULTI_TURN, check_format
from ..episodes.turn_builders import builders, follow
from ..episodes.words import text_of_turn
from ..errors import ConfigError
from ..training.model_words import ModelWords
from ..vendored.experimental.agent_loop.tool_parser import ToolParser
from ..vendored.tools.schemas import OpenAIFunctionToolSchema

Message = dict[str, Any]


class CannotRender(ValueError):
    """The chat template cannot render messages, or not after a turn of the model."""


@dataclass(frozen=True)
class Call:
    """A call of a tool, as the model has written it; `arguments` are JSON as far as the model has kept to it."""

    id: str
    name: str
    arguments: str


class Rendering:
    """Turns messages into tokens and back, for one model.

    Args:
        config: the whole config.
        tokenizer: of the policy.
        engine: the rollout engine; the tokens that end a turn are known to it.

    Raises:
        ConfigError: there is no chat template, or none that shows what the model says.
    """

    def __init__(self, config: Any, tokenizer: Any, engine: Any) -> None:
        check_format(config)
        if not tokenizer.chat_template:
            text = "agent programs send messages, and the tokenizer has no chat template"
            raise ConfigError(text, "set actor_rollout_ref.model.custom_chat_template")
        self.tokenizer = tokenizer
        template = config.data.get("apply_chat_template_kwargs")
        self.observations = Observations(tokenizer, "chat", template, getattr(engine, "ends", None))
        self.words = ModelWords.of(config, tokenizer)
        self.words.ends.update(getattr(engine, "ends", ()))
        self.builder = _first_builder(config, tokenizer)
        self.parser: Any = ToolParser.get_tool_parser(config.actor_rollout_ref.rollout.multi_turn.format, tokenizer)
        self.ends = {token for token in self.words.ends if token is not None}
        self._shows_tools: bool | None = None

    def begin(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the tokens of a conversation up to the model's turn.

        Raises:
            CannotRender: the template raised, or has no place for tools.
        """
        if tools and not self._has_place_for(tools):
            raise CannotRender("the chat template has no place for tools")
        return self._rendered(messages, tools)

    def go_on(
        self, messages: Sequence[Message], known: int, tools: Sequence[Mapping[str, Any]], context: list[int], turn: Any
    ) -> tuple[int, list[int]]:
        """Return what follows a turn: how many of its tokens make room, and the tokens of the messages after it.

        Args:
            messages: the conversation; the first `known` of them are in the context.
            context: all tokens so far, those of the turn at their end.
            turn: the tokens that the model wrote last.

        Raises:
            CannotRender: the template cannot put these messages after a turn.
        """
        later = list(messages[known:])
        try:
            if all(message["role"] != "tool" for message in later):
                added = self.observations.follow(turn, later)
                return int(self.observations.takes_back(turn, later)), added
            merged = follow(self.builder)(messages[:known], messages, context, tools=list(tools) or None).token_ids
        except Exception as error:  # of any class: a template raises what it likes
            raise CannotRender(f"the chat template cannot go on after a turn: {error}") from error
        kept = next((n for n, pair in enumerate(zip(merged, context, strict=False)) if pair[0] != pair[1]), None)
        kept = min(len(merged), len(context)) if kept is None else kept
        if len(context) - kept > len(turn):
            raise CannotRender("the chat template changes what came before the turn")
        return len(context) - kept, list(merged[kept:])

    def tokens_of(self, text: str) -> list[int]:
        """Return the tokens of plain text."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def text_of(self, context: Sequence[int], turn: Sequence[int]) -> str:
        """Return a turn as text, as an environment reads it."""
        return text_of_turn(self.words, context, turn)

    async def read_turn(
        self, context: Sequence[int], turn: Sequence[int], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[str, list[Call]]:
        """Return the text of a turn, and the calls that it makes of these tools."""
        if tools:
            content, calls = await self.parser.extract_tool_calls(list(turn), [_schema(tool) for tool in tools])
            if calls:
                for end in self.ends:
                    content = content.replace(self.tokenizer.decode([end]), "")
                names = [call.tool_call_id or f"call_{uuid.uuid4().hex[:24]}" for call in calls]
                pairs = zip(names, calls, strict=True)
                return content.strip(), [Call(name, call.name, call.arguments) for name, call in pairs]
        return self.text_of(context, turn), []

    def cut_at(self, turn: Sequence[int], stop: Sequence[str]) -> int | None:
        """Return how many tokens of a turn there are until it has said one of some texts; None: it does not."""
        if not stop or not re.search("|".join(map(re.escape, stop)), self.tokenizer.decode(turn)):
            return None
        said = (n for n in range(1, len(turn) + 1) if any(text in self.tokenizer.decode(turn[:n]) for text in stop))
        return next(said, None)

    def _rendered(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        try:
            return list(self.builder.build_initial_tokens(list(messages), tools=list(tools) or None))
        except Exception as error:  # of any class: a template raises what it likes
            raise CannotRender(f"the chat template cannot render these messages: {error}") from error

    def _has_place_for(self, tools: Sequence[Mapping[str, Any]]) -> bool:
        if self._shows_tools is None:
            asked = [{"role": "user", "content": "?"}]
            self._shows_tools = self._rendered(asked, tools) != self._rendered(asked, ())
        return self._shows_tools


def _first_builder(config: Any, tokenizer: Any) -> Any:
    """Return upstream's builder of turns for this model, or else the generic one."""
    errors: list[Exception] = []
    for make, _ in builders(config, tokenizer):
        try:
            return make()
        except Exception as error:  # of any class: one of a family asks for that family's tokens
            errors.append(error)
    raise ConfigError(
        f"no builder of turns fits the tokenizer: {errors[0]}", f"choose another model, or leave {MULTI_TURN} off"
    )


def _schema(tool: Mapping[str, Any]) -> OpenAIFunctionToolSchema:
    """Return a tool as upstream's parsers read it: the types of its parameters, as far as they are simple."""
    function = tool["function"]
    given = (function.get("parameters") or {}).get("properties") or {}
    kinds = {name: each.get("type") if isinstance(each, Mapping) else None for name, each in given.items()}
    properties = {name: {"type": kind if isinstance(kind, str) else "object"} for name, kind in kinds.items()}
    parameters = {"type": "object", "properties": properties}
    made = {"name": function["name"], "description": function.get("description") or "", "parameters": parameters}
    return OpenAIFunctionToolSchema.model_validate({"type": "function", "function": made})
