# vextract:template - edit freely
"""A run of verl goes on here: one of its checkpoints becomes one of this project's, in the run's directory.

    python main.py trainer.resume_mode=resume_path trainer.resume_from_path=.../global_step_20
    python main.py local.checkpoint.begin_from=.../global_step_20       only while the run has no checkpoint of its own

Weights, the optimizer's state, the course of the learning rate, the step and the place in the data are verl's. Random
numbers are new: verl's workers draw theirs otherwise.
"""

import copy
import itertools
import json
import random
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data.verl_place import TAKEN
from ..errors import ConfigError
from ..settings.critic_checks import wants_critic
from ..switches import CRITIC, LORA
from ..workers.optimizer_state import FILE as OPTIMIZER_FILE
from ..workers.optimizers import build_optimizer
from .checkpoint_files import WRITING, publish, save_state, set_aside, write_manifest
from .verl_shards import HINT, SharedTensor, Shares, flat_parts, is_of_verl, read, whole, world_sizes

SECTION = "actor_rollout_ref.model"
WEIGHTS = re.compile(r".*\.(safetensors|bin|pt|index\.json)$")
# What peft puts before and into the names of a model's weights.
WRAPPED, BASE, ADAPTER, NAMED = "base_model.model.", ".base_layer.", ".lora_", ".default."
STATE = ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")


def own(checkpoint: Path, config: Any, directory: Path) -> Path:
    """Return a checkpoint of this project: the one that is given, or what `take_over` makes of one of verl."""
    return take_over(checkpoint, config, directory) if is_of_verl(checkpoint) else checkpoint


def take_over(checkpoint: Path, config: Any, directory: Path) -> Path:
    """Write a checkpoint of verl as this project's. One of the same step that is there already is set aside.

    Args:
        checkpoint: a global_step_N directory of verl's.
        config: the whole config.
        directory: the run's.

    Returns:
        The new checkpoint.

    Raises:
        ConfigError: it cannot be read, or is not of such a model.
    """
    print(f"taking over {checkpoint}, a checkpoint of verl", file=sys.stderr, flush=True)
    step, path = int(checkpoint.name.removeprefix("global_step_")), directory / checkpoint.name
    scratch = path.with_name(f"{WRITING}{path.name}")
    shutil.rmtree(scratch, ignore_errors=True)
    section = config.actor_rollout_ref
    roles = {"actor": (section.model, section.actor.optim)}
    if CRITIC and wants_critic(config) and (checkpoint / "critic").is_dir():
        roles["critic"] = (config.critic.model, config.critic.optim)
    try:
        for role, (model, optim) in roles.items():
            (scratch / role).mkdir(parents=True)
            _take_model(checkpoint / role, scratch / role, model, optim, step)
        save_state(_place_in_data(checkpoint / "data.pt", step), scratch / "data.pt")
        ids = random.Random(config.local.seed).getstate()
        coefficient = config.algorithm.kl_ctrl.kl_coef  # verl saves none, and starts from this one too
        save_state({"random": [], "ids": ids, "kl_coef": coefficient, "score": None}, scratch / "trainer.pt")
        write_manifest(scratch, {"step": step, "score": None, "finished": False})
        if path.exists():
            set_aside([path])
        publish(scratch, path)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return path


def _take_model(source: Path, target: Path, model: Any, optim: Any, step: int) -> None:
    files = next((place for place in (source / "huggingface", source) if (place / "config.json").is_file()), None)
    if files is None:
        raise ConfigError(f"no model's config.json in {source}/huggingface", HINT)
    for file in sorted(files.iterdir()):
        if file.is_file() and not WEIGHTS.match(file.name):
            shutil.copyfile(file, target / file.name)
    skeleton = _skeleton(files, model)
    if not world_sizes(source):  # the run saved a model alone: checkpoint.save_contents=[hf_model]
        for file in sorted(files.iterdir()):
            if file.suffix == ".safetensors" or file.name.endswith(".index.json"):
                shutil.copyfile(file, target / file.name)
        _write_optimizer(target, {}, len(list(skeleton.parameters())), optim, {}, step, f"{source} has no shares")
        return
    shares = Shares(source)
    names = dict.fromkeys(shares.names)
    plain = {name: name.removeprefix(WRAPPED).replace(BASE, ".") for name in names}
    adapter = [name for name in names if ADAPTER in name]
    if adapter:
        _write_adapter(shares, adapter, target, model)
    else:
        _write_weights(shares, target, skeleton)
    own = {name for name, _ in skeleton.named_parameters()}
    trained = [name for name in names if name in adapter or plain[name] in own]  # neither buffers nor tied weights
    states, why = _optimizer_state(shares, trained, adapter, skeleton)
    _write_optimizer(target, states, len(adapter or trained), optim, shares.schedule(), step, why)


def _skeleton(files: Path, model: Any) -> nn.Module:
    """Return the model without weights."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForTokenClassification

    trust = bool(model.trust_remote_code)
    config = AutoConfig.from_pretrained(files, trust_remote_code=trust)
    classifies = any("ForTokenClassification" in name for name in config.architectures or ())
    auto_class: Any = AutoModelForTokenClassification if classifies else AutoModelForCausalLM
    with torch.device("meta"):
        module: nn.Module = auto_class.from_config(config, trust_remote_code=trust)
    return module


def _write_weights(shares: Shares, target: Path, skeleton: Any) -> None:
    from transformers.utils import logging

    needed = set(skeleton.state_dict())
    if needed - set(shares.names) or set(shares.names) - needed:
        wrong = sorted(needed ^ set(shares.names))
        raise ConfigError(
            f"{shares.folder} has other weights than {type(skeleton).__name__} of the installed transformers: "
            f"{', '.join(wrong[:3])}{'...' if len(wrong) > 3 else ''}",
            "install the version of transformers that verl ran with; or merge it with verl's model merger and set "
            "actor_rollout_ref.model.path to the model",
        )
    logging.disable_progress_bar()
    own = [name for name, _ in (*skeleton.named_parameters(), *skeleton.named_buffers()) if name in needed]
    weights = {name: shares.weight(name) for name in own}
    skeleton.to(next(iter(weights.values())).dtype).save_pretrained(target, state_dict=weights)


def _write_adapter(shares: Shares, names: list[str], target: Path, model: Any) -> None:
    """Write an adapter in peft's format; its model is `model.path`."""
    weights = {name.replace(NAMED, "."): shares.weight(name).contiguous() for name in names}
    rank = next(weight.shape[0] for name, weight in weights.items() if ".lora_A." in name)
    settings = _adapter_settings(shares.folder)
    scale = settings.get("lora_alpha") or model.lora_alpha
    wanted = LORA and (model.lora_rank > 0 or model.lora_adapter_path)
    if not wanted or model.lora_rank not in (0, rank):
        raise ConfigError(
            f"{shares.folder} holds a LoRA adapter of rank {rank}, and {SECTION}.lora_rank is {model.lora_rank}",
            f"set {SECTION}.lora_rank={rank} {SECTION}.lora_alpha={scale}, and {SECTION}.path to the model that the "
            "run began with (a project without LoRA: vextract add lora)",
        )
    from peft import LoraConfig, TaskType
    from safetensors.torch import save_file

    modules = sorted({name.removeprefix(WRAPPED).partition(ADAPTER)[0] for name in names})
    base = Path(model.path)
    written = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=rank,
        lora_alpha=scale,
        target_modules=modules,
        base_model_name_or_path=str(base.resolve()) if base.is_dir() else model.path,
        inference_mode=True,
    )
    for leftover in ("config.json", "generation_config.json"):  # of the model, which is not here
        (target / leftover).unlink(missing_ok=True)
    written.save_pretrained(str(target))
    save_file(weights, target / "adapter_model.safetensors", metadata={"format": "pt"})


def _adapter_settings(folder: Path) -> dict[str, Any]:
    """Return what verl noted of the adapter beside it: up to 0.7.1 as peft does, later its rank and scale alone."""
    for place in (folder / "lora_train_meta.json", folder / "lora_adapter" / "adapter_config.json"):
        if place.is_file():
            found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
            return found
    return {}


_States = dict[int, dict[str, torch.Tensor]]


def _optimizer_state(
    shares: Shares, trained: list[str], adapter: list[str], skeleton: nn.Module
) -> tuple[_States, str | None]:
    """Return the optimizer's state for each weight that this project trains, by number; and why there is none."""
    saved = shares.optimizer_states()
    if saved is None:
        return {}, "the run saved none"
    count = sum(len(group["params"]) for group in saved[0]["param_groups"])
    entries = [state["state"] for state in saved]
    kinds = {kind for values in entries[0].values() for kind in values}
    if not kinds <= set(STATE):
        return {}, f"it is of another optimizer than AdamW ({', '.join(sorted(kinds - set(STATE)))})"
    if count == len(trained) and not _is_flat(entries[0], trained, shares):
        states = {trained[index]: _gathered([part[index] for part in entries]) for index in entries[0]}
    elif not adapter and (units := _units(skeleton)) and count == len(units) == len(entries[0]):
        flat = [_gathered([part[index] for part in entries]) for index in sorted(entries[0])]
        found = [_unpacked(values, unit, shares) for values, unit in zip(flat, units, strict=True)]
        if any(part is None for part in found):
            return {}, "its pieces are not of the sizes that the model's layers have"
        states = {name: values for part in found for name, values in (part or {}).items()}
    else:
        return {}, f"it is of {count} tensors, which are not known to be the {len(trained)} weights"
    order = adapter or trained
    wrong = [name for name in states if name not in order or not _fits(states[name], shares.shape(name))]
    if wrong:
        return {}, f"that of {wrong[0]} does not fit the weight"
    return {order.index(name): values for name, values in states.items()}, None


def _gathered(shares: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Return the state of one tensor of the optimizer, whole: what FSDP1 cut without saying so, one behind another."""

    def joined(kind: str) -> torch.Tensor:
        parts = [share[kind] for share in shares]
        if isinstance(parts[0], SharedTensor) or parts[0].dim() == 0:
            return whole(parts, kind)
        return torch.cat(parts)

    return {kind: joined(kind) for kind in shares[0]}


def _is_flat(states: Mapping[int, Any], names: list[str], shares: Shares) -> bool:
    """Tell whether a plain state is of pieces that FSDP1 made, and not of the weights."""
    values = [(names[index], state["exp_avg"]) for index, state in states.items() if "exp_avg" in state]
    return any(not isinstance(value, SharedTensor) and value.shape != shares.shape(name) for name, value in values)


def _units(skeleton: nn.Module) -> list[list[str]]:
    """Return the weights that FSDP1 keeps in one piece each, as verl wraps a model: what is in no layer, and layers."""
    classes = set(getattr(skeleton, "_no_split_modules", None) or ())
    layers = [name for name, module in skeleton.named_modules() if type(module).__name__ in classes]
    units: dict[str, list[str]] = {"": [], **{layer: [] for layer in layers}}
    for name, _ in skeleton.named_parameters():
        units[next((layer for layer in layers if name.startswith(f"{layer}.")), "")].append(name)
    return list(units.values())


def _unpacked(
    state: dict[str, torch.Tensor], unit: list[str], shares: Shares
) -> dict[str, dict[str, torch.Tensor]] | None:
    shapes = {name: shares.shape(name) for name in unit}
    parts = {kind: flat_parts(value, shapes) for kind, value in state.items() if value.dim() > 0}
    if not parts or any(part is None for part in parts.values()):
        return None
    scalars = {kind: value for kind, value in state.items() if value.dim() == 0}
    return {
        name: {**copy.deepcopy(scalars), **{kind: part[name] for kind, part in parts.items() if part}} for name in unit
    }


def _fits(state: Mapping[str, torch.Tensor], shape: torch.Size) -> bool:
    return all(value.shape == shape for value in state.values() if value.dim() > 0)


def _write_optimizer(
    target: Path, states: _States, count: int, optim: Any, schedule: Mapping[str, Any], step: int, why: str | None
) -> None:
    if why is not None:
        print(f"note: the optimizer of {target.name} begins anew: {why}", file=sys.stderr, flush=True)
    fresh = build_optimizer([nn.Parameter(torch.zeros(1)) for _ in range(count)], optim)
    if states and not isinstance(fresh, (torch.optim.Adam, torch.optim.AdamW)):
        raise ConfigError(
            f"{target.name} was trained by AdamW, and the config names {type(fresh).__name__}",
            "set optim.optimizer and optim.optimizer_impl as in the run of verl",
        )
    done = int(schedule.get("last_epoch", step))
    course = {"last_epoch": done, "_step_count": done + 1, "lr_lambdas": [None] * len(fresh.param_groups)}
    for group in fresh.param_groups:
        group["initial_lr"] = group["lr"]  # as with a schedule, which the config's rate goes by
    state = {"optimizer": {**fresh.state_dict(), "state": states}, "scheduler": course}
    save_state(state, target / OPTIMIZER_FILE)


def _place_in_data(file: Path, step: int) -> dict[str, Any]:
    """Return where verl's data loader was, as `data/verl_place.py` takes it."""
    state = read(file) if file.is_file() else {}
    taken = {"steps": step, "batches": _entry(state, "_num_yielded", "_snapshot_step"), "indices": None}
    indices = _entry(state, "sampler_iter_state")
    if isinstance(indices, dict) and {"yielded", "generator"} <= set(indices):  # torchdata's sampler
        taken["indices"] = {"yielded": indices["yielded"], "generator": indices["generator"].clone()}
    if taken["batches"] is None:
        print("note: it does not say which prompts were used; the order begins anew", file=sys.stderr, flush=True)
    return {TAKEN: taken}


def _entry(state: Any, *names: str) -> Any:
    """Return the first entry of one of these names in dicts within dicts, which torchdata nests by the workers."""
    if not isinstance(state, dict):
        return None
    own = (state[name] for name in names if state.get(name) is not None)
    below = (found for value in state.values() if (found := _entry(value, *names)) is not None)
    return next(itertools.chain(own, below), None)
