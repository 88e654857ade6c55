"""Runs from before `algorithm.rollout_correction`: their importance weights, under its names.

Rollouts come from an engine whose probabilities are not the trainer's. Copies of verl between 0.5.0 and 0.6.0 weigh a
token's loss by the ratio of both, cut off at `tis_imp_ratio_cap` (`verl/workers/actor/dp_actor.py` of then); 0.6.0
has `algorithm.rollout_is_threshold` and what goes with it (`verl/trainer/ppo/mismatch_helper.py`).
"""

from __future__ import annotations

from typing import Any

from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.renaming import flat_settings, renamed
from extractor.importers.runs.run import Run

CAP = "actor_rollout_ref.actor.tis_imp_ratio_cap"
_BEFORE = "algorithm.rollout_is"
THRESHOLD, LOWER, LEVEL, MODE, VETO = (
    f"{_BEFORE}_{name}" for name in ("threshold", "threshold_lower", "level", "mode", "veto_threshold")
)
NOW = "algorithm.rollout_correction"
# What 0.6.0 leaves unsaid.
_DEFAULTS = {_BEFORE: False, LEVEL: "token", MODE: "truncate"}


def with_corrections_names(run: Run) -> Run:
    """Return a run whose importance weights are said as releases since 0.6.1 say them, and remarks on that."""
    if run.hints:
        return run
    flat = flat_settings(run)
    if CAP in flat:
        return _named(run, {CAP}, *_of_a_cap(flat[CAP]), flat, CAP)
    if THRESHOLD in flat:
        said = {**_DEFAULTS, **{key: value for key, value in flat.items() if value is not None}}
        found, why = _of_a_threshold(said, flat[THRESHOLD])
        if found is not None:
            return _named(run, {_BEFORE, THRESHOLD, LOWER, LEVEL, MODE, VETO}, found, why, flat, THRESHOLD)
    return run


def _of_a_cap(cap: Any) -> tuple[dict[str, Any], str]:
    if not _is_number(cap) or cap <= 0:
        return {}, "no importance weights"
    return {f"{NOW}.rollout_is": "token", f"{NOW}.rollout_is_threshold": cap}, "the same weights"


def _of_a_threshold(said: dict[str, Any], threshold: Any) -> tuple[dict[str, Any] | None, str]:
    """Return the settings of today, None where there are none, and a reason."""
    if not _is_number(threshold):
        return {}, "no importance weights"
    if said[_BEFORE] is not True:
        return {}, "only measured: a project measures how far engine and trainer are apart anyway"
    level = said[LEVEL]
    if level not in ("token", "sequence") or said[MODE] not in ("truncate", "mask"):
        return None, ""
    found = {f"{NOW}.rollout_is": level, f"{NOW}.rollout_is_threshold": threshold}
    if _is_number(said.get(VETO)):
        found[f"{NOW}.rollout_token_veto_threshold"] = said[VETO]
    why = "the same weights"
    if said[MODE] == "mask":
        lower = said.get(LOWER)
        found |= {f"{NOW}.rollout_rs": level, f"{NOW}.rollout_rs_threshold": threshold}
        found |= {f"{NOW}.rollout_rs_threshold_lower": lower} if _is_number(lower) else {}
        why = "what lay outside the bounds weighed nothing there; here it is not in the loss' mean either"
    return found, why


def _named(run: Run, gone: set[str | None], found: dict[str, Any], why: str, flat: dict[str, Any], key: str) -> Run:
    here = " ".join(f"{name}={value}" for name, value in found.items())
    action = "changed" if found else "dropped"
    stated = {item.key: item.value for item in run.overrides if item.key in gone}
    beside = "renamed" if found else action
    remarks = [Remark(name, value, beside, f"with {key}") for name, value in stated.items() if name != key]
    if found or key in stated:  # a default that is off is no statement
        remarks.append(Remark(key, flat[key], action, f"{why}: here it is {here}" if found else why))
    return renamed(run, gone, found, remarks)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
