"""`vextract versions`: the supported releases of verl."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extractor.cli import output
from extractor.cli.options import Json

if TYPE_CHECKING:
    from extractor.manifest import Manifest


def command(json: Json = False) -> None:
    """List the supported releases of verl."""
    from extractor import releases

    manifests = [releases.load(release) for release in reversed(releases.supported())]
    if json:
        output.data_json([_report(manifest, releases.default()) for manifest in manifests])
    else:
        output.data("\n\n".join(_text(manifest, releases.default()) for manifest in manifests))


def _text(manifest: Manifest, default: str) -> str:
    width = max((len(feature.name) for feature in manifest.features), default=0)
    lines = [
        f"verl {manifest.release}{' (default)' if manifest.release == default else ''}",
        f"  engines     {', '.join(manifest.engines)}",
        f"  algorithms  {', '.join(manifest.algorithms)}",
        "  features",
    ]
    for feature in sorted(manifest.features, key=lambda feature: feature.name):
        on = f" (on with {', '.join(feature.algorithms)})" if feature.algorithms else ""
        only = f" (only {', '.join(feature.engines)})" if feature.engines else ""
        lines.append(f"    {feature.name:{width}}  {feature.summary}{on}{only}")
    return "\n".join(lines)


def _report(manifest: Manifest, default: str) -> dict[str, object]:
    return {
        "release": manifest.release,
        "default": manifest.release == default,
        "engines": list(manifest.engines),
        "algorithms": list(manifest.algorithms),
        "features": [
            {
                "name": feature.name,
                "summary": feature.summary,
                "algorithms": list(feature.algorithms),
                "engines": list(feature.engines) or list(manifest.engines),
            }
            for feature in sorted(manifest.features, key=lambda feature: feature.name)
        ],
    }
