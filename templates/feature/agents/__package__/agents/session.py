# vextract:template - edit freely
"""One session of an agent program with the policy: what it asks is written by the rollout engine, within its limits.

Turns make a tree: a request that goes on where one ended is joined to it, token for token; some clients put words of
their own behind the model's. One that follows none begins a chain, and it is counted why. The chain of the last turn is
trained. What the model has written stays as it was sampled. A user's message follows it as an environment's does, a
tool's as upstream's builder of turns has it.
"""

import asyncio
import copy
import json
import logging
import secrets
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any, NamedTuple

from ..episodes.episode import Episode
from ..episodes.loop import turn_seed
from ..episodes.observations import Observations
from ..episodes.tool_turns import first_builder
from ..episodes.tools import MULTI_TURN, check_format
from ..episodes.turn_builders import follow
from ..episodes.turns import Writer
from ..episodes.words import text_of_turn
from ..errors import ConfigError
from ..training.model_words import ModelWords
from ..vendored.experimental.agent_loop import tool_parser
from ..vendored.tools.schemas import OpenAIFunctionToolSchema
from .endpoint import ENDED, Answer, Asked, Message, Refusal, Tool, parsed

TEMPLATE = "actor_rollout_ref.model.custom_chat_template"


def _unsupported(text: str) -> Refusal:
    """Return the refusal of what the chat template cannot do."""
    return Refusal(f"{text}; set {TEMPLATE} to one that does", "unsupported_template", "messages")


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
            Refusal: the template raised, or has no place for tools.
        """
        if asked.prompt:
            return list(self.tokenizer.encode(asked.prompt, add_special_tokens=False))
        build, messages = self.builder.build_initial_tokens, list(asked.messages)
        try:
            tokens = list(build(messages, tools=asked.tools or None))
            if asked.tools and tokens == list(build(messages)):
                raise ValueError("it has no place for tools")
        except Exception as error:  # of any class: a template raises what it likes
            raise _unsupported(f"the chat template cannot render these messages: {error}") from error
        return tokens

    def go_on(self, asked: Asked, known: int, episode: Episode, rest: str) -> tuple[int, list[int]]:
        """Return what follows a turn: how many of its tokens make room, and the tokens of what is asked after it.

        Args:
            asked: the request; the first `known` of its messages, or letters, are in the episode.
            episode: up to the end of the turn.
            rest: what the request has put behind the model's words in the same message.

        Raises:
            Refusal: the template cannot put these messages after a turn.
        """
        if asked.prompt:
            return 0, self.tokenizer.encode(asked.prompt[known:], add_special_tokens=False)
        context, turn = episode.prompt + episode.tokens, episode.tokens[episode.turn_starts[-1] :]
        before, later = asked.messages[:known], asked.messages[known:]
        more = self.tokenizer.encode(rest, add_special_tokens=False)
        ends = int(bool(rest and turn) and turn[-1] in self.words.ends)  # that it has ended is no longer true
        said, own = context[: len(context) - ends] + more, turn[: len(turn) - ends] + more
        try:
            if any(message["role"] == "tool" for message in later):
                whole = follow(self.builder)(before, list(asked.messages), said, tools=asked.tools or None).token_ids
            else:
                room = int(self.observations.takes_back(own, later))
                whole = said[: len(said) - room] + self.observations.follow(own, later)
        except Exception as error:  # of any class: a template raises what it likes
            raise _unsupported(f"the chat template cannot go on after a turn: {error}") from error
        kept = len(commonprefix([list(whole), context]))
        if len(context) - kept > len(turn):
            raise _unsupported("the chat template changes what came before the turn")
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

    def cut_at(self, turn: list[int], stops: list[str]) -> int | None:
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
    said: Any = ""  # all up to here: the tools, and what tells each message; or the text of a completion and its prompt
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
            raise Refusal(ENDED, "invalid_api_key", status=401) from None
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
                raise Refusal(ENDED, "invalid_api_key", status=401)
            if asked.ignored:
                names = ", ".join(asked.ignored)
                text = f"programs ask with {names}, which the policy does not follow: it writes as it is trained"
                self.rendering.words.say("ignored", text)
            said: Any = asked.prompt or [asked.tools, *map(Told.of, asked.messages)]
            turn = self._place(asked, said)
            episode, context = turn.episode, turn.episode.prompt + turn.episode.tokens
            most = min(self._room(episode), asked.max_tokens or self.budget)
            seed = turn_seed(self.seed, len(self.turns))
            tokens, log_probs = await self.writer.write(self.place, context, most, seed)
            cut = self.rendering.cut_at(tokens, asked.stop)  # up to there it is a sample all the same
            tokens, log_probs = tokens[:cut], log_probs and log_probs[:cut]
            turn.written = text_of_turn(self.rendering.words, context, tokens)
            text, calls = await self.rendering.read_turn(tokens, turn.written, asked)
            episode.add_turn(tokens, log_probs, text)
            if calls:
                episode.messages[-1]["tool_calls"] = [parsed(call) for call in calls]
            turn.said = said + (text if asked.prompt else [Told.of(episode.messages[-1])])
            self.turns.append(turn)
            self.counts.update(turns=1, written=len(tokens))
            has_ended = cut is not None or tokens[-1:] and tokens[-1] in self.rendering.words.ends
            end = "tool_calls" if calls else "stop" if has_ended else "length"
            return Answer(text, calls, end, len(context), len(tokens))

    def _place(self, asked: Asked, said: Any) -> Turn:
        """Return the turn that is to be written for a request, still empty; `said`: as a turn has it."""
        before = said if asked.prompt else said[:-1]
        joined = [turn for turn in reversed(self.turns) if turn.followed_by(before) is not None]
        if joined:
            last = max(joined, key=lambda turn: len(turn.said))
            known, rest = len(last.said) - (not asked.prompt), last.followed_by(before) or ""
            episode = Episode(**{name: copy.copy(value) for name, value in vars(last.episode).items()})
            try:
                dropped, added = self.rendering.go_on(asked, known, episode, rest)
            except Refusal as error:
                self._set_apart("template", error.message)
            else:
                for _ in range(dropped):
                    episode.take_back()
                more = [{"role": "assistant", "content": rest}] if rest else []
                episode.add_answer(added, more + asked.messages[known:])
                return Turn(episode, last.prompt)
        elif self.turns:
            pairs = enumerate(zip(said, self.turns[-1].said, strict=False))
            place = next((place for place, (one, other) in pairs if one != other), None)
            if place is None:
                self._set_apart("history", "it goes back to before an answer")
            elif place == 0 and asked.messages:
                self._set_apart("tools", "it comes with other tools")
            else:
                what = f"message {place - 1} ({said[place].role})" if asked.messages else "prompt"
                self._set_apart("history", f"its {what} is not what went before")
        return Turn(Episode(self.rendering.begin(asked)), asked.messages)

    def _set_apart(self, reason: str, why: str) -> None:
        self.counts[f"apart/{reason}"] += 1
        text = f"a request was not joined to those before: {why}; a session's last chain is trained"
        self.rendering.words.say("apart", f"{text} (agent/apart/*, agent/untrained_tokens)")

    def _room(self, episode: Episode) -> int:
        """Return how many tokens the next turn may have.

        Raises:
            Refusal: none: a limit is reached.
        """
        prompt, behind = len(episode.prompt), len(episode.tokens)
        if len(self.turns) >= self.most_turns:
            self.spent, code = "turns_spent", "turn_limit_exceeded"
            text = f"the session has had its {self.most_turns} turns; {MULTI_TURN}.max_assistant_turns limits them"
        elif prompt > self.longest_prompt or behind >= self.budget:
            self.spent, code = "budget_spent", "context_length_exceeded"
            text = f"the prompt has {prompt} tokens (data.max_prompt_length is {self.longest_prompt}), and {behind} are"
            text += f" behind it (data.max_response_length is {self.budget})"
        else:
            return min(self.budget - behind, self.longest_turn)
        raise Refusal(text, code, "messages")
