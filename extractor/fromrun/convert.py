"""From a run to a project's options and settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from extractor.changes.config_keys import Renames
from extractor.errors import UsageError
from extractor.export.keys import about_the_machine, name_in
from extractor.export.target import Defaults, Target
from extractor.fromrun.reading import Run
from extractor.fromrun.text import readable, unknowns
from extractor.hydra import Override, Problem, flatten, resolve
from extractor.hydra.compose import apply, merge
from extractor.manifest import Manifest

# What a project has no use for: patterns of verl's keys, what becomes of them, and why. The first that fits counts.
NO_LOCAL_MEANING: tuple[tuple[str, str, str], ...] = (
    (r"trainer\.(nnodes|n_gpus_per_node)", "lowered", "a project starts on one device; torchrun gives it more"),
    (r"(.*\.)?(n_gpus_per_node|nnodes)", "lowered", "a project starts on one device"),
    (r"(.*\.)?(tensor|pipeline|data|expert|context)_(model_)?parallel_size", "lowered", "one device holds the model"),
    (r"(.*\.)?(ulysses_sequence_parallel_size|fsdp_size)", "lowered", "one device holds the model"),
    (r"(ray_init|ray_kwargs|transfer_queue|global_profiler|.*profile\w*)(\..*)?", "dropped", "there is no Ray"),
    (
        r"trainer\.(ray_wait_register_center_timeout|device|use_legacy_worker_impl|use_v1|v1.*|esi_.*)",
        "dropped",
        "there is no Ray",
    ),
    (r"(.*\.)?megatron(\..*)?", "dropped", "a project trains with FSDP, or on one device whole"),
    (
        r"(.*\.)?(virtual_pipeline\w*|override_transformer_config.*|vanilla_mbridge|use_mbridge|use_remove_padding_megatron)",
        "dropped",
        "of Megatron",
    ),
    (
        r"(.*\.)?(load_weight|optimizer_offload_fraction|router_replay.*|use_dist_checkpointing|dist_checkpointing.*)",
        "dropped",
        "of Megatron",
    ),
    (r"(.*\.)?(veomni|torchtitan|mindspeed|automodel)(\..*)?", "dropped", "another engine than FSDP"),
    (
        r"(.*\.)?(forward_prefetch|entropy_from_logits_with_chunking|limit_images|use_shm|use_orig_params|reshard_after_forward)",
        "dropped",
        "changes speed or memory only",
    ),
    (
        r"(.*\.)?(enable_activation_offload|use_fused_kernels|fused_kernel_options.*|use_liger|use_prefix_grouper)",
        "dropped",
        "changes speed or memory only",
    ),
    (
        r"actor_rollout_ref\.rollout\.(agent|server|trace|checkpoint_engine|update_weights\w*|layered_summon|prometheus|skip\w*|nnodes|disaggregation|over_sample_rate|multi_stage_wake_up|cudagraph\w*|enable_sleep\w*|free_cache\w*|quantization\w*|expert.*|logprobs_mode|scheduling_policy|mtp.*)(\..*)?",
        "dropped",
        "of verl's own rollout servers",
    ),
    (
        r"actor_rollout_ref\.rollout\.multi_turn\.(format|tool_config_path|interaction_config_path|\w+)",
        "dropped",
        "tools and interactions become an environment: custom/env_wrapper.py",
    ),
    (r"actor_rollout_ref\.rollout\.engine_kwargs(\..*)?", "dropped", "arguments of another engine than the project's"),
    (r"actor_rollout_ref\.rollout\.(val_kwargs\..*|\w+)", "dropped", "the project's rollout has no such setting"),
    (r"(.*\.)?checkpoint(\..*)?", "dropped", "the project saves whole checkpoints"),
    (
        r"(.*\.)?(ppo_micro_batch_size|log_prob_micro_batch_size|forward_micro_batch_size|micro_batch_size)",
        "lowered",
        "given for all devices together: divided among them",
    ),
    (
        r"(.*\.)?(shuffle|data_loader_seed|tokenizer|tokenizer_path|seed|deterministic|full_determinism)",
        "dropped",
        "seeded by data.seed and local.seed",
    ),
    (
        r"trainer\.(default_hdfs_dir|del_local_ckpt_after_load|\w*ckpt\w*|validation_data_dir|rollout_data_dir)",
        "dropped",
        "the project writes into trainer.default_local_dir",
    ),
    (
        r"(reward|reward_model|reward_manager|sandbox_fusion|custom_reward_function)(\..*)?",
        "dropped",
        "of a reward that the project computes in another way",
    ),
    (
        r"data\.(\w*image\w*|\w*video\w*|\w*audio\w*|mm_\w+|return_multi_modal_inputs|processor\w*|tool_config_path|sampler.*|datagen.*|curriculum.*|use_shm|tokenizer|\w*workers?)(\..*)?",
        "dropped",
        "the project's data have no such setting",
    ),
    (
        r"(critic|actor_rollout_ref\.ref|actor_rollout_ref\.actor|actor_rollout_ref\.model|algorithm|data|trainer)\..*",
        "not carried over",
        "the project has no such setting",
    ),
    (r"actor_rollout_ref\.(hybrid_engine|rollout|\w+)(\..*)?", "dropped", "the project has one engine"),
    (r"(model_engine|distillation|async_training|partial_rollout|optim)(\..*)?", "dropped", "another trainer's"),
)

_MODEL_KEY = "actor_rollout_ref.model.path"


@dataclass(frozen=True)
class Remark:
    """What became of one of the run's settings that is not simply carried.

    Attributes:
        key: verl's.
        value: As the run has it.
        what: "lowered", "changed", "dropped", "not carried over" or "unhandled".
        why: Reason.
    """

    key: str
    value: Any
    what: str
    why: str


@dataclass(frozen=True)
class Experiment:
    """A run as a project has it.

    Attributes:
        release: The release of verl that the run was written for, as far as its keys tell.
        algorithm, engine, features: Options of the project.
        recipe: The recipe, where an export says it.
        wanted: Settings by the project's keys; resolved.
        config: The run's config in verl's keys, nested.
        remarks: What is not as it was.
        reward_file: The file of its reward function.
    """

    release: str
    algorithm: str
    engine: str
    features: tuple[str, ...]
    recipe: str
    wanted: Mapping[str, Any] = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    remarks: tuple[Remark, ...] = ()
    reward_file: str | None = None


@dataclass(frozen=True)
class Fit:
    """A run in the config of a release."""

    target: Target
    config: Mapping[str, Any]
    problems: tuple[Problem, ...]


def fit(run: Run, target: Target, others: Sequence[Target] = ()) -> Fit:
    """Compose a run's config with a release's config tree.

    Args:
        run: As it was read.
        target: The release.
        others: Releases whose keys are taken as well, under the names that they have in this one: a script from between
            two releases may have keys of both.
    """
    main = f"{run.config_name}.yaml"
    main = main if main in target.files else "ppo_trainer.yaml"
    if run.resolved is not None:
        config = dict(target.compose().config)
        known = set(flatten(config))
        unknown = tuple(
            Problem(Override("", key, value, f"{key}={value}"), f"there is no key {key}", unknown=True)
            for key, value in flatten(run.resolved).items()
            if key not in known and not any(key.startswith(f"{name}.") for name in known)
        )
        merge(config, run.resolved)
        return Fit(target, config, unknown)
    composed = target.compose((), main)
    config = composed.config
    for body in run.overlay:
        merge(config, body)
    groups = [item for item in run.overrides if item.key in ("model_engine",) or "@" in item.key]
    problems: list[Problem] = []
    if groups:
        again = target.compose(groups, main)
        config = again.config
        for body in run.overlay:
            merge(config, body)
        problems += again.problems
    for item in run.overrides:
        if item in groups or item.key.startswith("hydra"):
            continue
        problem = apply(config, item)
        if problem is not None and problem.unknown:
            release = next((other.release for other in others if item.key in Defaults.of(other)), None)
            if release is None:
                problems.append(problem)
                continue
            name = Renames(release, target.release)(item.key) or item.key
            apply(config, Override("++", name, item.value, item.text))
        elif problem is not None:
            apply(config, Override("++", item.key, item.value, item.text))
    return Fit(target, config, tuple(problems))


def convert(
    run: Run, found: Fit, manifest: Manifest, engine: str | None, renamed: Callable[[str], str | None]
) -> Experiment:
    """Choose a project's options for a run.

    Args:
        run: As it was read.
        found: Its config.
        manifest: Of the project's release.
        engine: Asked for; None: as the run says.
        renamed: From the run's release's keys to the project's.

    Raises:
        UsageError: a value that matters is not known without running the script.
    """
    config = resolve(found.config, run.environment)
    flat = flatten(config)
    _check_known(run, flat)
    remarks: list[Remark] = []
    chosen = _engine(
        str(flat.get("actor_rollout_ref.rollout.name")), engine or run.hints.get("engine"), manifest, remarks
    )
    algorithm = run.hints.get("algorithm") or _algorithm(flat, manifest, remarks)
    features = _features(flat, run, manifest, algorithm, remarks)
    reward_file = flat.get("reward.custom_reward_function.path") or flat.get("custom_reward_function.path")
    return Experiment(
        found.target.release,
        str(algorithm),
        chosen,
        features,
        str(run.hints.get("recipe", "toy")),
        flat,
        config,
        tuple(remarks),
        None if run.hints else reward_file,
    )


def _check_known(run: Run, flat: Mapping[str, Any]) -> None:
    """Refuse what cannot be known and matters; what is about the machine is left to the project."""
    missing: dict[str, list[str]] = {}
    for key, value in flat.items():
        for name in unknowns(str(value)):
            if not _is_about_where(key):
                missing.setdefault(name, []).append(key)
    for item in run.overrides:
        for name in unknowns(item.key):
            missing.setdefault(name, []).append(item.text)
    if missing:
        text = "; ".join(
            f"{readable_name(name)} (in {', '.join(sorted(keys))})" for name, keys in sorted(missing.items())
        )
        names = [name if re.fullmatch(r"\w+", name) else "VAR" for name in sorted(missing)]
        raise UsageError(
            f"{run.file}: not known without running it: {text}",
            hint=" ".join(f"--set {name}=..." for name in dict.fromkeys(names))
            + ("  (set the variable that the command's output is assigned to)" if "VAR" in names else ""),
        )


def readable_name(name: str) -> str:
    """A variable's or a command's name for a message."""
    return f"${name}" if re.fullmatch(r"\w+", name) else name


_ABOUT_WHERE = (
    "global_profiler",
    "ray_",
    "trainer.default_",
    "trainer.experiment_name",
    "trainer.project_name",
    "trainer.rollout_data_dir",
)


def _is_about_where(key: str) -> bool:
    """Keys whose value a project does not need: names of runs, directories, numbers of machines."""
    return (
        key.startswith(_ABOUT_WHERE)
        or key in ("trainer.logger", "trainer.validation_data_dir", "trainer.resume_from_path", "trainer.device")
        or key.endswith(("nnodes", "n_gpus_per_node"))
        or any(re.fullmatch(pattern, key) for pattern, what, _ in NO_LOCAL_MEANING[:14])
    )


def _engine(name: str, asked: str | None, manifest: Manifest, remarks: list[Remark]) -> str:
    if asked is not None:
        return asked
    if name in manifest.engines:
        return name
    chosen = "vllm" if "vllm" in manifest.engines else manifest.engines[0]
    remarks.append(Remark("actor_rollout_ref.rollout.name", name, "changed", f"no such engine here: {chosen}"))
    return chosen


_BY_LOSS = {
    "gspo": "gspo",
    "gpg": "gpg",
    "clip_cov": "clip_cov",
    "kl_cov": "kl_cov",
    "geo_mean": "gmpo",
    "cispo": "cispo",
    "sapo": "sapo",
}


def _algorithm(flat: Mapping[str, Any], manifest: Manifest, remarks: list[Remark]) -> str:
    estimator = str(flat.get("algorithm.adv_estimator", "gae"))
    loss = str(flat.get("actor_rollout_ref.actor.policy_loss.loss_mode", "vanilla"))
    filtered = flat.get("algorithm.filter_groups.enable")
    wish = "ppo" if estimator == "gae" else _BY_LOSS.get(loss, estimator)
    if estimator == "grpo" and loss == "vanilla":
        wish = "dapo" if filtered else "grpo"
        if flat.get("algorithm.norm_adv_by_std_in_grpo") is False:
            wish = "dr_grpo"
    if wish in manifest.algorithms:
        return wish
    fallback = estimator if estimator in manifest.algorithms else "grpo"
    remarks.append(
        Remark(
            "algorithm.adv_estimator",
            estimator,
            "changed",
            f"no preset for it here: starts from {fallback}, with the run's settings",
        )
    )
    return fallback


def _features(
    flat: Mapping[str, Any], run: Run, manifest: Manifest, algorithm: str, remarks: list[Remark]
) -> tuple[str, ...]:
    known = {feature.name for feature in manifest.features}
    if "features" in run.hints:
        return tuple(name for name in run.hints["features"] if name in known)
    manager = flat.get("reward.reward_manager.name") or flat.get("reward_model.reward_manager") or "naive"
    correction = "algorithm.rollout_correction.rollout_is"
    model = str(flat.get(_MODEL_KEY))
    wanted = {
        "dynamic_bsz": flat.get("actor_rollout_ref.actor.use_dynamic_bsz") or flat.get("trainer.balance_batch"),
        "remove_padding": flat.get("actor_rollout_ref.model.use_remove_padding"),
        "lora": (flat.get("actor_rollout_ref.model.lora_rank") or flat.get("actor_rollout_ref.model.lora.rank") or 0)
        > 0,
        "critic": flat.get("algorithm.adv_estimator") == "gae",
        "reward_managers": manager not in ("naive", "env"),
        "scorers": not (flat.get("reward.custom_reward_function.path") or flat.get("custom_reward_function.path")),
        "rollout_correction": flat.get(correction) is not None
        or flat.get("algorithm.rollout_correction.rollout_rs") is not None,
        "multimodal": re.search(r"vl\b|-vl-|vision|minicpm|internvl", model, re.IGNORECASE) is not None,
    }
    found = []
    for name, value in wanted.items():
        if value and name in known:
            found.append(name)
        elif value:
            remarks.append(Remark(name, True, "not carried over", f"verl {manifest.release} has no such feature here"))
    return tuple(sorted(found))


def settings_for(
    experiment: Experiment,
    run: Run,
    project: Mapping[str, Any],
    target: Target,
    renamed_back: Callable[[str], str | None],
) -> tuple[dict[str, Any], list[Remark]]:
    """The project's settings that differ from what it would have anyway.

    Args:
        experiment: The run.
        run: As it was read.
        project: The project's config before, flat and resolved.
        target: The run's release.
        renamed_back: From the project's keys to the run's release's.

    Returns:
        Settings by the project's keys, and remarks on the run's settings that have none.
    """
    flat = dict(experiment.wanted)
    stated = _stated(run)
    run_defaults = Defaults(experiment.config, flat)
    devices = _devices(flat)
    found: dict[str, Any] = {}
    used: set[str] = set()
    remarks: list[Remark] = []
    for key, current in project.items():
        if key.startswith("local."):
            continue
        name = name_in(key, run_defaults, renamed_back)
        if name is None:
            continue
        used.add(name)
        value, remark = _local(key, name, flat.get(name, _ABSENT), current, stated, experiment, bool(run.hints))
        if remark is not None:
            remarks.append(remark)
        if value is not _ABSENT and value != current:
            found[key] = value
    found.update(_open_sections(flat, project))
    used.update(found)
    found.update(_micro_batches(flat, project, devices, stated, remarks))
    found.update(_reward_arguments(flat, project))
    for key, value in run.kept.items():
        if key in project or _is_below_open(key, project):
            if project.get(key, _ABSENT) == value:
                found.pop(key, None)
            else:
                found[key] = value
    remarks += _rest(stated, flat, used, run)
    return found, remarks


class _Absent:
    pass


_ABSENT: Any = _Absent()


def _stated(run: Run) -> set[str]:
    """The keys that the run itself sets."""
    if run.resolved is not None:
        return set(flatten(run.resolved))
    found: set[str] = set()
    for item in run.overrides:
        if isinstance(item.value, dict) and item.value:
            found.update(flatten(item.value, f"{item.key}."))
        elif item.mark != "~":
            found.add(item.key)
    for body in run.overlay:
        found.update(flatten(body))
    return found


def _devices(flat: Mapping[str, Any]) -> int:
    numbers = [flat.get("trainer.nnodes"), flat.get("trainer.n_gpus_per_node")]
    total = 1
    for number in numbers:
        total *= int(str(number)) if str(number).isdigit() else 1
    return max(total, 1)


def _local(
    key: str, name: str, value: Any, current: Any, stated: set[str], experiment: Experiment, exported: bool
) -> tuple[Any, Remark | None]:
    """A setting as the project has it."""
    if value is _ABSENT or (isinstance(value, str) and unknowns(value)):
        if name in stated and isinstance(value, str):
            return _ABSENT, Remark(
                name, readable(value), "dropped", "not known without running the script; the project's own stays"
            )
        return _ABSENT, None
    if exported:
        return value, None
    if key == "actor_rollout_ref.rollout.name":
        return (experiment.engine if current != experiment.engine else _ABSENT), None
    if about_the_machine(key) and name not in stated:
        return _ABSENT, None
    rule = _ONE_DEVICE.get(key)
    if rule is not None and value != rule[0]:
        return rule[0], Remark(name, value, "lowered", rule[1]) if name in stated else None
    if key == "trainer.logger":
        kept = [item for item in ([value] if isinstance(value, str) else value or []) if item in _LOGGERS]
        gone = [item for item in ([value] if isinstance(value, str) else value or []) if item not in _LOGGERS]
        remark = (
            Remark(name, value, "changed", f"the project has no logger {', '.join(map(str, gone))}") if gone else None
        )
        return kept or ["console"], remark
    if key.endswith("nccl_timeout") and current is not None:
        return value, None
    return value, None


_LOGGERS = ("console", "tensorboard", "wandb")
_ONE_DEVICE: dict[str, tuple[Any, str]] = {
    "actor_rollout_ref.rollout.tensor_model_parallel_size": (1, "one device holds the model"),
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size": (1, "one device has whole sequences"),
    "actor_rollout_ref.ref.ulysses_sequence_parallel_size": (1, "one device has whole sequences"),
    "critic.ulysses_sequence_parallel_size": (1, "one device has whole sequences"),
    "actor_rollout_ref.actor.strategy": ("fsdp2", "a project has FSDP2, or one process that holds the model whole"),
    "critic.strategy": ("fsdp2", "a project has FSDP2, or one process that holds the model whole"),
    "actor_rollout_ref.rollout.mode": ("sync", "the project's own process writes the responses"),
}


def _open_sections(flat: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in sections that take anything."""
    return {
        key: value
        for key, value in flat.items()
        if key not in project and _is_below_open(key, project) and not unknowns(str(value))
    }


_OPEN = (
    "data.env.",
    "actor_rollout_ref.model.override_config.",
    "custom_reward_function.reward_kwargs.",
    "data.apply_chat_template_kwargs.",
    "reward_model.reward_kwargs.",
)


def _is_below_open(key: str, project: Mapping[str, Any]) -> bool:
    return key.startswith(_OPEN) and any(name.startswith(key.split(".")[0]) for name in project)


_ROLLOUT = "actor_rollout_ref.rollout"
_GLOBAL = {
    "actor_rollout_ref.actor.ppo_micro_batch_size": "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
    "actor_rollout_ref.ref.log_prob_micro_batch_size": "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu",
    f"{_ROLLOUT}.log_prob_micro_batch_size": f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu",
    "critic.ppo_micro_batch_size": "critic.ppo_micro_batch_size_per_gpu",
    "critic.forward_micro_batch_size": "critic.forward_micro_batch_size_per_gpu",
}


def _micro_batches(
    flat: Mapping[str, Any], project: Mapping[str, Any], devices: int, stated: set[str], remarks: list[Remark]
) -> dict[str, Any]:
    """Sizes for all devices together become sizes of one; a size that is not given stays the project's."""
    found: dict[str, Any] = {}
    for whole, each in _GLOBAL.items():
        value = flat.get(whole)
        if each in project and isinstance(value, int) and whole in stated:
            found[each] = max(value // devices, 1)
            remarks.append(Remark(whole, value, "lowered", f"for {devices} devices together: {each}={found[each]}"))
        elif each in project and flat.get(each, _ABSENT) is None:
            found[each] = project[each]
    return {key: value for key, value in found.items() if value != project[key] or key in flat}


def _reward_arguments(flat: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """`reward_model.reward_kwargs.overlong_buffer_cfg`, which the project has a section for."""
    found = {}
    for prefix in ("reward_model.reward_kwargs.overlong_buffer_cfg.", "reward.reward_kwargs.overlong_buffer_cfg."):
        for key, value in flat.items():
            name = f"reward_model.overlong_buffer.{key.removeprefix(prefix)}"
            if key.startswith(prefix) and name in project:
                found[name] = value
    return found


def _rest(stated: set[str], flat: Mapping[str, Any], used: set[str], run: Run) -> list[Remark]:
    """The run's settings that the project has no key for."""
    remarks = []
    done = set(_GLOBAL)
    for key in sorted(stated):
        if key in used or key in done or key not in flat or key.startswith(_OPEN):
            continue
        if key.startswith("reward_model.reward_kwargs.overlong_buffer_cfg") or (run.hints and _is_about_where(key)):
            continue
        value = readable(flat[key]) if isinstance(flat[key], str) else flat[key]
        for pattern, what, why in NO_LOCAL_MEANING:
            if re.fullmatch(pattern, key):
                remarks.append(Remark(key, value, what, why))
                break
        else:
            remarks.append(Remark(key, value, "unhandled", "neither verl nor the project has such a setting"))
    return remarks


def unhandled(problems: Sequence[Problem]) -> list[Problem]:
    """The overrides that name keys that no release has, which nothing is known about."""
    kept = []
    for problem in problems:
        key = problem.override.key
        if not any(re.fullmatch(pattern, key) for pattern, _, _ in NO_LOCAL_MEANING[:12]):
            kept.append(problem)
    return kept
