# vextract:template base/__package__/episodes/observations.py - edit freely
"""What an environment says, as tokens that go on after the tokens that the model has sampled.

The model's own tokens are never decoded and tokenised again: that may give other tokens than the sampled ones, and
their probabilities would be those of a text that the model did not write. So only what comes after a turn is rendered:
its end, the next message and the start of the model's next turn.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..errors import ConfigError

Observation = str | Sequence[Mapping[str, Any]]

# Stands for the model's turn where the template renders it; no template strips or changes letters.
_TURN = "XTURNX"


class Observations:
    """Turns observations into tokens, by the tokenizer's chat template or as plain text.

    Args:
        tokenizer: of the policy.
        form: chat (the template renders the observation as the next message), text (it follows as it is), or auto:
            chat if the tokenizer has a template.
        template_kwargs: further arguments for the chat template: `data.apply_chat_template_kwargs`.

    Raises:
        ConfigError: chat is asked for, and there is no template, or one that does not show what the model says.
    """

    def __init__(self, tokenizer: Any, form: str = "auto", template_kwargs: Mapping[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self.template_kwargs = dict(template_kwargs or {})
        self.chat = bool(tokenizer.chat_template) if form == "auto" else form == "chat"
        self._following_text = lru_cache(maxsize=4096)(self._following_text)  # type: ignore[method-assign]
        self.ending: tuple[int, ...] = ()
        if self.chat:
            if not tokenizer.chat_template:
                raise ConfigError(
                    "local.env.observations is chat, and the tokenizer has no chat template",
                    "local.env.observations=text, or set actor_rollout_ref.model.custom_chat_template",
                )
            self.ending = self._tokens(self._after_turn([], generation_prompt=False))

    def follow(self, turn: Sequence[int], observation: Observation) -> list[int]:
        """Return the tokens that go between a turn of the model and its next one.

        Args:
            turn: the sampled tokens of the turn. If its last one is the token that ends it, this is not added again;
                if the turn was cut short, it is.
            observation: text, which becomes a message of the user, or a list of messages ({"role", "content"}).

        Raises:
            ValueError: the observation is a list of messages, and there is no chat template.
        """
        if isinstance(observation, str):
            tokens = self._following_text(observation)
        elif self.chat:
            tokens = self._tokens(self._after_turn(list(observation), generation_prompt=True))
        else:
            raise ValueError("an observation in messages needs a chat template; without one it has to be text")
        ending = tokens[: len(self.ending)]
        start = ending.index(turn[-1]) + 1 if turn and turn[-1] in ending else 0
        return list(tokens[start:])

    def _following_text(self, observation: str) -> tuple[int, ...]:
        if not self.chat:
            return self._tokens(observation)
        return self._tokens(self._after_turn([{"role": "user", "content": observation}], generation_prompt=True))

    def _after_turn(self, messages: list[Any], generation_prompt: bool) -> str:
        """Return what the template puts after a turn of the model that these messages follow."""
        before = [{"role": "user", "content": "?"}, {"role": "assistant", "content": _TURN}]
        text: str = self.tokenizer.apply_chat_template(
            [*before, *messages], add_generation_prompt=generation_prompt, tokenize=False, **self.template_kwargs
        )
        _, found, after = text.partition(_TURN)
        if not found:
            raise ConfigError(
                "the chat template leaves out what the model has said, so an episode cannot be rendered turn by turn",
                "set actor_rollout_ref.model.custom_chat_template, or local.env.observations=text",
            )
        return after

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
