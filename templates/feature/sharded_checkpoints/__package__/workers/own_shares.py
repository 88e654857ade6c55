# vextract:template - edit freely
"""A model of a checkpoint of shares, of which each process reads its own: none holds the whole model."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import ConfigError
from ..run.distributed import Ranks
from ..run.share_names import WEIGHTS, holds_shares
from ..shims.device import to_dtype

# Where a module notes the directory that its weights are to be read from.
NOTE = "shares_at"


def shares_at(path: str, ranks: Ranks) -> Path | None:
    """Return where a model's directory has shares, if there are several processes, which all see them; else None."""
    model = Path(path).expanduser()
    several = ranks.world_size > 1
    return model / WEIGHTS if several and all(ranks.gather_objects(holds_shares(model))) else None


def shares_reader(path: str, fsdp_config: Any, ranks: Ranks) -> Callable[..., Any] | None:
    """Return what reads a model, like `from_pretrained`, of which `place` has each process read its own shares.

    None: the directory has no shares, or one process reads it.
    """
    directory = shares_at(path, ranks)
    return None if directory is None else partial(_without_weights, directory, to_dtype(fsdp_config.model_dtype))


def _without_weights(
    directory: Path,
    dtype: torch.dtype,
    auto_class: Any,
    path: str,
    *,
    config: Any,
    output_loading_info: bool,
    **arguments: Any,
) -> tuple[nn.Module, dict[str, Any]]:
    """Return a model without weights ("meta"), with a note of where they are, and that it lacks none."""
    from transformers import GenerationConfig

    with _weights_on_meta():
        module: Any = auto_class.from_config(config, **arguments).eval()
    if module.can_generate() and (directory.parent / "generation_config.json").is_file():
        module.generation_config = GenerationConfig.from_pretrained(path)
    setattr(module, NOTE, directory)
    return module.to(dtype), {"missing_keys": ()}


def taken_note(module: nn.Module) -> Path | None:
    """Return what `shares_reader` has noted, once; None: the model has its weights."""
    found: Path | None = module.__dict__.pop(NOTE, None)
    return found


@torch.no_grad()
def read_own_shares(module: nn.Module, directory: Path, ranks: Ranks) -> None:
    """Fill a model's weights, of which this process may have a share. Every process must call this.

    Raises:
        ConfigError: the shares are not all there, or are another model's.
    """

    from ..run.shards import listed, read_shares  # torch's checkpoint code is slow to import

    def fill() -> None:
        own, there = own_tensors(module), listed(directory)
        unlike = sorted(name for name in own if name not in there or there[name][0] != own[name].shape)
        if unlike:
            raise ConfigError(
                f"{directory} has not the {len(unlike)} weights of this model, such as {unlike[0]}",
                "resume with the model and the config of the run that wrote it",
            )
        read_shares(own, directory)

    ranks.together(fill)


def own_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return this process's shares of a model's state, by the names that the module has for them."""
    values: dict[int, tuple[str, torch.Tensor]] = {}  # a weight may have several names, of which the first counts
    for name, value in module.state_dict(keep_vars=True).items():
        values.setdefault(id(value), (name, value.detach()))
    return dict(values.values())


def give_memory(module: nn.Module, weights: torch.device | str, buffers: torch.device | str) -> None:
    """Give weights that are nowhere yet ("meta") memory on a device, and bring the rest to another."""
    module._apply(lambda value: torch.empty_like(value, device=weights) if value.is_meta else value.to(buffers))


@contextlib.contextmanager
def _weights_on_meta() -> Iterator[None]:
    """Have modules that are made within it hold no weights. Their buffers, which may be in no checkpoint, are real."""
    register = nn.Module.register_parameter

    def without_memory(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        register(module, name, parameter)
        if parameter is not None and not parameter.is_meta:
            module._parameters[name] = nn.Parameter(parameter.detach().to("meta"), parameter.requires_grad)

    nn.Module.register_parameter = without_memory  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]
