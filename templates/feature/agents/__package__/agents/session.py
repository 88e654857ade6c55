# vextract:template - edit freely
"""One session of an agent program with the policy: what it asks is written by the rollout engine, within its limits."""

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..episodes.loop import turn_seed
from ..episodes.turns import Writer
from .record import Record
from .rendering import Call, CannotRender, Message, Rendering

# What a request calls the policy.
MODEL = "policy"


class Refusal(Exception):
    """A request cannot be answered.

    Attributes:
        status: of HTTP.
        code: what is wrong, in OpenAI's words where it has any.
        param: the part of the request that is meant.
    """

    def __init__(self, message: str, code: str = "invalid_value", param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.code, self.param, self.status = message, code, param, status


@dataclass
class Asked:
    """What a request asks, in whatever dialect.

    Attributes:
        messages: in OpenAI's form, with text as content, and calls' arguments as dictionaries where they are any.
        prompt: of completions instead: text, or tokens.
        tools: in OpenAI's form.
        max_tokens: at most so many are written; None: as many as there is room for.
        stop: texts that end a turn.
        ignored: settings of the request that are not followed.
    """

    messages: list[Message] = field(default_factory=list)
    prompt: str | list[int] | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    max_tokens: int | None = None
    stop: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Answer:
    """What the policy has written: its text without calls, the calls, and why it ended: stop, length or tool_calls."""

    text: str
    calls: list[Call]
    end: str
    prompt_tokens: int
    tokens: int


@dataclass(frozen=True)
class Limits:
    """The limits of a session: tokens of a prompt, of all that follows it, and of a turn; turns, if they are counted."""

    prompt: int
    response: int
    turn: int
    turns: int | None

    @classmethod
    def of(cls, config: Any) -> "Limits":
        """Return those of a config."""
        response = int(config.actor_rollout_ref.rollout.response_length)
        turn = min(config.local.env.max_turn_tokens or response, response)
        most = config.actor_rollout_ref.rollout.multi_turn.max_assistant_turns
        return cls(int(config.data.max_prompt_length), response, turn, most)


class Session:
    """Answers the requests of one call of a program, one after another.

    Args:
        rendering: turns messages into tokens.
        limits: of the session.
        writer: writes turns.
        place: of the session among those that are played.
        seed: of the session.
        note: is told of settings that requests have and nothing follows.

    Attributes:
        key: the secret by which requests show that they are of this session.
        record: what was said.
        counts: requests, and those refused.
        spent: which limit the program has asked beyond, as episodes name it; "": none.
        broken: has the error of an engine that cannot go on.
    """

    def __init__(
        self,
        rendering: Rendering,
        limits: Limits,
        writer: Writer,
        place: int,
        seed: int,
        note: Callable[[list[str]], None],
    ) -> None:
        self.rendering, self.limits, self.writer = rendering, limits, writer
        self.place, self.seed, self.note = place, seed, note
        self.key = f"session-{secrets.token_urlsafe(32)}"
        self.record = Record(rendering)
        self.counts: Counter[str] = Counter()
        self.spent = ""
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._one_at_a_time = asyncio.Lock()
        self._answering: set[asyncio.Task[Answer]] = set()
        self._own_seconds, self._since, self._closed = 0.0, time.monotonic(), False

    async def answer(self, asked: Asked) -> Answer:
        """Return what the policy answers.

        Raises:
            Refusal: a limit is reached, the request cannot be rendered, or the session has ended meanwhile.
        """
        self.counts["requests"] += 1
        if not self._answering:
            self._own_seconds += time.monotonic() - self._since
        task = asyncio.ensure_future(self._answer(asked))
        self._answering.add(task)
        try:
            await asyncio.wait({task})
        finally:
            self._answering.discard(task)
            if not self._answering:
                self._since = time.monotonic()
        if task.cancelled():
            raise ended()
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, Refusal):
            self.counts["refused"] += 1
            raise error
        if not self.broken.done():  # the run ends by it
            self.broken.set_exception(error)
        raise Refusal(f"the engine cannot go on: {error}", "server_error", status=500)

    def own_seconds(self) -> float:
        """Return how long the program has been at work by itself, while nothing was being written for it."""
        return self._own_seconds + (0.0 if self._answering else time.monotonic() - self._since)

    def close(self) -> None:
        """End the session: what is still being answered is refused."""
        self._closed = True
        for task in self._answering:
            task.cancel()

    async def _answer(self, asked: Asked) -> Answer:
        async with self._one_at_a_time:
            if self._closed:
                raise ended()
            most = self.limits.turns
            if most is not None and len(self.record.turns) >= most:
                self.spent = "turns_spent"
                text = f"the session has had the {most} turns of actor_rollout_ref.rollout.multi_turn"
                raise Refusal(f"{text}.max_assistant_turns", "turn_limit_exceeded")
            if asked.ignored:
                self.note(asked.ignored)
            try:
                if asked.prompt is None:
                    turn, context = self.record.place(asked.messages, asked.tools)
                else:
                    turn, context = self.record.place_text(asked.prompt)
            except CannotRender as error:
                param = "tools" if "place for tools" in str(error) else "messages"
                hint = "set actor_rollout_ref.model.custom_chat_template to one that does"
                raise Refusal(f"{error}; {hint}", "unsupported_template", param) from error
            room = min(self._room(turn, len(context)), asked.max_tokens or self.limits.response)
            seed = turn_seed(self.seed, len(self.record.turns))
            turn.tokens, turn.log_probs = await self.writer.write(self.place, context, room, seed)
            return await self._read(asked, turn, context)

    def _room(self, turn: Any, length: int) -> int:
        """Return how many tokens a turn may have behind this many.

        Raises:
            Refusal: none.
        """
        prompt = len(turn.chain()[0].added)
        left = self.limits.response - (length - prompt)
        if prompt > self.limits.prompt or left < 1:
            self.spent = "budget_spent"
            what, key, most, number = "prompt", "data.max_prompt_length", self.limits.prompt, prompt
            if prompt <= self.limits.prompt:
                what, key, most, number = "conversation", "data.max_response_length", self.limits.response, length - prompt
            text = f"the {what} has {number} tokens{'' if what == 'prompt' else ' behind its prompt'}"
            raise Refusal(f"{text}, and {key} is {most}", "context_length_exceeded", "messages")
        return min(left, self.limits.turn)

    async def _read(self, asked: Asked, turn: Any, context: list[int]) -> Answer:
        """Keep a turn that was written, and return it as an answer."""
        cut = self.rendering.cut_at(turn.tokens, asked.stop)
        if cut is not None:  # a sample up to there is one all the same
            turn.tokens, turn.log_probs = turn.tokens[:cut], turn.log_probs and turn.log_probs[:cut]
        text, calls = await self.rendering.read_turn(context, turn.tokens, asked.tools)
        if cut is not None:
            text = text[: min((place for each in asked.stop if (place := text.find(each)) >= 0), default=len(text))]
        message: Message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [tool_call(call.id, call.name, call.arguments) for call in calls]
        turn.said.append(message)
        if asked.prompt is None:
            self.record.keep(turn, [*asked.messages, message], asked.tools)
        else:
            turn.text = turn.text if turn.text is None else turn.text + text
            self.record.keep(turn)
        has_ended = cut is not None or turn.tokens[-1:] and turn.tokens[-1] in self.rendering.ends
        end = "tool_calls" if calls else "stop" if has_ended else "length"
        return Answer(text, calls, end, len(context), len(turn.tokens))


def ended() -> Refusal:
    """Return the refusal of a key that opens no session, or none any more."""
    text = "this key is of no session that goes on; each call of the program gets a key, which ends with it"
    return Refusal(text, "invalid_api_key", status=401)


def tool_call(name: str, function: str, arguments: Any) -> dict[str, Any]:
    """Return a call as messages have it, its arguments as a dictionary if they are one."""
    if isinstance(arguments, str):
        try:
            read = json.loads(arguments)
        except ValueError:
            read = None
        arguments = read if isinstance(read, dict) else arguments
    return {"id": name, "type": "function", "function": {"name": function, "arguments": arguments}}
