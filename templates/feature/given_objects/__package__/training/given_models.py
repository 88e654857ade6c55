# vextract:template - edit freely
"""A model that the caller has loaded: whether it can be trained, where it is written, and the policy of it."""

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from torch import nn

from ..data.images import save_processor
from ..errors import ConfigError
from ..settings import CONFIG_DIRECTORY
from ..switches import MULTIMODAL, PLACEMENT
from ..workers.given_policy import GivenPolicy
from ..workers.policy import Policy

# A model with fewer parameters may well be meant for the toy's sizes.
SMALL = 1_000_000
WRITTEN = "given_model"
TOY_SIZES = CONFIG_DIRECTORY / "scale" / "toy.yaml"
TELLING = ("actor_rollout_ref.actor.optim.lr", "data.max_prompt_length")


def check_model(config: Any, given: Any, world_size: int) -> None:
    """Check the model that is given, if there is one.

    Raises:
        ConfigError: it cannot be trained here, or not with this config.
    """
    if isinstance(given.tokenizer, str):
        raise ConfigError(
            f"the tokenizer is a name, {given.tokenizer!r}", "give AutoTokenizer.from_pretrained(...), or none"
        )
    model, path = given.model, config.actor_rollout_ref.model.path
    if model is None:
        return
    if isinstance(model, str) or not (isinstance(model, nn.Module) and hasattr(model, "save_pretrained")):
        kind = "a name" if isinstance(model, str) else f"a {type(model).__name__}"
        raise ConfigError(
            f"the model is {kind}, not a model of transformers that is loaded",
            "give AutoModelForCausalLM.from_pretrained(...); a path or a name goes to actor_rollout_ref.model.path",
        )
    if given.tokenizer is None:
        raise ConfigError(
            "a model is given without its tokenizer", "give tokenizer=AutoTokenizer.from_pretrained(...) as well"
        )
    if world_size > 1:
        raise ConfigError(
            f"a loaded model is given, and there are {world_size} processes, which share the weights out among them",
            "give its path instead, as actor_rollout_ref.model.path",
        )
    if path is not None and str(path) != str(getattr(model, "name_or_path", path)):
        raise ConfigError(
            f"actor_rollout_ref.model.path is {path}, and the model that is given is of {model.name_or_path or 'none'}",
            "leave one of them out: actor_rollout_ref.model.path=null, or no model",
        )
    _check_kind(model)
    _check_devices(model, (config.local.devices.policy or config.local.device) if PLACEMENT else config.local.device)
    if path is None:
        _check_sizes(model, config)


def _check_kind(model: nn.Module) -> None:
    if hasattr(model, "merge_and_unload"):
        raise ConfigError(
            "the model that is given has adapters of peft already, and all of it would be trained",
            "give model.merge_and_unload(); a run adds an adapter of its own by actor_rollout_ref.model.lora_rank",
        )
    if getattr(model, "is_quantized", False) or getattr(model, "quantization_method", None):
        raise ConfigError(
            "the model that is given is quantized, and quantized weights cannot be trained",
            "load it without quantization_config",
        )


def _check_devices(model: nn.Module, device: str) -> None:
    devices = sorted({str(parameter.device) for parameter in model.parameters()})
    if len(devices) > 1:
        raise ConfigError(
            f"the model that is given is on several devices: {', '.join(devices)}",
            "load it without device_map; several GPUs are used by several processes (torchrun)",
        )
    kind = devices[0].partition(":")[0] if devices else device
    if kind == "meta":
        raise ConfigError("the model that is given has no weights: it is on the meta device", "load it, on the CPU")
    if kind != "cpu" and kind != device.partition(":")[0]:
        raise ConfigError(
            f"the model that is given is on {devices[0]}, and the run is to train on {device}",
            f"give model.to({device!r}), or leave local.device{' and local.devices.policy' if PLACEMENT else ''} out",
        )


def _check_sizes(model: nn.Module, config: Any) -> None:
    """Refuse a real model where the sizes are the toy model's, which a config without a model's path has."""
    if not TOY_SIZES.is_file() or sum(parameter.numel() for parameter in model.parameters()) <= SMALL:
        return
    toy = OmegaConf.load(TOY_SIZES)
    same = [f"{key}={OmegaConf.select(toy, key)}" for key in TELLING if _equal(config, toy, key)]
    if len(same) == len(TELLING):
        raise ConfigError(
            f"the sizes of this config are those of the toy model, which it has no path to replace: {', '.join(same)}",
            'load_config("scale=full", ...) has the sizes of a real model; then set your own lengths and batch sizes',
        )


def _equal(config: Any, toy: Any, key: str) -> bool:
    value = OmegaConf.select(toy, key)
    return value is not None and OmegaConf.select(config, key) == value


def write_model(given: Any, run_directory: Path) -> Path:
    """Write the model into a run's directory: the reference starts from it, and engines read it."""
    directory = run_directory / WRITTEN
    given.model.save_pretrained(directory)
    if MULTIMODAL:
        save_processor(given.tokenizer, directory)
    given.tokenizer.save_pretrained(directory)
    return directory


def policy_of(given: Any, config: Any, tokenizer: Any, *arguments: Any) -> Policy:
    """Return the policy: of the model that is given, or one that is loaded."""
    if given.model is None:
        return Policy(config, tokenizer, *arguments)
    return GivenPolicy(given.model, config, tokenizer, *arguments)
