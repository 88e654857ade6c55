"""Values that have to be others in full verl, and what verl must be told besides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import READ_BY_THE_ENGINE
from extractor.importers.config.project import ProjectConfig
from extractor.importers.config.release import VerlDefaults
from extractor.importers.export import rewards
from extractor.importers.export.rewards import RewardConfig
from extractor.importers.export.verl_interface import ManagerInterface, VerlInterface

HERE = "$HERE"
HOOKS = "adapters.hooks"
AGENT = "project_environment"
_ROLLOUT = "actor_rollout_ref.rollout"
_TEACHERS, _ONLY = "distillation.teacher_models", "teacher_model"
_Changes = dict[str, tuple[Any, str]]


def change_values(
    config: ProjectConfig, release: str, interface: VerlInterface, reward: RewardConfig, copied: Mapping[str, str]
) -> _Changes:
    """Return a mapping, key -> the value that it has in full verl, and why.

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
    found.update({key: (f"{HERE}/{path}", "copied with the hooks") for key, path in copied.items()})
    found.update(_made_files(config))
    found.update(_micro_batches(flat))
    found.update(rewards.change_manager(config, reward))
    if flat.get(f"{_ROLLOUT}.name") == "hf":
        found[f"{_ROLLOUT}.name"] = ("vllm", "verl has no rollout by transformers that runs")
    multi_turn = is_multi_turn(config)
    if flat.get(f"{_ROLLOUT}.mode") == "sync" and (not interface.spmd or multi_turn):
        why = "environment loops need verl's servers" if interface.spmd else "its rollouts come from servers"
        found[f"{_ROLLOUT}.mode"] = ("async", f"{why} in verl {release}")
    if multi_turn and interface.agent_loop:
        why = "the episode is played by adapters/environment.py, which is an agent loop of its own"
        found[f"{_ROLLOUT}.multi_turn.enable"] = (False, why)
    if (multi_turn and interface.agent_loop) or (flat.get("data.return_raw_chat") is False and not interface.spmd):
        found["data.return_raw_chat"] = (True, "agent loops start from messages")
    return found


def list_remarks(
    config: ProjectConfig, release: str, interface: VerlInterface, reward: RewardConfig, defaults: VerlDefaults
) -> list[str]:
    """Return what a user should know of how this release takes the experiment."""
    found = []
    if reward.adapted is not None and not reward.adapted.own:
        found.append(f"verl {release} scores one response at a time: {reward.adapted.name} is given each of them alone")
    if config.flat.get("distillation.enabled"):
        found.append(
            "verl serves a teacher on GPUs of its own: run.sh gives each one, beside those of the policy "
            "(distillation.n_gpus_per_node, and inference.tensor_model_parallel_size for more)"
        )
    if is_multi_turn(config) and not interface.agent_loop:
        found.append(f"verl {release} has no agent loops: the environment loop is not part of this export")
    elif is_multi_turn(config) and not interface.loop_reward:
        if not uses_own_dataset(config):
            found.append(f"verl {release} plays an agent loop for rows that name it: agent_name={AGENT!r}")
        found.append(f"agent loops of verl {release} give no reward: the reward manager scores episodes by their text")
    if rewards.is_judged(config.flat) and rewards.is_served(defaults):
        engine = rewards.configure_judge(config.flat, defaults)["reward.reward_model.rollout.name"]
        found.append(
            f"verl {release} serves the reward model, with {engine}: each conversation is put into the reward model's "
            "own chat template"
        )
        if config.flat.get("local.reward_model.max_length") is not None:
            found.append(f"reward_model.max_length: a server of verl {release} reads all of a response")
    return found


def is_multi_turn(config: ProjectConfig) -> bool:
    """Tell whether the model and an environment take turns."""
    return bool(config.flat.get(f"{_ROLLOUT}.multi_turn.enable"))


def uses_own_dataset(config: ProjectConfig) -> bool:
    """Tell whether the prompts come from the hook env_dataset.py."""
    return not config.flat.get("data.train_files") and not config.flat.get("data.custom_cls.path")


def find_named_files(project: Path, config: ProjectConfig) -> dict[str, str]:
    """Return the keys that name a Python file of the project, and its path there."""
    found = {}
    for key, value in config.flat.items():
        if isinstance(value, str) and value.endswith(".py"):
            place = (project / value).resolve()
            if place.is_file() and place.is_relative_to(project.resolve()):
                found[key] = place.relative_to(project.resolve()).as_posix()
    return found


def _made_files(config: ProjectConfig) -> _Changes:
    """Return the paths of what prepare.py makes."""
    flat = config.flat
    found: _Changes = {}
    if config.toy:
        found["actor_rollout_ref.model.path"] = (f"{HERE}/toy_model", "made by prepare.py")
        if flat.get("critic.model.path") is None and "critic.model.path" in flat:
            found["critic.model.path"] = (f"{HERE}/toy_model", "made by prepare.py")
    if not flat.get("data.train_files"):
        found["data.train_files"] = (f"{HERE}/data/train.parquet", "made by prepare.py from the project's rows")
        found["data.val_files"] = (f"{HERE}/data/val.parquet", "made by prepare.py from the project's rows")
    if "data.cache_dir" in flat and flat["data.cache_dir"] is None:
        found["data.cache_dir"] = ("~/.cache/verl/rlhf", "what null stands for")
    return found


def _micro_batches(flat: Mapping[str, Any]) -> _Changes:
    """Return sizes of passes that the project counts by accumulation steps, or leaves empty."""
    steps, found = flat.get("local.gradient_accumulation_steps"), {}
    for section in ("actor_rollout_ref.actor", "critic") if steps else ():
        if f"{section}.ppo_mini_batch_size" in flat:
            responses = flat[f"{section}.ppo_mini_batch_size"] * flat[f"{_ROLLOUT}.n"]
            why = f"local.gradient_accumulation_steps is {steps}, counted for one GPU"
            found[f"{section}.ppo_micro_batch_size_per_gpu"] = (max(responses // steps, 1), why)
    size = "reward_model.micro_batch_size_per_gpu"
    if rewards.is_judged(flat) and flat.get(size, 1) is None:
        why = "null: all responses in one pass, for which verl has no word"
        found[size] = (flat["data.train_batch_size"] * flat[f"{_ROLLOUT}.n"], why)
    return found


def add_settings(
    config: ProjectConfig, interface: VerlInterface, reward: RewardConfig, defaults: VerlDefaults
) -> dict[str, Any]:
    """Return what verl must be told besides: where the adapters are, and what it has two keys for."""
    flat = config.flat
    found: dict[str, Any] = {"trainer.nnodes": "$NNODES", "trainer.n_gpus_per_node": "$GPUS"}
    found.update(rewards.choose_manager(reward, interface, f"{HERE}/adapters/reward.py"))
    if not interface.modules:
        found["actor_rollout_ref.model.external_lib"] = HOOKS
        found["critic.model.external_lib"] = HOOKS
    if uses_own_dataset(config):
        found["data.custom_cls.path"] = f"{HERE}/adapters/dataset.py"
        found["data.custom_cls.name"] = "ProjectDataset"
    if is_multi_turn(config) and interface.agent_loop:
        found[f"{_ROLLOUT}.agent.default_agent_loop"] = AGENT
        found[f"{_ROLLOUT}.agent.agent_loop_config_path"] = f"{HERE}/adapters/agent_loops.yaml"
        found[f"{_ROLLOUT}.agent.num_workers"] = 1 if config.toy else 8
    found["critic.enable"] = flat.get("algorithm.adv_estimator") == "gae"
    for key, name in READ_BY_THE_ENGINE.items():
        if key in flat and flat[key] != defaults.flat.get(name):
            found[name] = flat[key]
    known = {key: value for key, value in found.items() if key in defaults}
    if reward.penalises_length and (not reward.adapted or interface.manager is ManagerInterface.FUNCTION):
        known[f"{interface.arguments_section}.max_resp_len"] = flat["data.max_response_length"]
    return {**known, **_teacher_servers(flat), **rewards.configure_judge(flat, defaults)}


def _teachers(flat: Mapping[str, Any]) -> list[str]:
    """Return the names of the teachers: that of upstream's default counts if it is the only one."""
    names = {key.split(".")[2] for key in flat if key.startswith(f"{_TEACHERS}.")} - {_ONLY}
    return sorted(names) or [_ONLY]


def find_missing_teacher(flat: Mapping[str, Any]) -> str | None:
    """Return the setting of a teacher that the project's config does not name; None if it names all."""
    keys = (f"{_TEACHERS}.{name}.model_path" for name in _teachers(flat))
    return next((key for key in keys if flat.get(key) is None), None)


def _teacher_servers(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return what verl must be told of its teachers' servers: one GPU for each, beside the policy's."""
    if not flat.get("distillation.enabled"):
        return {}
    names = _teachers(flat)
    found: dict[str, Any] = {"distillation.nnodes": 1, "distillation.n_gpus_per_node": len(names)}
    for name in names:
        section = f"{_TEACHERS}.{name}"
        if names != [_ONLY]:  # whose defaults verl has
            found[f"{section}.num_replicas"] = 1
            found[f"{section}.inference.name"] = "sglang" if flat.get(f"{_ROLLOUT}.name") == "sglang" else "vllm"
        found[f"{section}.inference.tensor_model_parallel_size"] = 1
    return found
