# vextract:template - edit freely
"""The continuous-token builders of this release of verl."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from omegaconf import OmegaConf

from ..vendored.experimental.agent_loop.agent_loop import DictConfigWrap
from ..vendored.utils.tokenizer.continuous_token_wiring import create_continuous_token_builder


def builders(config: Any, tokenizer: Any) -> Iterator[tuple[Callable[[], Any], dict[str, Any]]]:
    """Yield what makes each builder that may fit, and the arguments by which upstream's loop makes it."""
    path, template = config.actor_rollout_ref.model.path, dict(config.data.get("apply_chat_template_kwargs") or {})
    for family in ("auto", "default"):
        make = partial(
            create_continuous_token_builder,
            tokenizer,
            model_family=family,
            model_path=path,
            chat_template_kwargs=template,
        )
        turns = {"enable": True, "model_family": family}
        read = OmegaConf.create({"apply_chat_template_kwargs": template, "continuous_token": turns})
        yield make, {"data_config": DictConfigWrap(read)}


def follow(builder: Any) -> Any:
    """Return the method that appends messages to tokens."""
    return builder.merge_non_assistant_tokens
