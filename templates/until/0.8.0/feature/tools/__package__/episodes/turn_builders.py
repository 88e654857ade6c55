# vextract:template - edit freely
"""How this release of verl joins turns, which has no continuous-token builder: it renders messages by themselves."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from ..vendored.experimental.agent_loop.agent_loop import DictConfigWrap


def builders(config: Any, tokenizer: Any) -> Iterator[tuple[Callable[[], Any], dict[str, Any]]]:
    """Yield what makes each builder that may fit, and the arguments by which upstream's loop makes it."""
    template = dict(config.data.get("apply_chat_template_kwargs") or {})
    yield partial(_ByThemselves, tokenizer, template), {"data_config": DictConfigWrap(config.data)}


def follow(builder: Any) -> Any:
    """Return the method that appends messages to tokens."""
    return builder.append


class _ByThemselves:
    """Renders messages as upstream's loop does: a tool's without those before it."""

    def __init__(self, tokenizer: Any, template: dict[str, Any]) -> None:
        self.tokenizer, self.template = tokenizer, template

    def build_initial_tokens(self, messages: Sequence[Any]) -> list[int]:
        return self._tokens(messages)

    def append(self, before: Sequence[Any], after: Sequence[Any], tokens: list[int]) -> SimpleNamespace:
        return SimpleNamespace(token_ids=[*tokens, *self._tokens(after[len(before) :])])

    def _tokens(self, messages: Sequence[Any]) -> list[int]:
        text = self.tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=False, **self.template
        )
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return tokens
