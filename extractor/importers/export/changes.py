"""Values that have to be others in full verl, and what verl must be told besides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import READ_BY_THE_ENGINE, Key, Status
from extractor.importers.config.project import ProjectConfig
from extractor.importers.config.release import Defaults, Target
from extractor.importers.export.rewards import RewardConfig, as_naive, chosen_manager
from extractor.importers.export.verl_interface import ManagerInterface, VerlInterface
from extractor.values.configtree import write_override

HERE = "$HERE"
HOOKS = "adapters.hooks"
AGENT = "project_environment"
_ROLLOUT = "actor_rollout_ref.rollout"
_COUNTED = ("$NNODES", "$GPUS")


def changes(
    config: ProjectConfig,
    target: Target,
    interface: VerlInterface,
    reward: RewardConfig,
    copied: Mapping[str, str],
    remarks: list[str],
) -> dict[str, tuple[Any, str]]:
    """Return a mapping, key -> the value that it has in full verl, and why.

    Args:
        config: The project's.
        target, interface: The release.
        reward: Of the config, and how the release takes it.
        copied: Keys that name a file of the project -> its path.
        remarks: What a user should know is added here.
    """
    flat = config.flat
    found: dict[str, tuple[Any, str]] = {}
    for key, value in flat.items():
        if value is None and key.endswith((".fsdp_config.dtype", "rollout.dtype")):
            found[key] = ("bfloat16", "local.dtype is null: what it is on a GPU")
    found.update({key: (f"{HERE}/{path}", "copied with the hooks") for key, path in copied.items()})
    found.update(_made(config))
    found.update(_passes(flat))
    found.update(as_naive(config, reward))
    if reward.adapted is not None and not reward.adapted.own:
        remarks.append(
            f"verl {target.release} scores one response at a time: {reward.adapted.name} is given each of them alone"
        )
    if flat.get(f"{_ROLLOUT}.name") == "hf":
        found[f"{_ROLLOUT}.name"] = ("vllm", "verl has no rollout by transformers that runs")
    if flat.get("distillation.enabled"):
        remarks.append(
            "verl serves a teacher on GPUs of its own: run.sh gives each one, beside those of the policy "
            "(distillation.n_gpus_per_node, and inference.tensor_model_parallel_size for more)"
        )
    multi_turn = plays(config)
    if multi_turn and not interface.agent_loop:
        remarks.append(f"verl {target.release} has no agent loops: the environment loop is not part of this export")
    elif multi_turn and not interface.loop_reward:
        if not own_dataset(config):
            remarks.append(f"verl {target.release} plays an agent loop for rows that name it: agent_name={AGENT!r}")
        remarks.append(
            f"agent loops of verl {target.release} give no reward: the reward manager scores episodes by their text"
        )
    if flat.get(f"{_ROLLOUT}.mode") == "sync" and (not interface.spmd or multi_turn):
        why = "environment loops need verl's servers" if interface.spmd else "its rollouts come from servers"
        found[f"{_ROLLOUT}.mode"] = ("async", f"{why} in verl {target.release}")
    if multi_turn and interface.agent_loop:
        found[f"{_ROLLOUT}.multi_turn.enable"] = (
            False,
            "the episode is played by adapters/environment.py, which is an agent loop of its own",
        )
        found["data.return_raw_chat"] = (True, "agent loops start from messages")
    elif flat.get("data.return_raw_chat") is False and not interface.spmd:
        found["data.return_raw_chat"] = (True, "agent loops start from messages")
    return found


def plays(config: ProjectConfig) -> bool:
    """Tell whether the model and an environment take turns."""
    return bool(config.flat.get(f"{_ROLLOUT}.multi_turn.enable"))


def own_dataset(config: ProjectConfig) -> bool:
    """Tell whether the prompts come from the hook env_dataset.py."""
    return not config.flat.get("data.train_files") and not config.flat.get("data.custom_cls.path")


def named_files(project: Path, config: ProjectConfig) -> dict[str, str]:
    """Return the keys that name a Python file of the project, and its path there."""
    found = {}
    for key, value in config.flat.items():
        if isinstance(value, str) and value.endswith(".py"):
            place = (project / value).resolve()
            if place.is_file() and place.is_relative_to(project.resolve()):
                found[key] = place.relative_to(project.resolve()).as_posix()
    return found


def _made(config: ProjectConfig) -> dict[str, tuple[Any, str]]:
    """Return the paths of what prepare.py makes."""
    flat = config.flat
    found: dict[str, tuple[Any, str]] = {}
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


def _passes(flat: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Return the responses of a pass where the project counts how many passes make an optimizer step."""
    steps, found = flat.get("local.gradient_accumulation_steps"), {}
    for section in ("actor_rollout_ref.actor", "critic") if steps else ():
        if f"{section}.ppo_mini_batch_size" in flat:
            responses = flat[f"{section}.ppo_mini_batch_size"] * flat[f"{_ROLLOUT}.n"]
            why = f"local.gradient_accumulation_steps is {steps}, counted for one GPU"
            found[f"{section}.ppo_micro_batch_size_per_gpu"] = (max(responses // steps, 1), why)
    return found


def further(
    config: ProjectConfig, interface: VerlInterface, reward: RewardConfig, defaults: Defaults
) -> dict[str, Any]:
    """Return what verl must be told besides: where the adapters are, and what it has two keys for."""
    flat = config.flat
    found: dict[str, Any] = {"trainer.nnodes": "$NNODES", "trainer.n_gpus_per_node": "$GPUS"}
    found.update(chosen_manager(reward, interface, f"{HERE}/adapters/reward.py"))
    if not interface.modules:
        found["actor_rollout_ref.model.external_lib"] = HOOKS
        found["critic.model.external_lib"] = HOOKS
    if own_dataset(config):
        found["data.custom_cls.path"] = f"{HERE}/adapters/dataset.py"
        found["data.custom_cls.name"] = "ProjectDataset"
    if plays(config) and interface.agent_loop:
        found[f"{_ROLLOUT}.agent.default_agent_loop"] = AGENT
        found[f"{_ROLLOUT}.agent.agent_loop_config_path"] = f"{HERE}/adapters/agent_loops.yaml"
        found[f"{_ROLLOUT}.agent.num_workers"] = 1 if config.toy else 8
    if "critic.enable" in defaults:
        found["critic.enable"] = flat.get("algorithm.adv_estimator") == "gae"
    for key, name in READ_BY_THE_ENGINE.items():
        if key in flat and flat[key] != defaults.flat.get(name):
            found[name] = flat[key]
    known = {key: value for key, value in found.items() if key in defaults}
    if reward.penalises_length and not (reward.own and interface.manager is not ManagerInterface.FUNCTION):
        known[f"{interface.arguments_section}.max_resp_len"] = flat["data.max_response_length"]
    return {**known, **_servers_of_teachers(flat)}


_TEACHERS, _ONLY = "distillation.teacher_models", "teacher_model"


def _teachers(flat: Mapping[str, Any]) -> list[str]:
    """Return the names of the teachers: that of upstream's default counts if it is the only one."""
    names = {key.split(".")[2] for key in flat if key.startswith(f"{_TEACHERS}.")} - {_ONLY}
    return sorted(names) or [_ONLY]


def missing_teacher(flat: Mapping[str, Any]) -> str | None:
    """Return the setting of a teacher that the project's config does not name; None if it names all."""
    keys = (f"{_TEACHERS}.{name}.model_path" for name in _teachers(flat))
    return next((key for key in keys if flat.get(key) is None), None)


def _servers_of_teachers(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return what verl must be told of its servers of teachers: one GPU for each, beside those of the policy."""
    if not flat.get("distillation.enabled"):
        return {}
    section, names = _TEACHERS, _teachers(flat)
    found: dict[str, Any] = {"distillation.nnodes": 1}
    if names != [_ONLY]:  # whose defaults verl has
        engine = "sglang" if flat.get(f"{_ROLLOUT}.name") == "sglang" else "vllm"
        found.update({f"{section}.{name}.num_replicas": 1 for name in names})
        found.update({f"{section}.{name}.inference.name": engine for name in names})
    found.update({f"{section}.{name}.inference.tensor_model_parallel_size": 1 for name in names})
    return {**found, "distillation.n_gpus_per_node": len(names)}


def override(name: str, value: Any, defaults: Defaults) -> str:
    """Return an override of the launch script."""
    if value in _COUNTED:
        return f"{name}={value}"  # a number when the script runs
    return write_override(name, value, "" if name in defaults else "+")


def replaced(key: Key, told: Mapping[str, Any]) -> Key:
    """Return a key in place of whose value verl is told where an adapter is."""
    if key.target is None or key.target not in told:
        return key
    return Key(key.key, key.value, Status.CHANGED, key.target, told[key.target], reason="names the adapter")
