"""Adapt a project's values and settings for full verl."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import (
    CLASSES,
    FUNCTIONS,
    READ_BY_THE_ENGINE,
    REWARD_MANAGER,
    Key,
    is_about_machine,
    list_tools,
)
from extractor.importers.config.project import ProjectConfig
from extractor.importers.config.release import VerlDefaults
from extractor.importers.export import rewards
from extractor.importers.export.rewards import RewardConfig, VerlInterface
from extractor.values import limits, readers
from extractor.values.configtree.compose import read_yaml
from extractor.values.errors import UsageError
from extractor.values.setting_types import PATH, read_types_and_words

HERE = "$HERE"
AGENT = "project_environment"
_ROLLOUT = "actor_rollout_ref.rollout"
_Changes = dict[str, tuple[Any, str]]
_KINDS = {"bool": "true or false", "int": "a whole number", "float": "a number"}
_FILES = ("data.train_files", "data.val_files")
# What needs more of verl than a trainer and hooks.
_NO_PART = {
    "local.prime.enable": "PRIME is not part of verl, but a recipe of verl-recipe, prime",
    "distillation.enabled": "verl serves teachers on GPUs of their own, and an export sets up none",
    "reward_model.enable": "verl runs reward models in workers or servers of their own, and an export sets up none",
    "reward.reward_model.enable": "verl serves reward models on GPUs of their own, and an export sets up none",
}
# Of the project's own settings these change what is learned, or from what.
_OWN = (
    "local.early_stopping.patience",
    "local.keep_special_tokens",
    "local.quantization.load_in_4bit",
    "local.rollout.ahead",
)
_LEARNED = ("actor_rollout_ref.", "algorithm.", "critic.", "custom_reward_function.", "data.", "reward")
# Parts of keys that say where, how fast and under which names something is computed, stored, shown or validated.
_ABOUT_ELSE = re.compile(
    r"(?:^|[._])(?:calculate|checkpoint\w*|chunk\w*|dtype|fsdp\w*|gpu\w*|key|max_num\w*|micro_batch\w*|profiler"
    r"|return_\w+|sandbox_fusion|seed|server|timeout|trace|val|validation\w*|workers)(?:$|[._])"
)
# What a release does that has no such setting.
_USUAL: tuple[Any, ...] = (None, False, 0, -1, "", [], {}, "vanilla", "token-mean")


def change_values(
    config: ProjectConfig, release: str, interface: VerlInterface, reward: RewardConfig, copied: Mapping[str, str]
) -> _Changes:
    """Return values that must change in full verl, with reasons.

    Args:
        config: The project's.
        release, interface: Of verl.
        reward: Of the config.
        copied: Keys that name a file of the project -> its path.
    """
    flat = config.flat
    found: _Changes = {
        key: ("bfloat16", "local.dtype is null: what it is on a GPU")
        for key, value in flat.items()
        if value is None and key.endswith((".fsdp_config.dtype", "rollout.dtype"))
    }
    found |= {key: (f"{HERE}/{path}", "copied with the hooks") for key, path in copied.items()}
    found |= _list_made_files(config) | _list_micro_batches(flat)
    renamed = [key for key in REWARD_MANAGER if flat.get(key) == rewards.AS_NAIVE != reward.manager]
    found |= dict.fromkeys(renamed, (reward.manager, "it gives every response the score that prime gives it"))
    if flat.get(f"{_ROLLOUT}.name") == "hf":
        found[f"{_ROLLOUT}.name"] = ("vllm", "verl has no rollout by transformers that runs")
    multi_turn, tools = is_multi_turn(config), calls_tools(config)
    if flat.get(f"{_ROLLOUT}.mode") == "sync" and (not interface.spmd or multi_turn or tools):
        why = "environment loops need verl's servers" if interface.spmd else "its rollouts come from servers"
        found[f"{_ROLLOUT}.mode"] = ("async", f"{why} in verl {release}")
    if multi_turn:
        why = "the episode is played by adapters/environment.py, which is an agent loop of its own"
        found[f"{_ROLLOUT}.multi_turn.enable"] = (False, why)
    if multi_turn or tools or (flat.get("data.return_raw_chat") is False and not interface.spmd):
        found["data.return_raw_chat"] = (True, "agent loops start from messages")
    return found


def is_multi_turn(config: ProjectConfig) -> bool:
    """Tell whether the model and an environment take turns."""
    return bool(config.flat.get(f"{_ROLLOUT}.multi_turn.enable")) and not calls_tools(config)


def calls_tools(config: ProjectConfig) -> bool:
    """Tell whether the model calls tools through verl's own agent loop."""
    return bool(config.flat.get(f"{_ROLLOUT}.multi_turn.enable")) and any(map(config.flat.get, (CLASSES, FUNCTIONS)))


def find_tool_modules(project: Path, config: ProjectConfig) -> list[str]:
    """Return the paths of the project's modules that define its tools.

    Raises:
        UsageError: tools are of MCP servers, which verl has none of since 0.8.0.
    """
    table, functions = (config.flat.get(key) if calls_tools(config) else None for key in (CLASSES, FUNCTIONS))
    found = [str(functions)] if functions else []
    for entry in list_tools(read_yaml(readers.read_text(project / str(table), limits.MAX_TEXT))) if table else ():
        if (entry.get("config") or {}).get("type") == "mcp":
            raise UsageError(f"{table}: verl has no tools of MCP servers", hint=f"--set {CLASSES}=null")
        found.append(str(entry.get("class_name", "")).rpartition(".")[0].replace(".", "/") + ".py")
    return [path for path in found if (project / path).is_file()]


def uses_own_dataset(config: ProjectConfig) -> bool:
    """Tell whether the prompts come from the hook env_dataset.py."""
    return not config.flat.get("data.train_files") and not config.flat.get("data.custom_cls.path")


def find_named_files(project: Path, config: ProjectConfig) -> dict[str, str]:
    """Map keys that name Python or tool files to project paths."""
    root = project.resolve()
    tables = (CLASSES, "data.tool_config_path")
    paths = {
        key: value for key, value in config.flat.items() if str(value).endswith(".py") or (key in tables and value)
    }
    named = {key: (project / value).resolve() for key, value in paths.items()}
    return {
        key: place.relative_to(root).as_posix()
        for key, place in named.items()
        if place.is_file() and place.is_relative_to(root)
    }


def _list_made_files(config: ProjectConfig) -> _Changes:
    """Return settings for the files that prepare.py makes."""
    flat = config.flat
    found: _Changes = {}
    if config.toy:
        found["actor_rollout_ref.model.path"] = (f"{HERE}/toy_model", "made by prepare.py")
        if flat.get("critic.model.path") is None and "critic.model.path" in flat:
            found["critic.model.path"] = (f"{HERE}/toy_model", "made by prepare.py")
    for name in ("train", "val") if not flat.get("data.train_files") else ():
        found[f"data.{name}_files"] = (f"{HERE}/data/{name}.parquet", "made by prepare.py from the project's rows")
    if "data.cache_dir" in flat and flat["data.cache_dir"] is None:
        found["data.cache_dir"] = ("~/.cache/verl/rlhf", "what null stands for")
    return found


def _list_micro_batches(flat: Mapping[str, Any]) -> _Changes:
    """Return micro-batch sizes computed from gradient accumulation steps."""
    steps, found = flat.get("local.gradient_accumulation_steps"), {}
    for section in ("actor_rollout_ref.actor", "critic") if steps else ():
        if f"{section}.ppo_mini_batch_size" in flat:
            responses = flat[f"{section}.ppo_mini_batch_size"] * flat[f"{_ROLLOUT}.n"]
            why = f"local.gradient_accumulation_steps is {steps}, counted for one GPU"
            found[f"{section}.ppo_micro_batch_size_per_gpu"] = (max(responses // steps, 1), why)
    return found


def add_settings(
    config: ProjectConfig, interface: VerlInterface, reward: RewardConfig, defaults: VerlDefaults
) -> dict[str, Any]:
    """Return extra settings for verl, such as the adapters' locations."""
    flat = config.flat
    found: dict[str, Any] = {"trainer.nnodes": "$NNODES", "trainer.n_gpus_per_node": "$GPUS"}
    found |= rewards.choose_manager(reward, interface, f"{HERE}/adapters/reward.py")
    if uses_own_dataset(config):
        found["data.custom_cls.path"] = f"{HERE}/adapters/dataset.py"
        found["data.custom_cls.name"] = "ProjectDataset"
    if is_multi_turn(config):
        found[f"{_ROLLOUT}.agent.default_agent_loop"] = AGENT
        found[f"{_ROLLOUT}.agent.agent_loop_config_path"] = f"{HERE}/adapters/agent_loops.yaml"
        found[f"{_ROLLOUT}.agent.num_workers"] = 1 if config.toy else 8
    elif calls_tools(config):
        found[f"{_ROLLOUT}.agent.default_agent_loop"] = "tool_agent"
    found["critic.enable"] = flat.get("algorithm.adv_estimator") == "gae"
    for key, name in READ_BY_THE_ENGINE.items():
        if key in flat and flat[key] != defaults.flat.get(name):
            found[name] = flat[key]
    known = {key: value for key, value in found.items() if key in defaults}
    if reward.penalises_length and not reward.adapted:
        known[f"{interface.arguments_section}.max_resp_len"] = flat["data.max_response_length"]
    return known


def check(config: ProjectConfig, usual: Mapping[str, Any], package: Path) -> None:
    """Check an exported config as the project's `settings/loading.py` would.

    Args:
        config: What is exported.
        usual: Dotted key -> value of the project without the settings of the command line.
        package: The project's package.

    Raises:
        UsageError: a text stands in the place of a number, a word is none of those that there are, one of training and
            validation has files and the other has none, or an export has no part for it.
    """
    flat = config.flat
    kinds, words = read_types_and_words(file.read_text(encoding="utf-8") if (file := package / PATH).is_file() else "")
    for key, value in flat.items():
        kind = kinds.get(key) or type(usual.get(key)).__name__
        if isinstance(value, str) and kind in _KINDS:
            raise UsageError(
                f"{key} is {value!r}, which is not {_KINDS[kind]}", hint=f"--set {key}={json.dumps(usual.get(key))}"
            )
        if value is not None and value not in words.get(key, [value]):
            raise UsageError(f"{key} is {value!r}", hint=f"choose one of: {', '.join(map(str, words[key]))}")
    for key, other in (_FILES, _FILES[::-1]):
        if flat.get(key) and not flat.get(other) and not flat.get("data.custom_cls.path"):
            raise UsageError(f"{key} is set and {other} is not", hint=f"--set {other} to a file of its own")
    for key, why in _NO_PART.items():
        if flat.get(key):
            raise UsageError(f"{key}=true: {why}", hint=f"--set {key}=false exports the training without it")


def list_lost_settings(keys: Sequence[Key]) -> list[str]:
    """Return warnings of lost settings that change the experiment, by section."""
    flat = {key.key: key.value for key in keys}
    found = [key for key in keys if key.is_lost and _is_experiment_changed(key.key, key.value, flat)]
    groups = groupby(
        sorted(found, key=lambda key: (key.key.rpartition(".")[0], key.reason)),
        lambda key: (key.key.rpartition(".")[0], key.reason),
    )
    said = {
        place: [f"{key.key.rpartition('.')[2]}={json.dumps(key.value)}" for key in items] for place, items in groups
    }
    return [
        f"{section} ({', '.join(items)}): {reason}, so this is another experiment there"
        for (section, reason), items in said.items()
    ]


def _is_experiment_changed(key: str, value: Any, flat: Mapping[str, Any]) -> bool:
    """Tell whether losing a setting changes training or prompts."""
    is_neutral = key.endswith("repetition_penalty") and value == 1.0
    if is_neutral or (value is not True and value in _USUAL):
        return False
    parts = key.split(".")
    switches = (f"{'.'.join(parts[:end])}.enable" for end in range(1, len(parts)))
    is_on = all(flat.get(switch, True) for switch in switches)
    is_vanilla = ".policy_loss." in key and flat.get("actor_rollout_ref.actor.policy_loss.loss_mode") == "vanilla"
    is_learned = key.startswith(_LEARNED) and not is_about_machine(key) and not _ABOUT_ELSE.search(key)
    return key in _OWN or (is_learned and is_on and not is_vanilla)
