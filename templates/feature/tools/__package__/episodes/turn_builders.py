# vextract:template - edit freely
"""The continuous-token builders of this release of verl."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from transformers import AutoConfig

from ..vendored.experimental.agent_loop.agent_loop import DictConfigWrap
from ..vendored.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder


def builders(config: Any, tokenizer: Any) -> Iterator[tuple[Callable[[], Any], dict[str, Any]]]:
    """Yield what makes each builder that may fit, and the arguments by which upstream's loop makes it."""
    model, template = config.actor_rollout_ref.model, dict(config.data.get("apply_chat_template_kwargs") or {})
    family = AutoConfig.from_pretrained(model.path, trust_remote_code=bool(model.trust_remote_code)).model_type
    logging.getLogger(create_continuous_token_builder.__module__).setLevel(logging.ERROR)  # it says which one it takes
    for kind in (family, None):
        make = partial(create_continuous_token_builder, tokenizer, hf_model_type=kind, chat_template_kwargs=template)
        yield make, {"hf_model_type": kind, "data_config": DictConfigWrap(config.data)}


def follow(builder: Any) -> Any:
    """Return the method that appends messages to tokens."""
    return builder.merge_context_tokens
