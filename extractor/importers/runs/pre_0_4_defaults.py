"""Apply old defaults to runs from before the first supported release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from packaging.version import Version

from extractor.importers.config.templates import read_table
from extractor.importers.runs.run import Run
from extractor.values import releases
from extractor.values.configtree import flatten
from extractor.values.configtree.compose import merge

_KL_LOSS = "actor_rollout_ref.actor.use_kl_loss"
_KL_IN_REWARD = "algorithm.use_kl_in_reward"
_COEFFICIENT = "algorithm.kl_ctrl.kl_coef"


def add_earlier_defaults(run: Run) -> Run:
    """Return the run, with old defaults if it predates supported releases.

    Until then KL went into the reward of every run that did not have it in the loss, and the entropy counted.
    """
    why = is_earlier(run)
    if why is None:
        return run
    before: dict[str, Any] = {"actor_rollout_ref": {"actor": {"entropy_coeff": 0.001}}}
    in_loss = bool(_find_said(run, _KL_LOSS))
    before["algorithm"] = {"use_kl_in_reward": not in_loss}
    note = (
        f"written for verl before {releases.list_supported()[0]} ({why}): its defaults are taken, "
        f"entropy_coeff=0.001 and {_KL_IN_REWARD}={str(not in_loss).lower()}, "
        "where neither the run nor its checkout says anything else"
    )
    merge(before, run.defaults)
    return replace(run, defaults=before, notes=(*run.notes, note))


def is_earlier(run: Run) -> str | None:
    """Say why a run predates the first release, or return None."""
    if run.resolved is not None:
        return None
    if run.version is not None:
        first = Version(releases.list_supported()[0])
        return f"its checkout is {run.version}" if Version(run.version).release < first.release else None
    marks, table = {item.key: item.mark for item in run.overrides}, read_table("keys")
    if any(marks.get(key) == "" for key in table["new_in_0_4"]):
        return None
    said = next((f"it sets {key}" for key in table["gone_since_0_4"] if key in marks), None)
    said = said or next((f"it adds {key} with a +" for key in table["new_in_0_4"] if marks.get(key) == "+"), None)
    if said is None and marks.get(_COEFFICIENT) == "" and not _find_said(run, _KL_LOSS):
        said = f"it sets {_COEFFICIENT}, and not where it counts"
    return said


def _find_said(run: Run, key: str) -> Any:
    """Return what the run or its configs set a key to."""
    found = next((item.value for item in reversed(run.overrides) if item.key == key), None)
    bodies = [*reversed(run.overlay), run.defaults]
    return found if found is not None else next((value for body in bodies if (value := flatten(body).get(key))), None)
