# vextract:template - edit freely
"""What an environment says, as tokens that go on after the tokens that the model has sampled.

The model's own tokens are never decoded and tokenised again: that may give other tokens than the sampled ones, and
their probabilities would be those of a text that the model did not write. So only what comes after a turn is rendered:
its end, the next message and the start of the model's next turn.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..data.steps import Observation
from ..errors import ConfigError
from ..workers.rollout_interface import after_turn, end_tokens, ending_of


class Observations:
    """Turns observations into tokens, by the tokenizer's chat template or as plain text.

    Args:
        tokenizer: of the policy.
        form: chat (the template renders the observation as the next message), text (it follows as it is), or auto:
            chat if the tokenizer has a template.
        template_kwargs: further arguments for the chat template: `data.apply_chat_template_kwargs`.
        ends: the tokens that end a turn of the model; None: those that the tokenizer names.

    Raises:
        ConfigError: chat is asked for, and there is no template, or one that does not show what the model says.
    """

    def __init__(
        self,
        tokenizer: Any,
        form: str = "auto",
        template_kwargs: Mapping[str, Any] | None = None,
        ends: Collection[int] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.template_kwargs = dict(template_kwargs or {})
        self.ends = end_tokens(tokenizer, None, self.template_kwargs) if ends is None else ends
        self.chat = bool(tokenizer.chat_template) if form == "auto" else form == "chat"
        self._following_text = lru_cache(maxsize=4096)(self._following_text)  # type: ignore[method-assign]
        # What the template puts between a turn and the next message, if it has that of its own: a special token.
        self.ending: int | None = None
        if self.chat:
            if not tokenizer.chat_template:
                raise ConfigError(
                    "local.env.observations is chat, and the tokenizer has no chat template",
                    "local.env.observations=text, or set actor_rollout_ref.model.custom_chat_template",
                )
            if ending_of(tokenizer, self._after_turn([], generation_prompt=False))[1]:
                self.ending = ending_of(tokenizer, self._following_text("?"))[0]

    def follow(self, turn: Sequence[int], observation: Observation) -> list[int]:
        """Return the tokens that go between a turn of the model and its next one.

        Args:
            turn: the sampled tokens of the turn. If it has ended, what ends it is not added again; if it was cut short,
                it is.
            observation: text, which becomes a message of the user, or a list of messages ({"role", "content"}).

        Raises:
            ValueError: the observation is a list of messages, and there is no chat template.
        """
        if isinstance(observation, str):
            tokens = self._following_text(observation)
        elif self.chat:
            tokens = self._after_turn(list(observation), generation_prompt=True)
        else:
            raise ValueError("an observation in messages needs a chat template; without one it has to be text")
        return list(tokens[self._said(turn, tokens) :])

    def takes_back(self, turn: Sequence[int], observation: Observation) -> bool:
        """Tell whether the token that ended a turn has to make room for the observation.

        GLM ends a turn by the token that begins the next message, and may have expected a message of another role.
        """
        if not self.chat or self.ending is not None or not turn or turn[-1] == self.tokenizer.eos_token_id:
            return False
        first = self.follow([], observation)[:1]
        return turn[-1] in self.ends and first != [turn[-1]] and first[0] in self.ends

    def _said(self, turn: Sequence[int], tokens: Sequence[int]) -> int:
        """Return how many of the tokens that follow a turn say what the turn has said itself: that it has ended."""
        if not self.chat or not turn or turn[-1] not in {*self.ends, self.ending}:
            return 0
        end, length = ending_of(self.tokenizer, tokens)
        if end == turn[-1]:
            return tokens.index(end) + 1
        # A turn that has ended otherwise, as at the end of a text, is not ended twice.
        return length if end == self.ending else 0

    def _following_text(self, observation: str) -> tuple[int, ...]:
        if not self.chat:
            return self._tokens(observation)
        return self._after_turn([{"role": "user", "content": observation}], generation_prompt=True)

    def _after_turn(self, messages: list[Any], generation_prompt: bool) -> tuple[int, ...]:
        """Return what the template puts after a turn of the model that these messages follow."""
        after = after_turn(self.tokenizer, messages, self.template_kwargs, generation_prompt=generation_prompt)
        if after is None:
            raise ConfigError(
                "the chat template leaves out what the model has said, so an episode cannot be rendered turn by turn",
                "set actor_rollout_ref.model.custom_chat_template, or local.env.observations=text",
            )
        return self._tokens(after)

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
