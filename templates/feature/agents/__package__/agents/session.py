# vextract:template - edit freely
"""One session of an agent program with the policy: what it asks is written by the rollout engine, within its limits.

Turns make a tree: a request that goes on where one ended is joined to it, token for token; some clients put words of
their own behind the model's. One that follows none begins a chain, and it is counted why. The chain of the last turn is
trained.
"""

import asyncio
import copy
import json
import secrets
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..episodes.episode import Episode
from ..episodes.loop import turn_seed
from ..episodes.tools import MULTI_TURN
from ..episodes.turns import Writer
from ..episodes.words import text_of_turn
from .dialects import Answer, Asked, Message, Refusal, Tool, ended, parsed
from .rendering import CannotRender, Rendering


class Told(NamedTuple):
    """What tells a message from others. Clients strip what the model writes, and may name its calls otherwise."""

    role: str
    calls: str
    name: str | None
    text: str

    @classmethod
    def of(cls, message: Message) -> "Told":
        """Return it of a message."""
        calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls") or ()]
        name = message.get("name") if message["role"] in ("system", "user") else None
        text = message["content"].strip() if message["role"] == "assistant" else message["content"]
        return cls(message["role"], json.dumps(calls, sort_keys=True), name, text)


@dataclass
class Turn:
    """A conversation up to the end of a turn of the model: requests that go on from there begin with a copy."""

    episode: Episode  # its tokens
    prompt: list[Message]  # those of the request that began it
    tools: list[Tool]  # that the model could call
    said: Any = ""  # all up to here: what tells each message; or text, or tokens, of a completion and its prompt
    written: str = ""  # by the model, with the text that has stopped it

    def followed_by(self, said: Any) -> str | None:
        """Return what is put behind the model's words in what goes on from this turn, mostly ""; None: it does not."""
        last = len(self.said) - 1
        if said[: last + 1] == self.said:
            return ""
        if not isinstance(self.said[-1], Told) or not said[last:] or said[:last] != self.said[:last]:
            return None
        own, given = self.said[last], said[last].text
        begins = [each for each in (self.written, self.written.strip(), own.text) if each and given.startswith(each)]
        is_same = own.calls == "[]" and own._replace(text=given) == said[last]
        return given[len(begins[0]) :] if begins and is_same else None


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
        self.turns: list[Turn] = []  # in the order in which they were asked for
        self.episode = Episode([])  # that of the last turn, which is trained
        self.counts: Counter[str] = Counter()  # of requests, those refused, those apart, and of what came of it
        self.seconds = 0.0  # that the program was at work by itself, once it has ended
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
        self._closed, self.seconds = True, self.own_seconds()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def _answer(self, asked: Asked) -> Answer:
        async with self._one_at_a_time:
            if self._closed:
                raise ended()
            if asked.ignored:
                names = ", ".join(asked.ignored)
                text = f"programs ask with {names}, which the policy does not follow: it writes as it is trained"
                self.rendering.words.say("ignored", text)
            said: Any = asked.prompt or [Told.of(message) for message in asked.messages]
            turn = self._place(asked, said)
            episode, context = turn.episode, turn.episode.prompt + turn.episode.tokens
            most = min(self._room(episode), asked.max_tokens or self.budget)
            tokens, log_probs = await self.writer.write(
                self.place, context, most, turn_seed(self.seed, len(self.turns))
            )
            cut = self.rendering.cut_at(tokens, asked.stop)  # up to there it is a sample all the same
            tokens, log_probs = tokens[:cut], log_probs and log_probs[:cut]
            turn.written = text_of_turn(self.rendering.words, context, tokens)
            text, calls = await self.rendering.read_turn(tokens, turn.written, asked)
            episode.add_turn(tokens, log_probs, text)
            if calls:
                episode.messages[-1]["tool_calls"] = [parsed(call) for call in calls]
            written = text if isinstance(said, str) else tokens
            turn.said = said + (written if asked.prompt else [Told.of(episode.messages[-1])])
            self.turns.append(turn)
            self.counts.update(turns=1, written=len(tokens))
            has_ended = cut is not None or tokens[-1:] and tokens[-1] in self.rendering.words.ends
            end = "tool_calls" if calls else "stop" if has_ended else "length"
            return Answer(text, calls, end, len(context), len(tokens))

    def _place(self, asked: Asked, said: Any) -> Turn:
        """Return the turn that is to be written for a request, still empty; `said`: as a turn has it."""
        before = said if asked.prompt else said[:-1]
        followed = [turn for turn in reversed(self.turns) if turn.followed_by(before) is not None]
        joined = [turn for turn in followed if turn.tools == asked.tools]
        if joined:
            last = max(joined, key=lambda turn: len(turn.said))
            known, rest = len(last.said), last.followed_by(before) or ""
            episode = Episode(**{name: copy.copy(value) for name, value in vars(last.episode).items()})
            try:
                dropped, added = self.rendering.go_on(asked, known, episode, rest)
            except CannotRender as error:
                self._set_apart("template", str(error))
            else:
                for _ in range(dropped):
                    episode.take_back()
                more = [{"role": "assistant", "content": rest}] if rest else []
                episode.add_answer(added, more + asked.messages[known:])
                return Turn(episode, last.prompt, asked.tools)
        elif followed:
            self._set_apart("tools", "it comes with other tools")
        elif self.turns:
            pairs = enumerate(zip(said, self.turns[-1].said, strict=False))
            place = next((place for place, (one, other) in pairs if one != other), None)
            what = "prompt" if asked.prompt or place is None else f"message {place} ({asked.messages[place]['role']})"
            changed = f"its {what} is not what went before"
            self._set_apart("history", "it goes back to before an answer" if place is None else changed)
        return Turn(Episode(self.rendering.begin(asked)), asked.messages, asked.tools)

    def _set_apart(self, reason: str, why: str) -> None:
        self.counts[f"apart/{reason}"] += 1
        text = f"a request was not joined to those before: {why}; a session's last chain is trained"
        self.rendering.words.say("apart", f"{text} (agent/apart/*, agent/untrained_tokens)")

    def _room(self, episode: Episode) -> int:
        """Return how many tokens the next turn may have.

        Raises:
            Refusal: none: a limit is reached.
        """
        prompt, behind, text = len(episode.prompt), len(episode.tokens), ""
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
