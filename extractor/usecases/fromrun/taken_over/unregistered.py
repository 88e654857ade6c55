"""Algorithms and reward managers that a run chooses by name, and its project has under no name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from extractor.usecases.fromrun.meaning import Remark
from extractor.usecases.fromrun.taken_over import managers, registered
from extractor.usecases.fromrun.taken_over.recipient import Recipient, Taken

# What a setting chooses, and the hook that registers it.
_CHOICES = {
    registered.ESTIMATOR: ("estimator", registered.IMPORTED_BY),
    registered.LOSS: ("policy loss", registered.IMPORTED_BY),
    **dict.fromkeys(managers.KEYS, ("manager", managers.IMPORTED_BY)),
}


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
        return name in {*managers.AS_NAIVE, *managers.names(project.code)}
    return registered.is_known(project.code, key, name)
