"""Algorithms, reward managers and other choices that a run makes by name, and its project has under no name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over import managers, registered
from extractor.importers.runs.taken_over.recipient import Recipient, Taken
from extractor.values.setting_types import PATH, types_and_words

# What a setting chooses, and the hook that registers it.
_CHOICES = {
    registered.ESTIMATOR: ("estimator", registered.IMPORTED_BY),
    registered.LOSS: ("policy loss", registered.IMPORTED_BY),
    **dict.fromkeys(managers.KEYS, ("manager", managers.IMPORTED_BY)),
}

# What a project takes one of few values for, and its own trainer alone knows others.
_ONE_OF = (
    "actor_rollout_ref.actor.kl_loss_type",
    "actor_rollout_ref.actor.loss_agg_mode",
    "actor_rollout_ref.actor.optim.lr_scheduler_type",
    "actor_rollout_ref.actor.optim.warmup_style",
    "algorithm.kl_ctrl.type",
    "algorithm.kl_penalty",
    "data.truncation",
)


def remarks(project: Recipient) -> Iterator[Remark]:
    """Yield a "to do" for each: where to register it, and the line of the run's checkout that knows it."""
    for key, (what, hook) in _CHOICES.items():
        name = project.settings.get(key)
        if name is None or _is_there(project, key, str(name)):
            continue
        place = registered.place_of(str(name), project.places)
        at = f"; the run's checkout names it in {place}" if place else ""
        why = f"no {what} of this name in the project: register it in {project.package}/{hook}.py{at}"
        yield Remark(key, name, "to do", why)
    for key, values in _values(project).items():
        name = project.settings.get(key)
        if isinstance(name, (str, int, float)) and str(name) not in values:
            place = registered.place_of(str(name), project.places)
            at = f"; the run's checkout names it in {place}" if place else ""
            yield Remark(key, name, "to do", f"verl has no such {key.rpartition('.')[2]}, only {', '.join(values)}{at}")


def _values(project: Recipient) -> dict[str, tuple[str, ...]]:
    """Return what a project takes for the settings that have few values."""
    _, words = types_and_words(project.text_of(PATH))
    return {key: tuple(map(str, words[key])) for key in _ONE_OF if key in words}


def put_aside(project: Recipient, before: Mapping[str, Any]) -> tuple[Taken, dict[str, Any]]:
    """Leave the project's own in their place; returns that, and the settings that are put aside.

    Args:
        project: The project and the run.
        before: The project's config without the run's settings.
    """
    own: dict[str, Any] = {}
    aside: dict[str, Any] = {}
    said: list[Remark] = []
    for remark in remarks(project):
        key = remark.key
        own[key] = managers.PLAIN if key in managers.KEYS else before.get(key)
        aside[key] = remark.value
        said.append(Remark(key, remark.value, "to do", f"{own[key]} in its place: {remark.why}"))
    return Taken(project.tree, said, own), aside


def _is_there(project: Recipient, key: str, name: str) -> bool:
    if key in managers.KEYS:
        return name in {managers.PLAIN, *managers.AS_NAIVE, *managers.names(project.code)}
    return registered.is_known(project.code, key, name)
