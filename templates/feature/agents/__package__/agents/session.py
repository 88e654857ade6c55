# vextract:template - edit freely
"""One session of an agent program with the policy: what it asks is written by the rollout engine, within its limits.

Turns make a tree: a request that goes on exactly where one ended is joined to it, token for token. One that follows
none begins a chain, and it is counted why. The chain of the last turn is trained.
"""

import asyncio
import json
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..episodes.episode import Episode
from ..episodes.loop import turn_seed
from ..episodes.tools import MULTI_TURN
from ..episodes.turns import Writer
from .dialects import Answer, Asked, Message, Refusal, Tool, ended, parsed
from .rendering import CannotRender, Rendering


@dataclass(eq=False)
class Turn:
    """A turn of the model, and what was put in front of it."""

    before: "Turn | None"  # that it goes on from; None: it begins a chain
    added: list[int]  # the tokens in front: of the prompt, or of the messages since
    dropped: int = 0  # so many of the last tokens of `before` make room for them
    messages: list[Message] = field(default_factory=list)  # those since `before`, and the model's
    tools: list[Tool] = field(default_factory=list)  # that the model could call
    said: Any = ""  # all up to its end: a text for each message; or text, or tokens, of a completion and its prompt
    tokens: list[int] = field(default_factory=list)  # what the model wrote, as it was sampled
    log_probs: list[float] | None = None

    def chain(self) -> "list[Turn]":
        """Return the turns from the first of the chain to this one."""
        turns = [self]
        while (before := turns[-1].before) is not None:
            turns.append(before)
        return turns[::-1]

    def context(self) -> list[int]:
        """Return all tokens up to the end of this turn."""
        tokens: list[int] = []
        for turn in self.chain():
            del tokens[len(tokens) - turn.dropped :]
            tokens += turn.added + turn.tokens
        return tokens


class Session:
    """Answers the requests of one call of a program, one after another.

    Args:
        place: of the session among those that are played.
        seed: of its turns.
    """

    def __init__(self, config: Any, rendering: Rendering, writer: Writer, place: int, seed: int) -> None:
        rollout, env = config.actor_rollout_ref.rollout, config.local.env
        self.budget, self.longest_prompt = int(rollout.response_length), int(config.data.max_prompt_length)
        self.longest_turn = min(env.max_turn_tokens or self.budget, self.budget)
        self.most_turns = rollout.multi_turn.max_assistant_turns or self.budget  # a chain has no more than tokens
        self.rendering, self.writer, self.place, self.seed = rendering, writer, place, seed
        self.key = secrets.token_urlsafe(32)  # of its requests
        self.episode = Episode([])
        self.turns: list[Turn] = []  # in the order in which they were asked for
        self.counts: Counter[str] = Counter()  # of requests, those refused, those apart, and of what came of it
        self.spent = ""  # the limit that the program has asked beyond, as episodes name it
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()  # the engine cannot go on
        self._one_at_a_time = asyncio.Lock()
        self._answering: set[asyncio.Task[Answer]] = set()
        self._own_seconds, self._since, self._closed = 0.0, time.monotonic(), False

    async def answer(self, asked: Asked) -> Answer:
        """Return what the policy answers.

        Raises:
            Refusal: a limit is reached, the request cannot be rendered, or the session has ended meanwhile.
        """
        self._own_seconds = self.own_seconds()
        task = asyncio.ensure_future(self._answer(asked))
        self._answering.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            raise ended() from None
        except Refusal:
            raise
        except Exception as error:
            if not self.broken.done():  # the run ends by it
                self.broken.set_exception(error)
            raise Refusal(f"the engine cannot go on: {error}", "server_error", status=500) from error
        finally:
            self._answering.discard(task)
            self._since = time.monotonic()

    def own_seconds(self) -> float:
        """Return how long the program has been at work by itself, while nothing was written for it."""
        return self._own_seconds + (0.0 if self._answering else time.monotonic() - self._since)

    async def close(self) -> None:
        """End the session: what is still to be answered is refused."""
        self._closed = True
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def fill_episode(self) -> list[Message]:
        """Fill in the episode, but for its end, and count; returns the messages of its prompt, if it has any."""
        episode, chain = self.episode, self.turns[-1].chain()
        reward, episode.prompt, episode.scores = sum(episode.scores), chain[0].added, []
        for turn in chain:
            for _ in range(turn.dropped):
                episode.take_back()
            if turn.before is not None:
                episode.add_answer(turn.added, turn.messages[:-1])
            episode.add_turn(turn.tokens, turn.log_probs, "")
            episode.messages[-1] = (turn.messages or episode.messages)[-1]
        episode.scores[-1] = reward
        written, trained = (sum(len(turn.tokens) for turn in turns) for turns in (self.turns, chain))
        self.counts.update(turns=len(self.turns), written=written, untrained=written - trained)
        return chain[0].messages[:-1]

    async def _answer(self, asked: Asked) -> Answer:
        async with self._one_at_a_time:
            if self._closed:
                raise ended()
            if asked.ignored:
                names = ", ".join(asked.ignored)
                text = f"programs ask with {names}, which the policy does not follow: it writes as it is trained"
                self.rendering.words.say("ignored", text)
            said: Any = asked.prompt or [_text_of(message) for message in asked.messages]
            turn = self._place(asked, said)
            context = turn.context()
            most = min(self._room(turn, len(context)), asked.max_tokens or self.budget)
            seed = turn_seed(self.seed, len(self.turns))
            turn.tokens, turn.log_probs = await self.writer.write(self.place, context, most, seed)
            cut = self.rendering.cut_at(turn.tokens, asked.stop)
            if cut is not None:  # up to there it is a sample all the same
                turn.tokens, turn.log_probs = turn.tokens[:cut], turn.log_probs and turn.log_probs[:cut]
            text, calls = await self.rendering.read_turn(context, turn.tokens, asked)
            made = {"tool_calls": [parsed(call) for call in calls]} if calls else {}
            turn.messages.append({"role": "assistant", "content": text, **made})
            written = text if isinstance(said, str) else turn.tokens
            turn.said = said + (written if asked.prompt else [_text_of(turn.messages[-1])])
            self.turns.append(turn)
            has_ended = cut is not None or turn.tokens[-1:] and turn.tokens[-1] in self.rendering.words.ends
            end = "tool_calls" if calls else "stop" if has_ended else "length"
            return Answer(text, calls, end, len(context), len(turn.tokens))

    def _place(self, asked: Asked, said: Any) -> Turn:
        """Return the turn that is to be written for a request, still empty; `said`: as a turn has it."""
        before = said if asked.prompt else said[:-1]
        followed = [turn for turn in reversed(self.turns) if before[: len(turn.said)] == turn.said]
        joined = [turn for turn in followed if turn.tools == asked.tools]
        if joined:
            last = max(joined, key=lambda turn: len(turn.said))
            known = len(last.said)
            try:
                dropped, added = self.rendering.go_on(asked, known, last.context(), last.tokens)
                return Turn(last, added, dropped, asked.messages[known:], asked.tools)
            except CannotRender as error:
                self._set_apart("template", str(error))
        elif followed:
            self._set_apart("tools", "it comes with other tools")
        elif self.turns:
            why = "it goes back to before an answer"
            same = [one == other for one, other in zip(said, self.turns[-1].said, strict=False)]
            if False in same:
                place = same.index(False)
                what = f"message {place} ({asked.messages[place]['role']})" if asked.messages else "prompt"
                why = f"its {what} is not what went before"
            self._set_apart("history", why)
        return Turn(None, self.rendering.begin(asked), 0, list(asked.messages), asked.tools)

    def _set_apart(self, reason: str, why: str) -> None:
        self.counts[f"apart/{reason}"] += 1
        text = f"a request was not joined to those before: {why}; a session's last chain is trained"
        self.rendering.words.say("apart", f"{text} (agent/apart/*, agent/untrained_tokens)")

    def _room(self, turn: Turn, length: int) -> int:
        """Return how many tokens a turn may have that follows so many.

        Raises:
            Refusal: none: a limit is reached.
        """
        prompt = len(turn.chain()[0].added)
        behind, text = length - prompt, ""
        spent, code = "budget_spent", "context_length_exceeded"
        if len(self.turns) >= self.most_turns:
            spent, code = "turns_spent", "turn_limit_exceeded"
            text = f"the session has had its {self.most_turns} turns; {MULTI_TURN}.max_assistant_turns limits them"
        elif prompt > self.longest_prompt:
            text = f"the prompt has {prompt} tokens, and data.max_prompt_length is {self.longest_prompt}"
        elif behind >= self.budget:
            text = f"behind the prompt are {behind} tokens, and data.max_response_length is {self.budget}"
        if text:
            self.spent = spent
            raise Refusal(text, code, "messages")
        return min(self.budget - behind, self.longest_turn)


def _text_of(message: Message) -> str:
    """Return what tells a message from others. The names of calls are nothing that the model wrote."""
    calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls") or ()]
    name = message.get("name") if message["role"] in ("system", "user") else None
    return json.dumps([message["role"], message["content"], calls, name], sort_keys=True)
