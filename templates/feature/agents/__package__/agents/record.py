# vextract:template - edit freely
"""What was said in a session, as tokens: a request that goes on exactly where another one ended is joined to it.

Turns make a tree. A request that goes on after an earlier turn than the last, as a program's second try does, branches
off there; one that follows none begins a chain. Of a session, the chain of the last turn is trained.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .rendering import CannotRender, Message, Rendering


@dataclass(eq=False)
class Turn:
    """A turn of the model, and what was put in front of it.

    Attributes:
        before: the turn that it goes on from; None: it begins a chain.
        added: the tokens in front: of the prompt, or of the messages since.
        dropped: how many of the last tokens of `before` make room for them.
        tokens, log_probs: what the model wrote, as it was sampled.
        said: the messages since `before`, and the model's.
        text: of a prompt that is text: it, and what the model wrote after it.
    """

    before: "Turn | None"
    added: list[int]
    dropped: int = 0
    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] | None = None
    said: list[Message] = field(default_factory=list)
    text: str | None = None

    def chain(self) -> "list[Turn]":
        """Return the turns from the first to this one."""
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


class Record:
    """The turns of one session.

    Args:
        rendering: turns messages into tokens.

    Attributes:
        turns: in the order in which they were asked for.
        apart: how often a request could not be joined to what went before, by the reason.
        why: the last of these reasons, in words.
    """

    def __init__(self, rendering: Rendering) -> None:
        self.rendering = rendering
        self.turns: list[Turn] = []
        self.apart: Counter[str] = Counter()
        self.why = ""
        self._known: dict[str, Turn] = {}
        self._asked: set[str] = set()
        self._last: tuple[str, list[str]] = ("", [])

    def place(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> tuple[Turn, list[int]]:
        """Return the turn that is to be written for a request, empty, and the tokens that it follows.

        Raises:
            CannotRender: the template cannot render the messages.
        """
        said = [_canonical(message) for message in messages]
        schemas = json.dumps(list(tools), sort_keys=True, default=str)
        digests = list(_digests(schemas, said))
        for known in range(len(messages) - 1, 0, -1):
            before = self._known.get(digests[known])
            if before is None:
                continue
            context = before.context()
            try:
                dropped, added = self.rendering.go_on(messages, known, tools, context, before.tokens)
            except CannotRender as error:
                self._set_apart("template", str(error))
            else:
                turn = Turn(before, added, dropped, said=[dict(message) for message in messages[known:]])
                return turn, context[: len(context) - dropped] + added
            break
        else:
            self._explain(schemas, said, digests[-1])
        added = self.rendering.begin(messages, tools)
        self._asked.add(digests[-1])
        return Turn(None, added, said=[dict(message) for message in messages]), added

    def place_text(self, prompt: str | list[int]) -> tuple[Turn, list[int]]:
        """Return the turn that is to be written after a prompt of text or of tokens, and the tokens that it follows."""
        for before in reversed(self.turns):
            context = before.context()
            if isinstance(prompt, str):
                if before.text is not None and prompt.startswith(before.text):
                    added = self.rendering.tokens_of(prompt[len(before.text) :])
                    return Turn(before, added, text=prompt), context + added
            elif len(prompt) > len(context) and prompt[: len(context)] == context:
                return Turn(before, prompt[len(context) :]), prompt
        if self.turns:
            self._set_apart("history", "the prompt does not begin with an earlier one and what was written after it")
        is_text = isinstance(prompt, str)
        added = self.rendering.tokens_of(prompt) if is_text else list(prompt)  # type: ignore[arg-type]
        return Turn(None, added, text=prompt if is_text else None), added  # type: ignore[arg-type]

    def keep(self, turn: Turn, messages: Sequence[Message] = (), tools: Sequence[Mapping[str, Any]] = ()) -> None:
        """Keep a turn that was written; `messages`: the conversation, the model's own message at the end."""
        self.turns.append(turn)
        if messages:
            said = [_canonical(message) for message in messages]
            schemas = json.dumps(list(tools), sort_keys=True, default=str)
            *_, whole = _digests(schemas, said)
            self._known[whole] = turn
            self._last = schemas, said

    def _explain(self, schemas: str, said: list[str], digest: str) -> None:
        """Note why a request goes on from no turn."""
        if not self.turns:
            return
        known_schemas, known = self._last
        if digest in self._asked:
            self._set_apart("repeated", "it is an earlier request once more")
        elif known and schemas != known_schemas and said[: len(known)] == known:
            self._set_apart("tools", "it comes with other tools")
        else:
            pairs = enumerate(zip(said, known, strict=False))
            place = next((n for n, (one, other) in pairs if one != other), min(len(said), len(known)))
            role = json.loads(said[min(place, len(said) - 1)])[0]
            self._set_apart("history", f"its message {place} ({role}) is not the one that went before")

    def _set_apart(self, reason: str, text: str) -> None:
        self.apart[reason] += 1
        self.why = text


def _canonical(message: Message) -> str:
    """Return what tells a message from another: role, text, calls; names of calls are not what the model wrote."""
    calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls") or ()]
    name = message.get("name") if message["role"] not in ("assistant", "tool") else None
    return json.dumps([message["role"], message["content"], calls, name], sort_keys=True)


def _digests(schemas: str, said: Sequence[str]) -> Iterator[str]:
    """Yield what tells a conversation from another, after none, one, two... of its messages."""
    digest = hashlib.blake2b(schemas.encode())
    yield digest.hexdigest()
    for message in said:
        digest.update(f"{len(message)}:{message}".encode())
        yield digest.hexdigest()
