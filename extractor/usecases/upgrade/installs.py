"""Tell whether an upgrade changes what is installed."""

from __future__ import annotations

from collections.abc import Mapping

from extractor.pipeline.plan import Plan
from extractor.values import readers

LOCK, PROJECT = "requirements.lock", "pyproject.toml"


def changes_what_is_installed(plan: Plan, seen: Mapping[str, bytes | None]) -> bool:
    """Return True if requirements or their locked versions change.

    Args:
        plan: The verdicts.
        seen: The files before, by path.
    """
    after = plan.writes()
    return any(
        path in after and needs(after[path]) != needs(seen.get(path) or b"")
        for path, needs in ((LOCK, _pins), (PROJECT, _requirements))
    )


def _pins(data: bytes) -> set[str]:
    lines = (line.strip() for line in data.decode(errors="replace").splitlines())
    return {line for line in lines if line and not line.startswith("#")}


def _requirements(data: bytes) -> object:
    """Return the requirements, or the text itself if it is no TOML."""
    try:
        project = readers.toml(data.decode(errors="replace").replace("\r\n", "\n")).get("project", {})
    except readers.TOMLDecodeError:
        return data
    return [project.get(key) for key in ("dependencies", "optional-dependencies")] if isinstance(project, dict) else []
