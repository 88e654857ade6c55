"""Translate EasyR1's config and launches to verl's settings."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from extractor.importers.config.templates import read_table
from extractor.importers.runs.placeholders import replace_unknowns
from extractor.importers.runs.report import Remark, is_about_where
from extractor.importers.runs.run import (
    ROWS,
    PromptTemplate,
    Run,
    ScoringFunction,
    is_nothing,
    write_overrides,
)
from extractor.importers.runs.run_folders import RunFolders
from extractor.values import readers
from extractor.values.configtree import Override, flatten
from extractor.values.configtree.compose import apply, read_mapping, read_yaml
from extractor.values.errors import UsageError

MODULE = "verl.trainer.main"
_ACTOR, _CRITIC, _ROLLOUT = "actor_rollout_ref.actor", "critic", "actor_rollout_ref.rollout"
_TABLE = read_table("easyr1")
_NAMES: Mapping[str, str] = _TABLE["names"]
_OF_BOTH: Mapping[str, str] = _TABLE["of_both"]
_MEANS: Mapping[str, str] = _TABLE["means"]
_ANSWERS: Sequence[str] = _TABLE["answers"]
# The last two in earlier releases: a file, or the name of one of the checkout's own scorers.
_REWARD, _SCORE, _SCORER = (f"worker.reward.{name}" for name in ("reward_function", "score_function", "compute_score"))
_SCORERS, _MAIN = "verl/utils/reward_score", "main"
_BOUNDS = ("algorithm.filter_low", "algorithm.filter_high")
_TO_DO = {
    "data.train_files": ROWS,
    "data.val_files": ROWS,
    **dict.fromkeys((_REWARD, _SCORE, _SCORER), "not here: pass the launch script of its checkout, or say --cwd"),
}
_PROMPT, _SYSTEM, _ANSWER = "data.format_prompt", "data.system_prompt", "data.answer_key"
_NOWHERE = {
    _PROMPT: "not here: put what the template adds into the prompts",
    "data.override_chat_template": "not read: put the template into the model's directory",
}
_OF_ITS_WORKERS = re.compile(r"worker\.(?:actor|rollout|ref|critic|reward)\.\w")


def is_launch(module: str, arguments: Sequence[str]) -> bool:
    """Tell whether a launch is EasyR1's, or takes its settings."""
    names_config = any(word.startswith("config=") for word in arguments)
    return module == MODULE or (names_config and any(map(_OF_ITS_WORKERS.match, arguments)))


def translate_launch(path: Path, arguments: Sequence[str], places: RunFolders) -> Run:
    """Translate an EasyR1 launch; its override values are YAML.

    Raises:
        UsageError: its config is not here, or cannot be read.
    """
    stated = dict(word.split("=", 1) for word in arguments if "=" in word and not word.startswith("-"))
    named = stated.pop("config", None)
    file = None if named is None else places.find_like(named)
    if file is None and named is not None:
        raise UsageError(f"{path}: its config {named} is not here", hint="pass --cwd DIR, where the script is started")
    try:
        body = {} if file is None else read_mapping(readers.read_text(file))
        for key, text in stated.items():
            plain, back = replace_unknowns(text)
            apply(body, Override("++", key.lstrip("+"), back(read_yaml(plain)), f"{key}={text}"))
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"{file or path}: cannot be read: {error}", hint="correct it") from None
    return translate_config(path, body, places)


def is_config(body: Any) -> bool:
    """Tell whether a config is EasyR1's."""
    return isinstance(body, Mapping) and {"data", "worker"} <= body.keys() and "actor_rollout_ref" not in body


def translate_config(path: Path, body: Mapping[str, Any], places: RunFolders) -> Run:
    """Translate an EasyR1 config to verl overrides, with remarks."""
    stated = {_TABLE["earlier"].get(key, key): value for key, value in flatten(body).items()}
    whole = {**_TABLE["defaults"], **stated}
    found = {**dict(_name_choices(whole)), **_locate_kl(whole), **_derive_settings(whole)}
    scored_by, written, done = _find_scorer(stated, places), _read_prompt_text(stated, places), list[str]()
    if scored_by is not None:
        done += [key for key in stated if key.startswith("worker.reward.")]
    if written is not None:
        done += [_PROMPT, _SYSTEM, _ANSWER]
    remarks = tuple(_list_remarks(stated, done))
    return Run(str(path), write_overrides(found), remarks=remarks, scoring_function=scored_by, prompt_template=written)


def _list_remarks(stated: Mapping[str, Any], done: Collection[str]) -> Iterator[Remark]:
    """Yield remarks on settings verl lacks, except those in `done`."""
    to_do = {key: why for key, why in _TO_DO.items() if stated.get(key) and key not in done}
    yield from (Remark(key, stated[key], "to do", why) for key, why in to_do.items())
    of_both = {f"worker.{part}.{name}" for part in ("actor", "critic") for name in _OF_BOTH}
    for key, value in sorted(stated.items()):
        is_read = key in _NAMES or key in _TABLE["read"] or key in _TO_DO or key in of_both or key in done
        if is_read or is_nothing(value) or (key == _ANSWER and value in _ANSWERS):
            continue
        if key in _BOUNDS:
            if stated.get("algorithm.online_filtering"):
                yield Remark(key, value, "changed", "left out are prompts whose responses all score alike")
            continue
        elsewhere = is_about_where(key) or key.startswith(tuple(_TABLE["of_the_machine"]))
        what = "dropped" if elsewhere else "not carried over"
        yield Remark(key, value, what, _NOWHERE.get(key, "of EasyR1 alone"))


def _find_scorer(stated: Mapping[str, Any], places: RunFolders) -> ScoringFunction | None:
    """Return the scoring function named as `path/to/file.py:function`, or None."""
    key = next((name for name in (_REWARD, _SCORE, _SCORER) if stated.get(name)), _REWARD)
    said = str(stated.get(key) or "")
    path, _, function = (
        said.partition(":") if key != _SCORER else (f"{_SCORERS}/{said}.py", "", f"{said}_compute_score")
    )
    file = places.find_like(path) if path else None
    if file is None or not (function or _MAIN).isidentifier():
        return None
    inside = f"{key}_kwargs."
    settings = {name.removeprefix(inside): value for name, value in stated.items() if name.startswith(inside)}
    return ScoringFunction(readers.read_text(file), file.name, function or _MAIN, settings, file.parent)


def _read_prompt_text(stated: Mapping[str, Any], places: RunFolders) -> PromptTemplate | None:
    """Return the text added to prompts; None if absent or missing."""
    named, answer = stated.get(_PROMPT), stated.get(_ANSWER)
    file = places.find_like(str(named)) if named else None
    system = str(stated.get(_SYSTEM) or "")
    if (named and file is None) or not (named or system):
        return None
    text = "{{ content }}" if file is None else readers.read_text(file)
    own = str(answer) if answer and answer not in _ANSWERS else None
    return PromptTemplate(text, system, own, _SYSTEM if file is None else file.name)


def _name_choices(whole: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in whole.items():
        if key in _NAMES:
            yield _NAMES[key], None if key in _TABLE["no_limit"] and value == -1 else value
    with_critic = whole["algorithm.adv_estimator"] == "gae"
    for part, section in (("actor", _ACTOR), *([("critic", _CRITIC)] if with_critic else [])):
        for name, verls in _OF_BOTH.items():
            if f"worker.{part}.{name}" in whole:
                yield f"{section}.{verls}", whole[f"worker.{part}.{name}"]


def _locate_kl(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that put KL into the loss, reward, or neither."""
    off, in_loss = bool(whole.get("algorithm.disable_kl")), bool(whole.get("algorithm.use_kl_loss"))
    found = {f"{_ACTOR}.use_kl_loss": in_loss and not off, "algorithm.use_kl_in_reward": not in_loss and not off}
    if off:
        return found
    names = (
        (f"{_ACTOR}.kl_loss_coef", f"{_ACTOR}.kl_loss_type")
        if in_loss
        else ("algorithm.kl_ctrl.kl_coef", "algorithm.kl_penalty")
    )
    return {**found, names[0]: whole["algorithm.kl_coef"], names[1]: whole["algorithm.kl_penalty"]}


def _derive_settings(whole: Mapping[str, Any]) -> dict[str, Any]:
    loss = str(whole.get("worker.actor.loss_type", "default"))
    found: dict[str, Any] = {
        f"{_ACTOR}.loss_agg_mode": _MEANS.get(str(whole.get("worker.actor.loss_avg_mode", "token")), "token-mean"),
        f"{_ACTOR}.entropy_coeff": 0,
        "trainer.resume_mode": "auto" if whole.get("trainer.find_last_checkpoint", True) else "disable",
    }
    if _TABLE["losses"].get(loss, "vanilla") != "vanilla":
        found[f"{_ACTOR}.policy_loss.loss_mode"] = _TABLE["losses"][loss]
    if whole.get("trainer.load_checkpoint_path"):
        found["trainer.resume_mode"] = "resume_path"
    if any(key.startswith("worker.rollout.val_override_config.") for key in whole):
        found[f"{_ROLLOUT}.val_kwargs.do_sample"] = whole.get("worker.rollout.val_override_config.temperature", 1) != 0
    if whole["worker.actor.dynamic_batching"]:
        longest = int(whole.get("data.max_prompt_length", 512)) + int(whole.get("data.max_response_length", 512))
        passes = int(whole["worker.actor.micro_batch_size_per_device_for_update"])
        found[f"{_ACTOR}.ppo_max_token_len_per_gpu"] = longest * passes
    if whole.get("algorithm.online_filtering"):
        key = str(whole.get("algorithm.filter_key", "overall"))
        found["algorithm.filter_groups.metric"] = "seq_reward" if key == "overall" else key
    return found
