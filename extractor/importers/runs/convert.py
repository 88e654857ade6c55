"""From a run to a project's options."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from extractor.importers.config.release import Target
from extractor.importers.runs import prime, reward_model
from extractor.importers.runs.bash import find_choices
from extractor.importers.runs.fitting import Fit
from extractor.importers.runs.meaning import Remark, is_about_where
from extractor.importers.runs.other_libraries.translation import ScoredBy
from extractor.importers.runs.run import Run
from extractor.importers.runs.supplied import SUPPLIED
from extractor.importers.runs.taken_over import named_files
from extractor.importers.runs.unknowns import readable, unknowns
from extractor.pipeline.render.presets import preset_of
from extractor.values.configtree import flatten, resolve
from extractor.values.errors import UsageError
from extractor.values.manifest import Manifest

_MODEL_KEY = "actor_rollout_ref.model.path"
# Loggers of the feature `trackers`.
SERVICES = ("mlflow", "swanlab", "trackio", "wandb")


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
        function: The text of its reward function; None where it names none, or one that is not there.
    """

    release: str
    algorithm: str
    engine: str
    features: tuple[str, ...]
    recipe: str
    wanted: Mapping[str, Any] = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    remarks: tuple[Remark, ...] = ()
    function: str | None = field(default=None, repr=False)


def convert(
    run: Run,
    found: Fit,
    manifest: Manifest,
    engine: str | None,
    renamed: Callable[[str], str | None],
    aside: Collection[str] = (),
) -> Experiment:
    """Choose a project's options for a run.

    Args:
        run: As it was read.
        found: Its config.
        manifest: Of the project's release.
        engine: Asked for; None: as the run says.
        renamed: From the run's release's keys to the project's.
        aside: Settings that no release has: what they are need not be known.

    Raises:
        UsageError: a value that matters is not known without running the script.
    """
    config = resolve(found.config, run.environment)
    flat = flatten(config)
    _check_known(run, _of_verl(flat, flatten(found.target.compose().config)), aside)
    if flat.get("algorithm.adv_estimator", "gae") is None:
        raise UsageError(
            f"{run.file}: algorithm.adv_estimator is null: its trainer learns without advantages, as none here does",
            hint="pass a run of main_ppo, or say +algorithm.adv_estimator=... in it",
        )
    remarks: list[Remark] = []
    chosen = _engine(
        str(flat.get("actor_rollout_ref.rollout.name")), engine or run.hints.get("engine"), manifest, remarks
    )
    telling = {**flat, prime.ENABLED: True} if run.is_prime else flat
    algorithm = run.hints.get("algorithm") or _algorithm(telling, manifest, remarks)
    function = _function(flat, run, found.target)
    features = _features(flat, run, manifest, found.target, remarks, function)
    return Experiment(
        found.target.release,
        str(algorithm),
        chosen,
        features,
        str(run.hints.get("recipe", "toy")),
        flat,
        config,
        tuple(remarks),
        function,
    )


def _of_verl(flat: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are of verl's config: its own, and those of sections that take anything."""
    sections = {key.rpartition(".")[0] for key in known}
    tops = {key.partition(".")[0] for key in known}
    return {
        key: value
        for key, value in flat.items()
        if key in known or (key.partition(".")[0] in tops and key.rpartition(".")[0] not in sections)
    }


def _to_be_set(unknown: str) -> list[str]:
    """Return the variables that would make a part known; VAR: the one that a command's output is assigned to."""
    if unknown.startswith("$((") and "$(" not in unknown[3:]:
        return re.findall(r"[A-Za-z_]\w*", unknown)
    return [unknown if re.fullmatch(r"\w+", unknown) else "VAR"]


def _check_known(run: Run, flat: Mapping[str, Any], aside: Collection[str]) -> None:
    """Refuse what cannot be known and matters; what is about the machine is left to the project."""
    missing: dict[str, list[str]] = {}
    for key, value in flat.items():
        named = unknowns(value)
        if key in SUPPLIED and not any(re.fullmatch(r"\w+", name) for name in named):
            continue  # what a command prints, a person hands to main.py
        if named and all(map(_DATE.match, named)) and not _DATE.fullmatch(readable(str(value))):
            continue  # a name or a path, which is new each time
        for name in named:
            if not is_about_where(key) and key not in aside:
                missing.setdefault(name, []).append(key)
    for item in run.overrides:
        for name in unknowns(item.key):
            missing.setdefault(name, []).append(item.text)
    if missing:
        shown = [f"{readable_name(name)} (in {', '.join(sorted(keys))})" for name, keys in sorted(missing.items())]
        more = f"; and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
        names = list(dict.fromkeys(one for name in sorted(missing) for one in _to_be_set(name)))
        if more:
            hint = f"--set @FILE, a file with lines VAR=VALUE, as bash writes them: {', '.join(names)}"
        else:
            hint = " ".join(f"--set {name}=..." for name in names)
        if "VAR" in names:
            hint += "  (set the variable that the command's output is assigned to)"
        compared = [(name, found) for name in names[:_SHOWN] if (found := find_choices(run.script, name))]
        hint += "".join(f"  (the script compares ${name} with {', '.join(found[:_SHOWN])})" for name, found in compared)
        raise UsageError(f"{run.file}: not known without running it: {'; '.join(shown[:_SHOWN])}{more}", hint=hint)


_DATE = re.compile(r"\$\(date\b[^()]*\)")
# Variables that an error names, with what they are in.
_SHOWN = 6


def readable_name(name: str) -> str:
    """Return a variable's or a command's name for a message."""
    return f"${name}" if re.fullmatch(r"\w+", name) else name


_NOT_GIVEN = ("???", "None")


def _engine(name: str, asked: str | None, manifest: Manifest, remarks: list[Remark]) -> str:
    if asked is not None:
        return asked
    if name in manifest.engines:
        return name
    chosen = "vllm" if "vllm" in manifest.engines else manifest.engines[0]
    why = "not given" if name in _NOT_GIVEN else "no such engine here"
    remarks.append(Remark("actor_rollout_ref.rollout.name", name, "changed", f"{why}: {chosen}"))
    return chosen


def _algorithm(flat: Mapping[str, Any], manifest: Manifest, remarks: list[Remark]) -> str:
    estimator = str(flat.get("algorithm.adv_estimator", "gae"))
    found = preset_of(flat, manifest) or (estimator if estimator in manifest.algorithms else None)
    if found is not None:
        return found
    fallback = "grpo"
    remarks.append(
        Remark(
            "algorithm.adv_estimator",
            estimator,
            "changed",
            f"no preset for it here: starts from {fallback}, with the run's settings",
        )
    )
    return fallback


_MANAGER = ("reward.reward_manager.name", "reward_manager.name", "reward_model.reward_manager")
_PLAIN_MANAGERS = ("naive", "env")
_BY_TOKENS = (
    "actor_rollout_ref.actor.use_dynamic_bsz",
    "actor_rollout_ref.ref.log_prob_use_dynamic_bsz",
    "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz",
    "critic.use_dynamic_bsz",
    "trainer.balance_batch",
)
_OFFLOAD = re.compile(
    r"(actor_rollout_ref\.(actor|ref)|critic\.model)\.fsdp_config\.(param_offload|optimizer_offload|offload_policy)"
)
_WITHOUT_PADDING = ("actor_rollout_ref.model.use_remove_padding", "critic.model.use_remove_padding")


def _reward_manager(flat: Mapping[str, Any]) -> str:
    # A release may know the old name beside the new one: the one that the run uses counts.
    named = (flat.get(key) for key in _MANAGER)
    return next((str(name) for name in named if name not in (None, *_PLAIN_MANAGERS)), "naive")


def _is_judged(flat: Mapping[str, Any], run: Run, function: str | None) -> bool:
    """Tell whether a classifier judges responses, not the trained model of PRIME nor a server that a function asks."""
    enabled = any(flat.get(key) for key in reward_model.ENABLED)
    return enabled and not run.is_prime and not any(name in (function or "") for name in reward_model.GENERATIVE)


def _reward_file(flat: Mapping[str, Any]) -> str | None:
    names = ("reward.custom_reward_function.path", "custom_reward_function.path")
    return next((str(flat[name]) for name in names if flat.get(name)), None)


def _function(flat: Mapping[str, Any], run: Run, target: Target) -> str | None:
    path = _reward_file(flat)
    try:
        return None if path is None else named_files.function_text(run.places, path, target.source)
    except (SyntaxError, UsageError, OSError):
        return None


def logger_names(value: Any) -> list[Any]:
    """Return what `trainer.logger` lists; it may be a single name."""
    return [value] if isinstance(value, str) else list(value or [])


def _features(
    flat: Mapping[str, Any],
    run: Run,
    manifest: Manifest,
    target: Target,
    remarks: list[Remark],
    function: str | None,
) -> tuple[str, ...]:
    known = {feature.name for feature in manifest.features}
    if "features" in run.hints:
        return tuple(name for name in run.hints["features"] if name in known)
    manager = _reward_manager(flat)
    correction = "algorithm.rollout_correction.rollout_is"
    model = str(flat.get(_MODEL_KEY))
    wanted = {
        "dynamic_bsz": any(flat.get(key) for key in _BY_TOKENS),
        "remove_padding": any(flat.get(key) for key in _WITHOUT_PADDING),
        "lora": (flat.get("actor_rollout_ref.model.lora_rank") or flat.get("actor_rollout_ref.model.lora.rank") or 0)
        > 0
        or flat.get("actor_rollout_ref.model.lora_adapter_path") is not None,
        "critic": flat.get("algorithm.adv_estimator") == "gae",
        prime.FEATURE: run.is_prime,
        "distillation": bool(flat.get("distillation.enabled")),
        "dynamic_sampling": any(flat.get(key) for key in ("algorithm.filter_groups.enable", "data.gen_batch_size")),
        "reward_forms": isinstance(run.scored_by, ScoredBy),
        "reward_logs": any(flat.get(f"local.reward.{key}") for key in ("log_dir", "debug_log")),
        "reward_processes": any(flat.get(f"local.reward.{key}") for key in ("num_workers", "timeout")),
        "special_tokens": bool(flat.get("local.keep_special_tokens")),
        "reward_managers": manager not in _PLAIN_MANAGERS and target.reads(manager),
        "scorers": _reward_file(flat) is None or "default_compute_score" in (function or ""),
        "rollout_correction": flat.get(correction) is not None
        or flat.get("algorithm.rollout_correction.rollout_rs") is not None,
        "trackers": any(name in SERVICES for name in logger_names(flat.get("trainer.logger"))),
        "early_stopping": flat.get("local.early_stopping.patience") is not None,
        "overlap": bool(flat.get("local.rollout.ahead")) or flat.get("local.reward.early") is not None,
        "reward_model": _is_judged(flat, run, function),
        "episodes": bool(flat.get("actor_rollout_ref.rollout.multi_turn.enable")),
        "verl_checkpoints": any(flat.get(key) for key in ("local.checkpoint.begin_from", "trainer.resume_from_path")),
        "offload": any(bool(value) for key, value in flat.items() if _OFFLOAD.fullmatch(key)),
        "multimodal": re.search(r"vl\b|-vl-|vision|minicpm|internvl", model, re.IGNORECASE) is not None,
    }
    found = []
    for name, value in wanted.items():
        if value and name in known:
            found.append(name)
        elif value:
            remarks.append(Remark(name, True, "not carried over", f"verl {manifest.release} has no such feature here"))
    return tuple(sorted(found))
