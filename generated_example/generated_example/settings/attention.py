# vextract:template base/__package__/settings/attention.py - edit freely
"""Whether the attention that a model is to compute by can be had here, before the model is read."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..output import install_command
from .setting import stands_in_code
from .suggestions import choose

KEYS = tuple(f"{model}.override_config.attn_implementation" for model in ("actor_rollout_ref.model", "critic.model"))
# Those of transformers, and the module that each comes from; "": torch or transformers itself has it.
MODULES = {
    "eager": "",
    "flash_attention_2": "flash_attn",
    "flash_attention_3": "flash_attn_interface",
    "flash_attention_4": "flash_attn",
    "flex_attention": "",
    "sdpa": "",
}


def attention_for(auto_class: Any, model_config: Any, said: str | None = None) -> str:
    """Return the name of what computes a model's attention.

    Where nothing is said it is sdpa; or eager, for an architecture that transformers has no sdpa for, and for a model
    that caps the logits of its attention (Gemma 2), as sdpa does not.

    Args:
        auto_class: the class of transformers that chooses the architecture.
        model_config: the model's own config.
        said: what the settings say.
    """
    if said:
        return said
    architecture = auto_class._model_mapping.get(type(model_config), None)
    capped = getattr(model_config.get_text_config(), "attn_logit_softcapping", None)
    return "eager" if capped or not getattr(architecture, "_supports_sdpa", True) else "sdpa"


def attention_problems(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Say why the attention that is chosen cannot be had, with a hint.

    Args:
        config: the whole config. What depends on `local.device` and `local.dtype` counts once these are filled in.
    """
    for key in KEYS:
        name = OmegaConf.select(config, key)
        if isinstance(name, str) and (problem := _problem(config, key, name)):
            yield problem


def _problem(config: DictConfig, key: str, name: str) -> tuple[str, str] | None:
    if "/" in name:  # a kernel on the hub
        return None
    if name not in MODULES:
        if stands_in_code(name) or config.actor_rollout_ref.model.external_lib:  # which may register it
            return None
        return f"{key} is {name!r}, which transformers does not have", choose(name, MODULES)
    if not MODULES[name]:
        return None
    local: Any = config.local
    if local.device == "cpu":
        return f"{key} is {name}, which computes on a GPU, and this run on a CPU", f"{key}=sdpa"
    if local.dtype == "float32":
        return (
            f"{key} is {name}, which computes in bfloat16 or float16, and local.dtype is float32",
            f"leave local.dtype out, or {key}=sdpa",
        )
    if find_spec(MODULES[name]) is None and find_spec("kernels") is None:
        return (
            f"{key} is {name}, and {MODULES[name]} is not installed",
            f"{install_command('flash-attn', '--no-build-isolation')}; or {key}=sdpa, for which torch has a flash "
            "attention",
        )
    return None
