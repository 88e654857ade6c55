"""Settings whose default differs between the run's release of verl and the project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from extractor.importers.config.keys import READ_BY_THE_ENGINE, candidates
from extractor.importers.config.release import VerlDefaults
from extractor.importers.runs.placeholders import unknowns
from extractor.importers.runs.unsupported_keys import KEPT, Remark, rule_for
from extractor.values.configtree import flatten

_Renamed = Callable[[str], str | None]
_KEY = re.compile(r"[A-Za-z_]\w*(?:\.\w+)+")


def remarks(
    run: Mapping[str, Any],
    stated: Mapping[str, Any],
    project: Mapping[str, Any],
    release: VerlDefaults,
    renames: tuple[_Renamed, _Renamed],
    said: Sequence[Remark],
) -> Iterator[Remark]:
    """Yield a remark on each value of a run that its project has not, and that no remark is about.

    Args:
        run: Its config, flat and resolved.
        stated: The keys that the run itself sets; of a resolved config nobody knows.
        project: The project's config in the end, flat and resolved.
        release: The defaults of the project's release: what verl does there that the project has no setting for.
        renames: From the run's release's keys to the project's, and back.
        said: The remarks that there are.
    """
    there, back = renames
    about = {item.key for item in said}
    others = {key: [READ_BY_THE_ENGINE.get(key, key), *candidates(key, back)] for key in project}
    places: dict[str, dict[str, None]] = {}
    for key, names in others.items():
        for name in names:
            places.setdefault(name, {})[key] = None
    by_default = flatten(release.config)
    for key, value in run.items():
        names = candidates(key, there)
        own = list(dict.fromkeys([*places.get(key, ()), *(name for name in names if name in project)]))
        if about & {key, *own} or key.endswith("_target_") or unknowns(value):
            continue
        if own:
            # A release may have an old name beside the new one: null, or at its default where the other is said.
            also = [name for item in own for name in others[item] if name in stated or (value is None and name in run)]
            counts = [key] if key in stated else [key, *also]
            if all(not _same(run[name], project[item]) for item in own for name in counts if name in run):
                where = f"here {own[0]}" if own[0] != key else "here it"
                yield Remark(key, value, "changed" if key in stated else KEPT, f"{where} is {project[own[0]]}")
            continue
        default = next((name for name in names if name in release.flat), None)
        if default is None or _same(value, release.flat[default]):
            continue
        if not any(_same(value, run[name]) for name in _followed(by_default.get(default)) if name in run):
            rule = rule_for(key)
            why = "the project has no such setting" if rule is None else rule.why
            why = f"{why} (by default it is {release.flat[default]} in the project's release)"
            yield Remark(key, value, KEPT, why)


def with_defaults_of_its_own(
    run: Mapping[str, Any],
    defaults: Mapping[str, Any],
    project: Mapping[str, Any],
    release: VerlDefaults,
    renames: tuple[_Renamed, _Renamed],
) -> dict[str, Any]:
    """Return a run's config with its checkout's defaults of keys that it has under no other name.

    Args:
        run: Its config, flat and resolved, in the names of the release that it fits.
        defaults: The checkout's config, flat.
        project: The project's config.
        release: The defaults of its release.
        renames: From the run's release's keys to the project's, and back.
    """
    there, back = renames
    alone = {
        key: defaults[key]
        for key in project
        if key in defaults and not any(name in run for name in (READ_BY_THE_ENGINE.get(key), *candidates(key, back)))
    }
    for key in defaults:
        names = () if key in project or key in run else candidates(key, there)
        if any(name in release.flat for name in names) and not any(name in project or name in run for name in names):
            alone[key] = defaults[key]
    return {**run, **{key: value for key, value in alone.items() if not _followed(value)}}


def _followed(value: Any) -> list[str]:
    """Return the keys that a value names: `${oc.select:actor_rollout_ref.rollout.n,1}`."""
    return _KEY.findall(value) if isinstance(value, str) and "${" in value else []


def _same(theirs: Any, ours: Any) -> bool:
    if isinstance(ours, list) and isinstance(theirs, str):
        theirs = [theirs]  # one logger, one file
    return bool(theirs == ours) and isinstance(theirs, bool) == isinstance(ours, bool)
