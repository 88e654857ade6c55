# vextract:template - edit freely
"""Whether `local.devices` can be had: the devices that parts of a run compute on."""

import re
from collections.abc import Iterator
from typing import Any

from omegaconf import DictConfig, OmegaConf

SECTION = "local.devices"
PARTS = ("policy", "reference", "rollout")
NAME = re.compile(r"cpu|([a-z]+)(?::(\d+))?")


def placement_problems(config: DictConfig, processes: int) -> Iterator[tuple[str, str]]:
    """Say what cannot be, whatever GPUs there are, with a hint.

    Args:
        config: the whole config.
        processes: of the run.
    """
    section: Any = config.local.devices
    for part in PARTS:
        name = section[part]
        if name is None:
            continue
        found = NAME.fullmatch(name)
        if found is None:
            yield f"{SECTION}.{part} is {name!r}, which is no device", "write cpu, cuda, or cuda:1 for the second GPU"
        elif found[2] and processes > 1:
            yield (
                f"{SECTION}.{part} is {name}, and there are {processes} processes, each of which has a GPU of its own",
                f"leave it out, or start one process; {SECTION}.reference=cpu holds with several, too",
            )
    if section.rollout is not None and config.actor_rollout_ref.rollout.mode == "async":
        yield (
            f"{SECTION}.rollout is {section.rollout}, and rollouts come from a server, which has devices of its own",
            "local.server.devices=[cuda:1] is for the server that the trainer starts",
        )
    yield from _policy_problems(config)
    yield from _reference_problems(config)


def _policy_problems(config: DictConfig) -> Iterator[tuple[str, str]]:
    policy, server = config.local.devices.policy, config.local.get("server")
    by_server = server is not None and config.actor_rollout_ref.rollout.mode == "async"
    if policy is not None and by_server and server.url is None and server.devices is None:
        yield (
            f"{SECTION}.policy is {policy}, and nothing says which devices the server has: it takes the trainer's",
            f"local.server.devices=[cuda:0] names them; or leave {SECTION}.policy out",
        )


def _reference_problems(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Say why the reference cannot be where it is to be: it is the policy itself."""
    chosen, model = config.local.devices.reference, config.actor_rollout_ref.model
    # A teacher is there, too, and is placed as the reference is.
    adapter = (model.lora_rank > 0 or model.lora_adapter_path) and not (config.get("distillation") or {}).get("enabled")
    if chosen is not None and adapter and OmegaConf.select(config, "actor_rollout_ref.ref.model.path") is None:
        yield (
            f"{SECTION}.reference is {chosen}, and with an adapter the reference is the policy without it, on its "
            "device",
            f"leave it out; or name a reference of its own, +actor_rollout_ref.ref.model.path={model.path}",
        )


def hidden_devices(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Say which device `local.device`, as the owner has set it, keeps the run from seeing, with a hint."""
    for part in PARTS:
        name = config.local.devices[part]
        if config.local.device == "cpu" and name not in (None, "cpu"):
            yield (
                f"{SECTION}.{part} is {name}, and local.device=cpu hides all GPUs",
                f"leave local.device out; {SECTION}.policy=cpu trains on the CPU all the same",
            )


def missing_devices(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Say which device is not there, with a hint. It imports torch."""
    import torch

    for part in PARTS:
        found = NAME.fullmatch(config.local.devices[part] or "cpu")
        if found is None or found[1] is None:
            continue
        kind, index = found[1], int(found[2] or 0)
        try:
            module = torch.get_device_module(kind)
            there = module.device_count() if module.is_available() else 0
        except (RuntimeError, AttributeError):
            there = 0
        if index >= there:
            counted = f"finds {kind}:0 to {kind}:{there - 1}" if there > 1 else f"finds {kind}:0 alone"
            yield (
                f"{SECTION}.{part} is {found[0]}, and torch {counted if there else 'finds no such device'}",
                f"leave {SECTION}.{part} out" + ("" if there else "; or check nvidia-smi, and CUDA_VISIBLE_DEVICES"),
            )
