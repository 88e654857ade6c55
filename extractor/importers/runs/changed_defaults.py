"""Remark on defaults that differ between a run's release and its project."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from extractor.importers.config.keys import READ_BY_THE_ENGINE, list_candidates
from extractor.importers.runs.placeholders import find_unknowns
from extractor.importers.runs.unsupported_keys import KEPT, Remark, find_rule

_Renamed = Callable[[str], str | None]


def remark_on_defaults(
    run: Mapping[str, Any],
    stated: Mapping[str, Any],
    project: Mapping[str, Any],
    usual: Mapping[str, Any],
    renames: tuple[_Renamed, _Renamed],
    said: Sequence[Remark],
) -> Iterator[Remark]:
    """Yield remarks on values that differ without a word.

    Args:
        run: Its config, flat and resolved, with the defaults of its checkout.
        stated: The keys that the run itself sets; of a resolved config nobody knows.
        project: The project's config in the end, flat and resolved.
        usual: The defaults of the project's release: what verl does there that the project has no setting for.
        renames: From the run's release's keys to the project's, and back.
        said: The remarks that there are.
    """
    there, back = renames
    about = {item.key for item in said}
    others = {key: [READ_BY_THE_ENGINE.get(key, key), *list_candidates(key, back)] for key in project}
    places: dict[str, list[str]] = {}
    for key, names in others.items():
        for name in dict.fromkeys(names):
            places.setdefault(name, []).append(key)
    for key, value in run.items():
        names = list_candidates(key, there)
        own = list(dict.fromkeys([*places.get(key, ()), *(name for name in names if name in project)]))
        is_reference = isinstance(value, str) and "${" in value
        if about & {key, *own} or key.endswith("_target_") or find_unknowns(value) or is_reference:
            continue
        # A release may have an old name beside the new one: null, or at its default where the other is said.
        also = [name for item in own for name in others[item] if name in stated or (value is None and name in run)]
        counts = [name for name in ([key] if key in stated else [key, *also]) if name in run]
        default = next((name for name in names if name in usual), None)
        if own:
            if all(not _is_same(run[name], project[item]) for item in own for name in counts):
                where = f"here {own[0]}" if own[0] != key else "here it"
                yield Remark(key, value, "changed" if key in stated else KEPT, f"{where} is {project[own[0]]}")
        elif default is not None and not _is_same(value, usual[default]):
            rule = find_rule(key)
            why = "the project has no such setting" if rule is None else rule.why
            yield Remark(key, value, KEPT, f"{why} (by default it is {usual[default]} in the project's release)")


def _is_same(theirs: Any, ours: Any) -> bool:
    if isinstance(ours, list) and isinstance(theirs, str):
        theirs = [theirs]  # one logger, one file
    return bool(theirs == ours) and isinstance(theirs, bool) == isinstance(ours, bool)
