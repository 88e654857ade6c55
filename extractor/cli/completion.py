"""Complete option values in the shell, from the manifests alone."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import typer


def releases(incomplete: str) -> list[str]:
    """List the supported releases, newest first."""
    from extractor.values import releases as known

    return _starting(incomplete, reversed(known.supported()))


def recipes(incomplete: str) -> list[str]:
    """List the recipes."""
    from extractor.values.options import RECIPES

    return _starting(incomplete, RECIPES)


def engines(context: typer.Context, incomplete: str) -> list[str]:
    """List the engines of the release that the command line names."""
    return _offered(context, incomplete, "engines")


def algorithms(context: typer.Context, incomplete: str) -> list[str]:
    """List the presets of the release that the command line names."""
    return _offered(context, incomplete, "algorithms")


def features(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the last of several feature names for the command line's release."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _offered(context, last, "features") if name not in before.split(",")]


def _offered(context: typer.Context, incomplete: str, what: str) -> list[str]:
    from extractor.values import releases as known
    from extractor.values.errors import VextractError

    with contextlib.suppress(VextractError):
        release = context.params.get("verl") or context.params.get("to")
        offered = getattr(known.load(release if release in known.supported() else known.default()), what)
        return _starting(incomplete, sorted(item.name for item in offered) if what == "features" else offered)
    return []


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
