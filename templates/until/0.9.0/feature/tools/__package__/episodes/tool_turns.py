# vextract:template - edit freely
"""How upstream's agent loop joins turns with tools for this tokenizer, tried before a model is loaded."""

from typing import Any

from omegaconf import OmegaConf

from ..errors import ConfigError
from ..vendored.experimental.agent_loop.agent_loop import DictConfigWrap
from ..vendored.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder

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
    path, template = config.actor_rollout_ref.model.path, dict(config.data.get("apply_chat_template_kwargs") or {})
    errors: list[Exception] = []
    for family in ("auto", "default"):
        try:
            _try_turns(
                create_continuous_token_builder(
                    tokenizer, model_family=family, model_path=path, chat_template_kwargs=template
                )
            )
        except Exception as error:  # of any class: a template raises what it likes
            errors.append(error)
        else:
            turns = {"enable": True, "model_family": family}
            read = OmegaConf.create({"apply_chat_template_kwargs": template, "continuous_token": turns})
            return {"data_config": DictConfigWrap(read)}
    raise ConfigError(
        f"the tokenizer's chat template cannot join turns with tools: {errors[0]}",
        "set actor_rollout_ref.model.custom_chat_template to a template that shows messages of the role tool",
    )


def _try_turns(builder: Any) -> None:
    """Join a turn with a call and what the tool answers, as a rollout does."""
    tokens = builder.build_initial_tokens(ASKED)
    if len(builder.merge_non_assistant_tokens([*ASKED, SAID], [*ASKED, SAID, ANSWER], tokens).token_ids) <= len(tokens):
        raise ValueError("it leaves out what a tool says")
