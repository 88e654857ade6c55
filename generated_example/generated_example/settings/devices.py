# vextract:template base/__package__/settings/devices.py - edit freely
"""The device of a run, and what depends on it: types of numbers, attention, and the size of a piece of logits."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..output import install_command
from .setting import choose, stands_in_code

AUTO = "auto"
# What local.max_logits_mb=auto is. On a GPU each piece costs time of its own: its calls are started one by one, and the
# gradient of the last layer is read and written once more.
LOGITS_MB = {"cpu": 128, "cuda": 512}
# The attentions of transformers, and the module that each comes from; "": torch or transformers itself has it.
ATTENTIONS = {
    "eager": "",
    "flash_attention_2": "flash_attn",
    "flash_attention_3": "flash_attn_interface",
    "flash_attention_4": "flash_attn",
    "flex_attention": "",
    "sdpa": "",
}


def settle_on(config: DictConfig, device: str) -> None:
    """Have the run compute on `device`, cpu or cuda, and fill in what depends on it."""
    config.local.device = device
    config.local.dtype = config.local.dtype or ("bfloat16" if device == "cuda" else "float32")


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


def device_problems(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Say what cannot be had on this machine, each with a hint: an attention, or a size of logits.

    Args:
        config: the whole config. What depends on `local.device` and `local.dtype` counts once these are filled in.
    """
    for model in ("actor_rollout_ref.model", "critic.model"):
        key = f"{model}.override_config.attn_implementation"
        name = OmegaConf.select(config, key)
        if isinstance(name, str) and "/" not in name:  # which is a kernel on the hub
            yield from _attention_problem(config, key, name)
    most = config.local.max_logits_mb
    if isinstance(most, str) and most != AUTO:
        yield f"local.max_logits_mb is {most!r}", "give a number of MiB, auto, or null: always whole"


def _attention_problem(config: DictConfig, key: str, name: str) -> Iterator[tuple[str, str]]:
    local: Any = config.local
    if name not in ATTENTIONS:
        if not (stands_in_code(name) or config.actor_rollout_ref.model.external_lib):  # which may register it
            yield f"{key} is {name!r}, which transformers does not have", choose(name, ATTENTIONS)
    elif not ATTENTIONS[name]:
        return
    elif local.device == "cpu":
        yield f"{key} is {name}, which computes on a GPU, and this run on a CPU", f"{key}=sdpa"
    elif local.dtype == "float32":
        yield (
            f"{key} is {name}, which computes in bfloat16 or float16, and local.dtype is float32",
            f"leave local.dtype out, or {key}=sdpa",
        )
    elif find_spec(ATTENTIONS[name]) is None and find_spec("kernels") is None:
        yield (
            f"{key} is {name}, and {ATTENTIONS[name]} is not installed",
            f"{install_command('flash-attn', '--no-build-isolation')}; or {key}=sdpa, for which torch has a flash "
            "attention",
        )
