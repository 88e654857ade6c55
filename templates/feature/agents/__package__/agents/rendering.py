# vextract:template - edit freely
"""Conversations as tokens: how one begins, how messages go on after a turn, and the calls that a turn makes.

What the model has written stays as it was sampled. A user's message follows it as an environment's does, a tool's as
upstream's builder of turns has it.
"""

import logging
import uuid
from collections.abc import Sequence
from os.path import commonprefix
from typing import Any

from ..episodes.episode import Episode
from ..episodes.observations import Observations
from ..episodes.tool_turns import first_builder
from ..episodes.tools import check_format
from ..episodes.turn_builders import follow
from ..errors import ConfigError
from ..training.model_words import ModelWords
from ..vendored.experimental.agent_loop import tool_parser
from ..vendored.tools.schemas import OpenAIFunctionToolSchema
from .dialects import Asked, Refusal, Tool

TEMPLATE = "actor_rollout_ref.model.custom_chat_template"


class CannotRender(Refusal):
    """The chat template cannot render messages, or not after a turn of the model."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text}; set {TEMPLATE} to one that does", "unsupported_template", "messages")


class Rendering:
    """Turns messages into tokens and back; the rollout engine knows the tokens that end a turn.

    Raises:
        ConfigError: there is no chat template, or none that shows what the model says.
    """

    def __init__(self, config: Any, tokenizer: Any, engine: Any) -> None:
        check_format(config)
        if not tokenizer.chat_template:
            raise ConfigError("agent programs send messages, and the tokenizer has no chat template", f"set {TEMPLATE}")
        self.tokenizer = tokenizer
        template = config.data.get("apply_chat_template_kwargs")
        self.observations = Observations(tokenizer, "chat", template, getattr(engine, "ends", None))
        self.words = ModelWords.of(config, tokenizer)
        self.words.ends.update(getattr(engine, "ends", ()))
        self.builder, _ = first_builder(config, tokenizer)
        logging.getLogger(tool_parser.__file__).setLevel(logging.CRITICAL)  # it reports each call that is no JSON
        form = config.actor_rollout_ref.rollout.multi_turn.format
        self.parser: Any = tool_parser.ToolParser.get_tool_parser(form, tokenizer)

    def begin(self, asked: Asked) -> list[int]:
        """Return the tokens of a request up to the model's turn.

        Raises:
            CannotRender: the template raised, or has no place for tools.
        """
        if asked.prompt:
            return self._tokens_of(asked.prompt)
        build, messages = self.builder.build_initial_tokens, list(asked.messages)
        try:
            tokens = list(build(messages, tools=asked.tools or None))
            has_no_place = asked.tools and tokens == list(build(messages))
        except Exception as error:  # of any class: a template raises what it likes
            raise CannotRender(f"the chat template cannot render these messages: {error}") from error
        if has_no_place:
            raise CannotRender("the chat template has no place for tools")
        return tokens

    def go_on(self, asked: Asked, known: int, episode: Episode, rest: str) -> tuple[int, list[int]]:
        """Return what follows a turn: how many of its tokens make room, and the tokens of what is asked after it.

        Args:
            asked: the request; the first `known` of its messages, letters or tokens are in the episode.
            episode: up to the end of the turn.
            rest: what the request has put behind the model's words in the same message.

        Raises:
            CannotRender: the template cannot put these messages after a turn.
        """
        if asked.prompt:
            return 0, self._tokens_of(asked.prompt[known:])
        context, turn = episode.prompt + episode.tokens, episode.tokens[episode.turn_starts[-1] :]
        before, later, more = asked.messages[:known], asked.messages[known:], self._tokens_of(rest)
        ends = int(bool(rest and turn) and turn[-1] in self.words.ends)  # that it has ended is no longer true
        said, own = context[: len(context) - ends] + more, turn[: len(turn) - ends] + more
        try:
            if any(message["role"] == "tool" for message in later):
                whole = follow(self.builder)(before, list(asked.messages), said, tools=asked.tools or None).token_ids
            else:
                room = int(self.observations.takes_back(own, later))
                whole = said[: len(said) - room] + self.observations.follow(own, later)
        except Exception as error:  # of any class: a template raises what it likes
            raise CannotRender(f"the chat template cannot go on after a turn: {error}") from error
        kept = len(commonprefix([list(whole), context]))
        if len(context) - kept > len(turn):
            raise CannotRender("the chat template changes what came before the turn")
        return len(context) - kept, list(whole[kept:])

    async def read_turn(self, turn: list[int], text: str, asked: Asked) -> tuple[str, list[Any]]:
        """Return the text of an answer, and the calls that it makes, as OpenAI has them; `text`: the whole turn's."""
        if asked.tools:
            left, calls = await self.parser.extract_tool_calls(turn, [_schema_of(tool) for tool in asked.tools])
            if calls:
                for end in self.words.ends:
                    left = left.replace(self.tokenizer.decode([end]), "")
                names = [call.tool_call_id or f"call_{uuid.uuid4().hex[:24]}" for call in calls]
                made = zip(names, ({"name": call.name, "arguments": call.arguments} for call in calls), strict=True)
                return left.strip(), [{"id": name, "type": "function", "function": each} for name, each in made]
        for stop in asked.stop:
            text = text.partition(stop)[0]
        return text, []

    def _tokens_of(self, prompt: str | list[int]) -> list[int]:
        if isinstance(prompt, str):
            return list(self.tokenizer(prompt, add_special_tokens=False)["input_ids"])
        if prompt and not 0 <= min(prompt) <= max(prompt) < len(self.tokenizer):
            raise Refusal(f"prompt has tokens that are none of the tokenizer's {len(self.tokenizer)}", param="prompt")
        return prompt

    def cut_at(self, turn: list[int], stops: Sequence[str]) -> int | None:
        """Return after how many tokens a turn has said one of some texts; None: it has not."""
        ends = range(len(turn) + 1) if any(text in self.tokenizer.decode(turn) for text in stops) else ()
        return next((n for n in ends if any(text in self.tokenizer.decode(turn[:n]) for text in stops)), None)


def _schema_of(tool: Tool) -> OpenAIFunctionToolSchema:
    """Return a tool as upstream's parsers read it: the types of its parameters, as far as they are simple."""
    function = tool["function"]
    given = (function.get("parameters") or {}).get("properties") or {}
    kinds = {name: each.get("type") if isinstance(each, dict) else None for name, each in given.items()}
    properties = {name: {"type": kind if isinstance(kind, str) else "object"} for name, kind in kinds.items()}
    made = {"name": function["name"], "description": "", "parameters": {"type": "object", "properties": properties}}
    return OpenAIFunctionToolSchema.model_validate({"type": "function", "function": made})
