# vextract:template - edit freely
"""One session of an agent program with the policy: what it asks is written by the rollout engine, within its limits."""

import asyncio
import json
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..episodes.episode import Episode
from ..episodes.loop import turn_seed
from ..episodes.turns import Writer
from .record import Record, Turn
from .rendering import TEMPLATE, Call, CannotRender, Message, Rendering, Tool

# What requests call the policy.
MODEL = "policy"


class Refusal(Exception):
    """A request cannot be answered; with a status of HTTP, and OpenAI's code where it has one."""

    def __init__(self, message: str, code: str = "invalid_value", param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.code, self.param, self.status = message, code, param, status


@dataclass
class Asked:
    """What a request asks, in whatever dialect.

    Attributes:
        messages: in OpenAI's form; their content is text, and calls have dictionaries as arguments, where they can.
        prompt: of completions instead: text, or tokens.
        tools: in OpenAI's form.
        max_tokens: at most so many are written; None: as many as there is room for.
        stop: texts that end a turn.
        ignored: settings of the request that are not followed.
    """

    messages: list[Message] = field(default_factory=list)
    prompt: str | list[int] | None = None
    tools: list[Tool] = field(default_factory=list)
    max_tokens: int | None = None
    stop: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


class Answer(NamedTuple):
    """What the policy has written: its text, its calls, and why it ended: stop, length or tool_calls."""

    text: str
    calls: list[Call]
    end: str
    prompt_tokens: int
    tokens: int


class Session:
    """Answers the requests of one call of a program, one after another.

    Args:
        config: the whole config.
        rendering: turns messages into tokens.
        writer: writes turns.
        place: of the session among those that are played.
        seed: of its turns.
        row: the columns of its task.

    Attributes:
        key: the secret of its requests.
        episode: what becomes of it.
        counts: of requests, of those refused, and of what came of it.
        ignored: settings of requests that were not followed.
        spent: the limit that the program has asked beyond, as episodes name it; "": none.
        broken: has the error of an engine that cannot go on.
    """

    def __init__(
        self, config: Any, rendering: Rendering, writer: Writer, place: int, seed: int, row: dict[str, Any]
    ) -> None:
        rollout, env = config.actor_rollout_ref.rollout, config.local.env
        self.budget, self.longest_prompt = int(rollout.response_length), int(config.data.max_prompt_length)
        self.longest_turn = min(env.max_turn_tokens or self.budget, self.budget)
        self.most_turns = rollout.multi_turn.max_assistant_turns or self.budget  # a chain has no more than tokens
        self.rendering, self.writer, self.place, self.seed, self.row = rendering, writer, place, seed, row
        self.key = secrets.token_urlsafe(32)
        self.episode, self.record = Episode([]), Record(rendering)
        self.counts: Counter[str] = Counter()
        self.ignored: set[str] = set()
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
        self._own_seconds, self._since = self.own_seconds(), time.monotonic()
        task = asyncio.ensure_future(self._answer(asked))
        self._answering.add(task)
        await asyncio.wait({task})
        self._answering.discard(task)
        self._since = time.monotonic()
        error = ended() if task.cancelled() else task.exception()
        if error is None:
            return task.result()
        if not isinstance(error, Refusal):
            if not self.broken.done():  # the run ends by it
                self.broken.set_exception(error)
            error = Refusal(f"the engine cannot go on: {error}", "server_error", status=500)
        self.counts["refused"] += 1
        raise error

    def own_seconds(self) -> float:
        """Return how long the program has been at work by itself, while nothing was written for it."""
        return self._own_seconds + (0.0 if self._answering else time.monotonic() - self._since)

    def close(self) -> None:
        """End the session: what is still to be answered is refused."""
        self._closed = True
        for task in self._answering:
            task.cancel()

    async def _answer(self, asked: Asked) -> Answer:
        async with self._one_at_a_time:
            if self._closed:
                raise ended()
            if len(self.record.turns) >= self.most_turns:
                self.spent = "turns_spent"
                text = f"the session has had its {self.most_turns} turns; actor_rollout_ref.rollout.multi_turn"
                raise Refusal(f"{text}.max_assistant_turns limits them", "turn_limit_exceeded")
            self.ignored.update(asked.ignored)
            try:
                place = self.record.place_text
                turn = place(asked.prompt) if asked.prompt else self.record.place(asked.messages, asked.tools)
            except CannotRender as error:
                raise Refusal(
                    f"{error}; set {TEMPLATE} to one that does", "unsupported_template", "messages"
                ) from error
            context = [*(turn.before.context() if turn.before else [])]
            context = context[: len(context) - turn.dropped] + turn.added
            most = min(self._room(turn, len(context)), asked.max_tokens or self.budget)
            seed = turn_seed(self.seed, len(self.record.turns))
            turn.tokens, turn.log_probs = await self.writer.write(self.place, context, most, seed)
            return await self._read(asked, turn, context)

    def _room(self, turn: Turn, length: int) -> int:
        """Return how many tokens a turn may have that follows so many.

        Raises:
            Refusal: none.
        """
        prompt = len(turn.chain()[0].added)
        left = self.budget - (length - prompt)
        text = f"the prompt has {prompt} tokens, and data.max_prompt_length is {self.longest_prompt}"
        if prompt <= self.longest_prompt:
            text = f"behind the prompt are {length - prompt} tokens, and data.max_response_length is {self.budget}"
        if prompt > self.longest_prompt or left < 1:
            self.spent = "budget_spent"
            raise Refusal(text, "context_length_exceeded", "messages")
        return min(left, self.longest_turn)

    async def _read(self, asked: Asked, turn: Turn, context: list[int]) -> Answer:
        """Keep a turn that was written, and return it as an answer."""
        cut = self.rendering.cut_at(turn.tokens, asked.stop)
        if cut is not None:  # up to there it is a sample all the same
            turn.tokens, turn.log_probs = turn.tokens[:cut], turn.log_probs and turn.log_probs[:cut]
        text, calls = await self.rendering.read_turn(context, turn.tokens, asked.tools)
        for stop in asked.stop:
            text = text.partition(stop)[0]
        message: Message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [tool_call(*call) for call in calls]
        turn.said.append(message)
        turn.text = None if turn.text is None else turn.text + text
        self.record.keep(turn, [*asked.messages, message] if asked.messages else (), asked.tools)
        has_ended = cut is not None or turn.tokens[-1:] and turn.tokens[-1] in self.rendering.words.ends
        end = "tool_calls" if calls else "stop" if has_ended else "length"
        return Answer(text, calls, end, len(context), len(turn.tokens))


def ended() -> Refusal:
    """Return the refusal of a key that opens no session, or none any more."""
    text = "this key is of no session that goes on; each call of the program gets one, which ends with it"
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
