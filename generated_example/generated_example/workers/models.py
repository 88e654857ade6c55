# vextract:template - edit freely; upgrades merge your edits
"""Models of the run: read from disk, put on this process's device or shared between processes, with their optimizer."""

import importlib
import warnings
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy
from torch.distributed.tensor import DTensor, distribute_tensor

from ..shims.precision import to_dtype
from ..training.config_loading import ConfigError
from ..training.distributed import Ranks
from ..utils.device import get_device_id, get_device_name
from ..utils.fsdp_utils import apply_fsdp2, fsdp2_load_full_state_dict
from ..utils.torch_functional import get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup
from .role_configs import LR_SCHEDULE, build_optimizer


def load_tokenizer(model: Any) -> Any:
    """The tokenizer of `actor_rollout_ref.model`, with a padding token and the configured chat template."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model.path, trust_remote_code=model.trust_remote_code)
    except (OSError, ValueError) as error:
        raise ConfigError(f"no tokenizer at {model.path}: {error}", "check actor_rollout_ref.model.path") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if model.custom_chat_template is not None:
        tokenizer.chat_template = model.custom_chat_template
    return tokenizer


def load_model(path: str, model: Any, fsdp_config: Any, tokenizer: Any, auto_class: Any, **settings: Any) -> nn.Module:
    """A model in Hugging Face format, on the CPU.

    Args:
        path: a directory, or a name on the hub.
        model: the `model` section it belongs to.
        fsdp_config: its `model_dtype` is the dtype of the weights.
        tokenizer: its special tokens become the model's.
        auto_class: the class of transformers that chooses the architecture.
        settings: further settings of the model's config.
    """
    from transformers import AutoConfig
    from transformers.utils import logging

    logging.disable_progress_bar()
    if model.external_lib:
        importlib.import_module(model.external_lib)
    override: Any = OmegaConf.to_container(model.override_config, resolve=True)
    arguments = {"trust_remote_code": model.trust_remote_code}
    if attention := override.pop("attn_implementation", None):
        arguments["attn_implementation"] = attention
    try:
        model_config = AutoConfig.from_pretrained(path, **arguments)
    except (OSError, ValueError) as error:
        raise ConfigError(f"no model at {path}: {error}", "check actor_rollout_ref.model.path") from error
    tokens = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _override(model_config, {**tokens, **settings, **override})
    module: nn.Module = auto_class.from_pretrained(path, config=model_config, **arguments)
    module.to(to_dtype(fsdp_config.model_dtype))
    if model.enable_gradient_checkpointing:
        module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})  # type: ignore[operator]
    return module


def place(module: nn.Module, fsdp_config: Any, ranks: Ranks) -> nn.Module:
    """Put a model on this process's device; with several processes, share it out between them by FSDP2."""
    if ranks.world_size == 1:
        return module.to(get_device_id())
    mesh = init_device_mesh(get_device_name(), (ranks.world_size,), mesh_dim_names=("fsdp",))
    offload = CPUOffloadPolicy(pin_memory=get_device_name() == "cuda") if fsdp_config.offload_policy else None
    full_state = module.state_dict()
    apply_fsdp2(
        module,
        {
            "mesh": mesh,
            "mp_policy": MixedPrecisionPolicy(
                param_dtype=to_dtype(fsdp_config.dtype),
                reduce_dtype=torch.float32,
                cast_forward_inputs=True,
            ),
            "offload_policy": offload,
            "reshard_after_forward": fsdp_config.reshard_after_forward,
        },
        {"wrap_policy": {"transformer_layer_cls_to_wrap": _layer_classes(module, fsdp_config)}},
    )
    fsdp2_load_full_state_dict(module, full_state, mesh, offload)
    return module


class TrainedModel:
    """A model with its optimizer and its learning rate.

    Attributes:
        module: the model, on its device; shared between the processes if there are several.
        optimizer: of its parameters.
        scheduler: of the learning rate; steps once per training step.
        tokenizer: is saved beside the model.
    """

    def __init__(self, module: nn.Module, optim: Any, tokenizer: Any, total_steps: int) -> None:
        self.module = module
        self.tokenizer = tokenizer
        self.optimizer = build_optimizer(module.parameters(), optim)
        warmup_steps = optim.lr_warmup_steps
        if warmup_steps < 0:
            warmup_steps = int(optim.lr_warmup_steps_ratio * total_steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if optim[LR_SCHEDULE] == "constant":
                self.scheduler = get_constant_schedule_with_warmup(self.optimizer, num_warmup_steps=warmup_steps)
            else:
                self.scheduler = get_cosine_schedule_with_warmup(
                    self.optimizer,
                    num_warmup_steps=warmup_steps,
                    num_training_steps=total_steps,
                    min_lr_ratio=optim.min_lr_ratio,
                    num_cycles=optim.num_cycles,
                )

    def step_learning_rate(self) -> float:
        """The learning rate of the step that has just been done; then go on to the next one's."""
        rate = float(self.scheduler.get_last_lr()[0])
        self.scheduler.step()
        return rate

    def full_weights(self) -> dict[str, torch.Tensor]:
        """All weights by name, whole, whether or not the processes share them. Every process must call this."""
        return {name: _whole(value) for name, value in self.module.state_dict().items()}

    def optimizer_state(self) -> dict[str, Any]:
        """The state of optimizer and scheduler, for any number of processes. Every process must call this."""
        optimizer = self.optimizer.state_dict()
        optimizer["state"] = {
            parameter: {name: _whole(value) for name, value in state.items()}
            for parameter, state in optimizer["state"].items()
        }
        return {"optimizer": optimizer, "scheduler": self.scheduler.state_dict()}

    def load_optimizer_state(self, state: dict[str, Any]) -> None:
        """Put optimizer and scheduler back to where `optimizer_state` saw them."""
        optimizer = state["optimizer"]
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        for index, values in optimizer["state"].items():
            parameter = parameters[index]
            for name, value in values.items():
                if isinstance(parameter, DTensor) and isinstance(value, torch.Tensor) and value.dim() > 0:
                    values[name] = distribute_tensor(
                        value.to(parameter.device), parameter.device_mesh, parameter.placements
                    )
        self.optimizer.load_state_dict(optimizer)
        self.scheduler.load_state_dict(state["scheduler"])


def _override(model_config: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, dict) and getattr(model_config, name, None) is not None:
            _override(getattr(model_config, name), value)
        else:
            setattr(model_config, name, value)


def _whole(value: Any) -> Any:
    if isinstance(value, DTensor):
        value = value.full_tensor()
    return value.detach().cpu() if isinstance(value, torch.Tensor) else value


def _layer_classes(module: nn.Module, fsdp_config: Any) -> list[str]:
    """The classes of the layers that are sharded one by one."""
    configured = fsdp_config.wrap_policy.transformer_layer_cls_to_wrap
    if isinstance(configured, str):
        return [configured]
    return list(configured or sorted(getattr(module, "_no_split_modules", None) or [type(module).__name__]))
