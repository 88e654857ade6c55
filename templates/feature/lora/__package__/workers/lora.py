# vextract:template - edit freely
"""LoRA by peft: small matrices beside the model's own are trained, and the model itself stays as it is.

Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021 (arXiv:2106.09685). Settings and their meaning are
upstream's: actor_rollout_ref.model.{lora_rank,lora_alpha,target_modules,exclude_modules,lora_adapter_path}.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from omegaconf import ListConfig, OmegaConf
from torch import nn
from torch.distributed.tensor import DTensor

from ..errors import ConfigError
from ..run.distributed import Ranks
from .adapters import SECTION, Start, wants_adapter


def check_adapter(model: Any) -> None:
    """Check what a `model` section says about the adapter.

    Raises:
        ConfigError: the settings cannot be used.
    """
    if model.lora_rank < 0:
        raise ConfigError(f"{SECTION}.lora_rank is {model.lora_rank}", "0 trains all weights; 8 to 64 are usual")
    if wants_adapter(model) and model.lora_alpha <= 0:
        raise ConfigError(f"{SECTION}.lora_alpha is {model.lora_alpha}", "usual is once or twice lora_rank")


def add_adapter(module: nn.Module, model: Any, start: Start, ranks: Ranks) -> nn.Module:
    """Put an adapter beside a model's weights, which are frozen.

    Args:
        module: the model, with its weights on rank 0, without any ("meta") on other processes; the adapter is likewise.
        model: the `model` section. If it asks for no adapter, the model comes back as it is.
        start: its `adapter` is read by rank 0. Without one the adapter is new, and changes nothing until it is trained.
        ranks: this process among its peers; every one must call this.

    Raises:
        ConfigError: there is no such adapter, it does not fit the model, or the model has no layers of the given names.
    """
    if not wants_adapter(model):
        return module
    check_adapter(model)
    from peft import LoraConfig, PeftModel, TaskType, get_peft_model

    saved = start.adapter
    settings = ranks.on_driver(lambda: _read_settings(saved, model)) if saved else None
    if saved and ranks.rank == 0:
        with _explained(f"{saved} does not fit {start.model}", "check that the adapter belongs to this model"):
            adapted: nn.Module = PeftModel.from_pretrained(module, saved, is_trainable=True)
    else:
        if settings is None:
            settings = LoraConfig(
                task_type=TaskType.CAUSAL_LM,
                r=model.lora_rank,
                lora_alpha=model.lora_alpha,
                target_modules=_names(model.target_modules),
                exclude_modules=_names(model.exclude_modules),
                bias="none",
            )
        hint = f"{SECTION}.target_modules is all-linear, or names of the model's layers, such as [q_proj,v_proj]"
        with _explained("no LoRA adapter can be put on this model", hint):
            settings.base_model_name_or_path = getattr(module, "name_or_path", None)  # peft warns of another name
            adapted = get_peft_model(module, settings)
    # Where the weights are is for whoever reads the checkpoint: by then this may be another directory.
    base = Path(start.model)
    adapter_settings(adapted).base_model_name_or_path = str(base.resolve()) if base.is_dir() else start.model
    return adapted


def adapter_settings(module: nn.Module) -> Any:
    """Return the settings of the model's adapter, a `peft.LoraConfig`; None if it has no adapter."""
    configs = getattr(module, "peft_config", None)
    return None if configs is None else configs["default"]


def without_adapter(module: nn.Module) -> AbstractContextManager[object]:
    """Let the model compute without its adapter within it: as the model that the run started from."""
    if adapter_settings(module) is None:
        return nullcontext()
    context: AbstractContextManager[object] = module.disable_adapter()  # type: ignore[operator]
    return context


@torch.no_grad()
def plain_weights(
    module: nn.Module, packed: Any = (), unpacked: Callable[[Any], nn.Module] = nn.Identity
) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the model's weights with the adapter merged into them, by their names in Hugging Face format.

    The model itself is not changed: one layer after the other is copied and merged by peft. Every process that holds a
    part of the model must take them all.

    Args:
        module: the model.
        packed: the class of those layers whose weights are no matrices as they stand.
        unpacked: makes a plain layer of one of them.
    """
    if adapter_settings(module) is None:
        yield from module.state_dict().items()
        return
    from peft.tuners.tuners_utils import BaseTunerLayer

    model: nn.Module = module.get_base_model()  # type: ignore[operator]
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, (BaseTunerLayer, packed))}
    done: set[str] = set()
    for name, weight in model.state_dict().items():
        owner = next((layer for layer in reversed([*_prefixes(name)]) if layer in layers), None)
        if owner is None:
            yield name, weight
        elif owner not in done:
            done.add(owner)
            layer = layers[owner]
            plain = _merged(layer, packed, unpacked) if isinstance(layer, BaseTunerLayer) else unpacked(layer)
            for part, value in plain.state_dict().items():
                yield f"{owner}.{part}", value


def adapter_weights(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the adapter's weights, under the names that they have in peft's format."""
    if adapter_settings(module) is None:
        return
    from peft import get_peft_model_state_dict

    yield from get_peft_model_state_dict(module, save_embedding_layers=False).items()


def adapter_writer(module: nn.Module, ranks: Ranks) -> Callable[[Path], None]:
    """Gather the adapter, as it is now; what rank 0 gets writes it in peft's format. Every process must call this."""
    weights: dict[str, torch.Tensor] = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            whole = _whole(parameter)
            if ranks.rank == 0:
                weights[name] = whole.to("cpu", copy=True)
    write: Any = module.save_pretrained
    return lambda directory: write(directory, state_dict=weights, save_embedding_layers=False)


def _read_settings(adapter: str | None, model: Any) -> Any:
    """Return the settings of a saved adapter, which must be of the rank that the config says, if it says one."""
    from peft import PeftConfig

    try:
        settings: Any = PeftConfig.from_pretrained(adapter)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"no LoRA adapter at {adapter}: {error}", f"check {SECTION}.lora_adapter_path") from error
    if model.lora_rank not in (0, settings.r):
        raise ConfigError(
            f"the adapter at {adapter} has rank {settings.r}, and {SECTION}.lora_rank is {model.lora_rank}",
            f"set {SECTION}.lora_rank={settings.r}; trainer.resume_mode=disable starts anew",
        )
    settings.inference_mode = False
    return settings


def _merged(layer: Any, packed: Any, unpacked: Callable[[Any], nn.Module]) -> nn.Module:
    """Return a copy of the layer below an adapter, with the adapter merged into it, whole, on the layer's device."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    copies: dict[int, Any] = {
        id(parameter): nn.Parameter(_whole(parameter), requires_grad=parameter.requires_grad)
        for parameter in layer.parameters()
    }
    base = layer.get_base_layer()
    if isinstance(base, packed):
        copies[id(base)] = unpacked(base)
    merged = copy.deepcopy(layer, copies)  # all of the layer but its parameters, in whose places these come
    if isinstance(base, packed):
        from peft.tuners.lora import Linear

        merged.__class__ = Linear  # peft's own class for packed weights would pack the merged ones as well
    while isinstance(merged, BaseTunerLayer):  # experts of a mixture have an adapter for each of their matrices
        merged.merge(safe_merge=True)
        merged = merged.base_layer
    return merged


def _whole(parameter: torch.Tensor) -> torch.Tensor:
    value = parameter.detach()
    return value.full_tensor() if isinstance(value, DTensor) else value


def _prefixes(name: str) -> Iterator[str]:
    """Return the names of all modules that a weight lies in."""
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


def _names(value: Any) -> Any:
    """Return names of modules as peft takes them: a text or a list."""
    return OmegaConf.to_container(value, resolve=True) if isinstance(value, ListConfig) else value


@contextmanager
def _explained(message: str, hint: str) -> Iterator[None]:
    """Turn what peft raises within it into an error with a hint, and what it only warns about as well."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="(?s).*Found missing adapter keys")
            yield
    except (ValueError, RuntimeError, KeyError, TypeError, Warning) as error:
        raise ConfigError(f"{message}: {str(error).strip().splitlines()[0]}", hint) from error
