# vextract:template - edit freely
"""Find models whose weights are shares where something reads whole ones."""

import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from omegaconf import DictConfig

from ..absent import SHIPPED
from ..output import module_command
from ..run.share_names import holds_shares
from ..switches import REWARD_MODEL
from . import reward_keys

ENGINE: str = SHIPPED["engine"]


def unread_shares(config: DictConfig, paths: Callable[[DictConfig, str], Iterable[str]]) -> Iterator[tuple[str, str]]:
    """Say which models are shares that their reader does not read, each with a hint.

    Args:
        config: the whole config.
        paths: lists those that a setting names.
    """
    for key, reader in _readers_of_whole_models(config):
        for path in paths(config, key):
            if holds_shares(Path(path).expanduser()):
                yield (
                    f"{key} is {path}, whose weights are the shares of several processes, which {reader} does not read",
                    f"make a model of it, and give that: {module_command('export')} "
                    f"{shlex.quote(str(Path(path).parent))} OUT",
                )


def _readers_of_whole_models(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Name the settings whose model something else than this project reads from its files, and what that is."""
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    if REWARD_MODEL:
        yield reward_keys.JUDGE_PATH, "a reward model"
    beside_adapter = ENGINE == "vllm" and (model.lora_rank > 0 or model.lora_adapter_path) and not model.lora.merge
    if beside_adapter or not str(rollout.load_format).startswith("dummy"):
        yield "actor_rollout_ref.model.path", f"{ENGINE} (rollout.load_format={rollout.load_format})"
