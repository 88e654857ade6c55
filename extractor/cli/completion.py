"""Complete option values in the shell, from the manifests alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from extractor.values.manifest import Manifest


def releases(incomplete: str) -> list[str]:
    """List the supported releases, newest first."""
    from extractor.values import releases as known

    return _starting(incomplete, list(reversed(known.supported())))


def recipes(incomplete: str) -> list[str]:
    """List the recipes."""
    from extractor.values.options import RECIPES

    return _starting(incomplete, RECIPES)


def engines(context: typer.Context, incomplete: str) -> list[str]:
    """List the engines of the release that the command line names."""
    return _offered(context, incomplete, lambda manifest: manifest.engines)


def algorithms(context: typer.Context, incomplete: str) -> list[str]:
    """List the presets of the release that the command line names."""
    return _offered(context, incomplete, lambda manifest: manifest.algorithms)


def features(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the last of several feature names for the command line's release."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    names = _offered(context, last, lambda manifest: sorted(item.name for item in manifest.features))
    return [f"{before}{comma}{name}" for name in names if name not in taken]


def _offered(
    context: typer.Context, incomplete: str, choose: Callable[[Manifest], list[str] | tuple[str, ...]]
) -> list[str]:
    from extractor.values import releases as known
    from extractor.values.errors import VextractError

    with contextlib.suppress(VextractError):
        release = context.params.get("verl") or context.params.get("to")
        return _starting(incomplete, choose(known.load(release if release in known.supported() else known.default())))
    return []


def _starting(incomplete: str, names: list[str] | tuple[str, ...]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
