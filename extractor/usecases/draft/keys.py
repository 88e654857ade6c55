"""Infer renamed config keys from upstream's config trees."""

from __future__ import annotations

from collections.abc import Mapping

from extractor.pipeline.source import Source
from extractor.usecases.changes.config_keys import upstream_config
from extractor.values.configtree.settings import Setting


def renamed(old: Source, new: Source) -> dict[str, str]:
    """Return old key -> new key.

    A key that is gone is taken for one that came where both end in the same two names; or end in the same name, have
    the same value and stand near each other; or stand in the same section with the same word as value; and where there
    is only one such key. A section of which every key went to one other section stands for all of them.
    """
    before, after = upstream_config(old), upstream_config(new)
    lost = {key: item for key, item in before.items() if key not in after and not item.section and _plain(key)}
    came = {key: item for key, item in after.items() if key not in before and not item.section and _plain(key)}
    found: dict[str, str] = {}
    for key, item in lost.items():
        place = _one(key, item, came)
        if place is not None:
            found[key] = place
    # Two keys cannot become one.
    places = list(found.values())
    found = {key: place for key, place in found.items() if places.count(place) == 1}
    return dict(sorted(_sections(found, before, after).items()))


def _one(key: str, item: Setting, came: Mapping[str, Setting]) -> str | None:
    ranked = sorted(((_rank(key, item, place, other), place) for place, other in came.items()), reverse=True)
    if not ranked or ranked[0][0] == (0, 0) or (len(ranked) > 1 and ranked[1][0] == ranked[0][0]):
        return None
    return ranked[0][1]


def _rank(key: str, item: Setting, place: str, other: Setting) -> tuple[int, int]:
    """Rate how two keys fit: names in common at the end, and at the start; (0, 0) where they do not."""
    ours, theirs = key.split("."), place.split(".")
    end = _common(ours[::-1], theirs[::-1])
    start = _common(ours, theirs)
    if end >= 2 or (end == 1 and item.value == other.value and (start >= 2 or len(ours) == 2)):
        return end, start
    word = item.value.isidentifier() and item.value not in ("true", "false", "null")
    if word and item.value == other.value and ours[:-1] == theirs[:-1]:
        return 1, start
    return 0, 0


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _sections(found: Mapping[str, str], before: Mapping[str, Setting], after: Mapping[str, Setting]) -> dict[str, str]:
    """Say a section once where it went as a whole: the outermost one that is gone and whose keys kept their names."""
    result = dict(found)
    for section in [key for key, item in before.items() if item.section and key not in after]:
        inside = [key for key, item in before.items() if key.startswith(f"{section}.") and not item.section]
        inside = [key for key in inside if _plain(key)]
        targets = {
            found[key].removesuffix(key.removeprefix(section))
            for key in inside
            if key in found and found[key].endswith(key.removeprefix(section))
        }
        if inside and all(key in result for key in inside) and len(targets) == 1:
            (target,) = targets
            if target and all(found[key] == target + key.removeprefix(section) for key in inside):
                result = {key: place for key, place in result.items() if key not in inside}
                result[section] = target
    return result


def _plain(key: str) -> bool:
    return not key.rpartition(".")[2].startswith("_")
