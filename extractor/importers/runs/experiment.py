"""Choose a project's options for a run."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from extractor.importers.config.keys import JUDGE_ENABLED, REWARD_FILE
from extractor.importers.config.release import ReleaseConfig
from extractor.importers.config.templates import read_table
from extractor.importers.runs.copied_code import named
from extractor.importers.runs.placeholders import find_unknowns, make_readable, make_unknown
from extractor.importers.runs.release_match import ReleaseMatch
from extractor.importers.runs.report import Remark, is_about_where
from extractor.importers.runs.run import Run
from extractor.importers.runs.setting_repairs import SUPPLIED
from extractor.pipeline.render.presets import match_preset
from extractor.values.configtree import flatten, resolve
from extractor.values.errors import UsageError
from extractor.values.manifest import Manifest

# What the servers of a generative reward model take; a classifier has nothing of it.
GENERATIVE = ("reward_router_address", "reward_model_tokenizer")
# Loggers of the feature `trackers`.
SERVICES = ("mlflow", "swanlab", "trackio", "wandb")
_MANAGER = ("reward.reward_manager.name", "reward_manager.name", "reward_model.reward_manager")  # 0.7.0 has a third
_OFFLOAD = re.compile(
    r"(actor_rollout_ref\.(actor|ref)|critic\.model)\.fsdp_config\.(param_offload|optimizer_offload|offload_policy)"
)
_MODEL = "actor_rollout_ref.model"
_OF_PICTURES = re.compile(r"vl\b|-vl-|vision|minicpm|internvl", re.IGNORECASE)


@dataclass(frozen=True)
class Experiment:
    """A run's options and settings for a project.

    Attributes:
        algorithm, engine, features: Options of the project.
        wanted: Settings by the project's keys; resolved.
        config: The run's config in verl's keys, nested.
        remarks: What is not as it was.
        function: The text of its reward function; None where it names none, or one that is not there.
    """

    algorithm: str
    engine: str
    features: tuple[str, ...]
    wanted: Mapping[str, Any] = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    remarks: tuple[Remark, ...] = ()
    function: str | None = field(default=None, repr=False)


def choose_experiment(
    run: Run,
    found: ReleaseMatch,
    manifest: Manifest,
    engine: str | None,
    aside: Collection[str] = (),
) -> Experiment:
    """Choose a project's options for a run.

    Raises:
        UsageError: a value that matters is not known without running the script.
    """
    config = resolve(found.config, run.environment)
    flat = flatten(config)
    _check_known(run, _select_verl_settings(flat, flatten(found.target.compose().config)), aside)
    if flat.get("algorithm.adv_estimator", "gae") is None:
        raise UsageError(
            f"{run.file}: algorithm.adv_estimator is null: its trainer learns without advantages, as none here does",
            hint="pass a run of main_ppo, or say +algorithm.adv_estimator=... in it",
        )
    remarks: list[Remark] = []
    name = str(flat.get("actor_rollout_ref.rollout.name"))
    chosen = engine or _choose_engine(name, manifest, remarks)
    algorithm = _choose_algorithm(run, flat, manifest, remarks)
    function = _read_function(flat, run, found.target)
    modules = [module for role in manifest.roles if role.name == "reward" for module in role.modules]
    plain = ("env", *(module.rpartition(".")[2] for module in modules))  # which every project of the release has
    wanted = [*_list_wanted_features(flat, run, found.target, function, plain)]
    if chosen == "hf" and flat.get("actor_rollout_ref.rollout.calculate_log_probs"):
        wanted.append("watch")  # others look at what their engine says in any project
    features = _choose_features(wanted, manifest, remarks)
    return Experiment(algorithm, chosen, features, flat, config, tuple(remarks), function)


def _select_verl_settings(flat: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that belong to verl's config or open sections."""
    sections = {key.rpartition(".")[0] for key in known}
    tops = {key.partition(".")[0] for key in known}
    return {
        key: value
        for key, value in flat.items()
        if key in known or (key.partition(".")[0] in tops and key.rpartition(".")[0] not in sections)
    }


def _check_known(run: Run, flat: Mapping[str, Any], aside: Collection[str]) -> None:
    """Refuse unknown values, except those about the machine."""
    missing: dict[str, list[str]] = {}
    for key, value in flat.items():
        names = find_unknowns(value)
        if key in SUPPLIED and not any(re.fullmatch(r"\w+", name) for name in names):
            continue  # what a command prints, a person hands to main.py
        for name in names if not is_about_where(key) and key not in aside else ():
            missing.setdefault(name, []).append(key)
    for item in run.overrides:
        for name in find_unknowns(item.key):
            missing.setdefault(name, []).append(item.text)
    if not missing:
        return
    shown = [f"{make_readable(make_unknown(name))} (in {', '.join(sorted(missing[name]))})" for name in sorted(missing)]
    names_to_set: list[str] = []
    for name in sorted(missing):
        is_sum = name.startswith("$((") and "$(" not in name[3:]
        found = re.findall(r"[A-Za-z_]\w*", name) if is_sum else [name if re.fullmatch(r"\w+", name) else "VAR"]
        names_to_set += [one for one in found if one not in names_to_set]
    hint = " ".join(f"--set {name}=..." for name in names_to_set)
    if "VAR" in names_to_set:
        hint += "  (set the variable that the command's output is assigned to)"
    raise UsageError(f"{run.file}: not known without running it: {'; '.join(shown)}", hint=hint)


def _choose_engine(name: str, manifest: Manifest, remarks: list[Remark]) -> str:
    """Return the run's engine, or the project's default with a remark."""
    if name in manifest.engines:
        return name
    chosen = "vllm" if "vllm" in manifest.engines else manifest.engines[0]
    why = "not given" if name in ("???", "None") else "no such engine here"
    remarks.append(Remark("actor_rollout_ref.rollout.name", name, "changed", f"{why}: {chosen}"))
    return chosen


def _choose_algorithm(run: Run, flat: Mapping[str, Any], manifest: Manifest, remarks: list[Remark]) -> str:
    """Return the run's preset, or grpo with a remark."""
    estimator = str(flat.get("algorithm.adv_estimator", "gae"))
    found = match_preset(flat, manifest)
    if found is None and estimator not in manifest.algorithms:
        why = "no preset for it here: starts from grpo, with the run's settings"
        remarks.append(Remark("algorithm.adv_estimator", estimator, "changed", why))
        return "grpo"
    return found or estimator


def _read_function(flat: Mapping[str, Any], run: Run, target: ReleaseConfig) -> str | None:
    """Return the text of the run's reward function, or None."""
    path = next((str(flat[name]) for name in REWARD_FILE if flat.get(name)), None)
    try:
        return None if path is None else named.read_function_text(run.places, path, target.source)
    except (SyntaxError, UsageError, OSError):
        return None


def list_loggers(value: Any) -> list[Any]:
    """Return the list of `trainer.logger`; it may be a single name."""
    return [value] if isinstance(value, str) else list(value or [])


def _choose_features(wanted: Iterable[str], manifest: Manifest, remarks: list[Remark]) -> tuple[str, ...]:
    """Return the features the release has; remark on the others."""
    known = {feature.name for feature in manifest.features}
    found = []
    for name in wanted:
        if name in known:
            found.append(name)
        else:
            why = f"verl {manifest.release} has no such feature here"
            remarks.append(Remark(name, True, "not carried over", why))
    return tuple(sorted(found))


def _list_wanted_features(
    flat: Mapping[str, Any], run: Run, target: ReleaseConfig, function: str | None, plain: Collection[str]
) -> Iterator[str]:
    """Yield the features that a run needs.

    Args:
        flat: Its settings.
        run: As it was read.
        target: Its release.
        function: The text of its reward function.
        plain: The reward managers that every project has.
    """
    table = read_table("keys")
    # A release may know the old name beside the new one: the one that the run uses counts.
    managers = [str(flat[key]) for key in _MANAGER if flat.get(key) not in (None, *plain)]
    is_server = any(name in (function or "") for name in GENERATIVE)
    needs = {
        "lora": (flat.get(f"{_MODEL}.lora_rank") or flat.get(f"{_MODEL}.lora.rank") or 0) > 0
        or flat.get(f"{_MODEL}.lora_adapter_path") is not None,
        "critic": flat.get("algorithm.adv_estimator") == "gae",
        "reward_managers": bool(managers) and target.reads(managers[0]),
        "scorers": not any(map(flat.get, REWARD_FILE)) or "default_compute_score" in (function or ""),
        "trackers": any(name in SERVICES for name in list_loggers(flat.get("trainer.logger"))),
        "reward_model": any(map(flat.get, JUDGE_ENABLED)) and not is_server,
        "offload": any(bool(value) for key, value in flat.items() if _OFFLOAD.fullmatch(key)),
        "dataset_classes": flat.get("data.custom_cls.path") is not None or run.prompt_template is not None,
        "multimodal": _OF_PICTURES.search(str(flat.get(f"{_MODEL}.path"))) is not None
        or (run.scoring_function is None and "data.image_key" in {override.key for override in run.overrides}),
    }
    found = [name for name, is_needed in needs.items() if is_needed]
    found += [name for name, keys in table["features_if_true"].items() if any(map(flat.get, keys))]
    found += [name for name, keys in table["features_if_set"].items() if any(flat.get(key) is not None for key in keys)]
    yield from dict.fromkeys(found)
