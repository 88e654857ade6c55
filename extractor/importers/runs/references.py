"""Settings that follow others, `${data.max_response_length}`: in a run, and in its project."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

_NAMED = re.compile(r"\$\{([\w.]+)\}")


def kept_as_references(
    settings: Mapping[str, Any],
    stated: Mapping[str, Any],
    project: Mapping[str, Any],
    following: Collection[str],
    wanted: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take settings that follow others out of literal ones; what they follow is as the run has it.

    Args:
        settings: By the project's keys, resolved.
        stated: What the run itself sets, as it is written.
        project: The project's config, by key.
        following: Those of its keys whose value names others.
        wanted: The run's config, by the project's keys, resolved.

    Returns:
        The settings to write, and the values that those which are references now must come to.
    """
    written: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for key, value in settings.items():
        said = stated.get(key)
        named = _NAMED.findall(said) if isinstance(said, str) else []
        if named and all(name in project for name in named):
            written[key], expected[key] = said, value
            others = (name for name in named if name in wanted and name not in settings)
            written.update({name: wanted[name] for name in others if wanted[name] != project[name]})
        elif key in following and key not in stated:
            expected[key] = value
        else:
            written[key] = value
    return written, expected
