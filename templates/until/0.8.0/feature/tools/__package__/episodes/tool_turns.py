# vextract:template - edit freely
"""How upstream's agent loop joins turns with tools for this tokenizer, tried before a model is loaded."""

from typing import Any

from ..errors import ConfigError
from ..vendored.experimental.agent_loop.agent_loop import DictConfigWrap


def joined_by(config: Any, tokenizer: Any) -> dict[str, Any]:
    """Find what upstream's loop needs to join turns: it renders a tool's message by itself.

    Args:
        config: the whole config.
        tokenizer: of the policy.

    Returns:
        Arguments of upstream's loop.

    Raises:
        ConfigError: the chat template cannot render a tool's message.
    """
    template = dict(config.data.get("apply_chat_template_kwargs") or {})
    answer = {"role": "tool", "content": "!", "tool_call_id": "call0"}
    try:
        tokenizer.apply_chat_template([answer], add_generation_prompt=True, tokenize=False, **template)
    except Exception as error:  # of any class: a template raises what it likes
        raise ConfigError(
            f"the tokenizer's chat template cannot render what a tool says by itself: {error}",
            "set actor_rollout_ref.model.custom_chat_template to a template that can, or upgrade to verl 0.9.1",
        ) from error
    return {"data_config": DictConfigWrap(config.data)}
