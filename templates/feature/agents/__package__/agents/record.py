# vextract:template - edit freely
"""What was said in a session, as tokens: a request that goes on exactly where a turn ended is joined to it.

Turns make a tree: a request may go on after any of them. One that follows none begins a chain, and it is counted why.
Of a session, the chain of the last turn is trained.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .rendering import CannotRender, Message, Rendering, Tool


@dataclass(eq=False)
class Turn:
    """A turn of the model, and what was put in front of it.

    Attributes:
        before: the turn that it goes on from; None: it begins a chain.
        added: the tokens in front: of the prompt, or of the messages since.
        dropped: how many of the last tokens of `before` make room for them.
        said: the messages since `before`, and the model's.
        text: of a prompt that is text: it, and what the model wrote after it.
        tokens, log_probs: what the model wrote, as it was sampled.
    """

    before: "Turn | None"
    added: list[int]
    dropped: int = 0
    said: list[Message] = field(default_factory=list)
    text: str | None = None
    tokens: list[int] = field(default_factory=list)
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


class Record:
    """The turns of one session.

    Attributes:
        turns: in the order in which they were asked for.
        apart: how often a request followed no turn, by the reason: history, tools, template.
        why: the first of these reasons, in words.
    """

    def __init__(self, rendering: Rendering) -> None:
        self.rendering = rendering
        self.turns: list[Turn] = []
        self.apart: Counter[str] = Counter()
        self.why = ""
        self._known: dict[str, Turn] = {}
        self._last: list[str] = []

    def place(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Turn:
        """Return the turn that is to be written for a request, still empty.

        Raises:
            CannotRender: the template cannot render the messages.
        """
        schemas, said = _canonical(messages, tools)
        digests = list(_digests(schemas, said))
        for known in range(len(messages) - 1, 0, -1):
            if before := self._known.get(digests[known]):
                try:
                    dropped, added = self.rendering.go_on(messages, known, tools, before.context(), before.tokens)
                except CannotRender as error:
                    self._set_apart("template", str(error))
                    break
                return Turn(before, added, dropped, [dict(message) for message in messages[known:]])
        else:
            self._explain(said)
        return Turn(None, self.rendering.begin(messages, tools), said=[dict(message) for message in messages])

    def place_text(self, prompt: str | list[int]) -> Turn:
        """Return the turn that is to be written after a prompt of text or of tokens, still empty."""
        for before in reversed(self.turns):
            context = before.context()
            if isinstance(prompt, str) and before.text is not None and prompt.startswith(before.text):
                return Turn(before, self.rendering.tokens_of(prompt[len(before.text) :]), text=prompt)
            if not isinstance(prompt, str) and prompt[: len(context)] == context:
                return Turn(before, prompt[len(context) :])
        if self.turns:
            self._set_apart("history", "the prompt does not begin with an earlier one and what was written after it")
        if isinstance(prompt, str):
            return Turn(None, self.rendering.tokens_of(prompt), text=prompt)
        return Turn(None, prompt)

    def keep(self, turn: Turn, messages: Sequence[Message] = (), tools: Sequence[Tool] = ()) -> None:
        """Keep a turn that was written; `messages`: the conversation, the model's own message at its end."""
        self.turns.append(turn)
        if messages:
            schemas, self._last = _canonical(messages, tools)
            for tools_told_apart in (schemas, ""):
                *_, whole = _digests(tools_told_apart, self._last)
                self._known[whole] = turn

    def _explain(self, said: list[str]) -> None:
        """Note why a request follows no turn, compared with the last one."""
        same = [one == other for one, other in zip(said, self._last, strict=False)]
        if any(digest in self._known for digest in list(_digests("", said))[1:-1]):
            self._set_apart("tools", "it comes with other tools")
        elif False in same:
            place = same.index(False)
            self._set_apart("history", f"its message {place} ({json.loads(said[place])[0]}) is not what went before")
        elif self.turns:
            self._set_apart("history", "it goes back to before an answer")

    def _set_apart(self, reason: str, text: str) -> None:
        self.apart[reason] += 1
        self.why = self.why or text


def _canonical(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[str, list[str]]:
    """Return what tells tools, and each message, from others. The names of calls are nothing that the model wrote."""
    said = []
    for message in messages:
        calls = [[call["function"]["name"], call["function"]["arguments"]] for call in message.get("tool_calls") or ()]
        name = message.get("name") if message["role"] in ("system", "user") else None
        said.append(json.dumps([message["role"], message["content"], calls, name], sort_keys=True))
    return json.dumps(list(tools), sort_keys=True), said


def _digests(schemas: str, said: Sequence[str]) -> Iterator[str]:
    """Yield what tells a conversation from another, after none, one, two... of its messages."""
    digest = hashlib.blake2b(schemas.encode())
    yield digest.hexdigest()
    for message in said:
        digest.update(f"{len(message)}:{message}".encode())
        yield digest.hexdigest()
