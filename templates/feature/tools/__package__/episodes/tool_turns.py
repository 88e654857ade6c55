# vextract:template - edit freely
"""How upstream's agent loop joins turns with tools for this tokenizer, tried before a model is loaded."""

from collections.abc import Callable
from typing import Any

from ..errors import ConfigError
from .turn_builders import builders, follow

ASKED = [{"role": "user", "content": "?"}]
SAID = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"type": "function", "id": "call0", "function": {"name": "look", "arguments": {"at": "it"}}}],
}
ANSWER = {"role": "tool", "content": "!", "tool_call_id": "call0"}


def joined_by(config: Any, tokenizer: Any) -> dict[str, Any]:
    """Find what upstream's loop needs to join turns: by the builder of the model's family, or else the generic one.

    Args:
        config: the whole config.
        tokenizer: of the policy.

    Returns:
        Arguments of upstream's loop.

    Raises:
        ConfigError: the chat template cannot render a tool's message.
    """

    def check(builder: Any) -> None:
        tokens = builder.build_initial_tokens(ASKED)
        if len(follow(builder)([*ASKED, SAID], [*ASKED, SAID, ANSWER], tokens).token_ids) <= len(tokens):
            raise ValueError("it leaves out what a tool says")

    return first_builder(config, tokenizer, check)[1]


def first_builder(config: Any, tokenizer: Any, check: Callable[[Any], Any] = bool) -> tuple[Any, dict[str, Any]]:
    """Return the first builder that can be made and that a check does not raise at, and upstream's arguments for it.

    Raises:
        ConfigError: there is none.
    """
    errors: list[Exception] = []
    for make, arguments in builders(config, tokenizer):
        try:
            builder = make()
            check(builder)
        except Exception as error:  # of any class: a template raises what it likes, and a family asks for its tokens
            errors.append(error)
        else:
            return builder, arguments
    raise ConfigError(
        f"the tokenizer's chat template cannot join turns with tools: {errors[0]}",
        "set actor_rollout_ref.model.custom_chat_template to a template that shows messages of the role tool",
    )
