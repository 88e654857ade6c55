"""`vextract versions`: list the supported releases and their features."""

import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import output, screen
from extractor.cli.options import Json, Verbose

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from extractor.values.manifest import Manifest

_YES, _NO = "x", "."


def command(
    name: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="NAME", help="Describe this release, feature, preset or engine only."),
    ] = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """List the supported releases of verl.

    It prints a table of what each offers; with NAME or -v, a description.
    """
    from extractor.values import releases

    known = list(reversed(releases.supported()))
    manifests = [releases.load(item) for item in ([name] if name in known else known)]
    if json:
        output.data_json([_report(manifest, releases.default()) for manifest in manifests])
    elif name is not None and name not in known:
        screen.show([], [screen.Section(_about(name, manifests))], verbose=True)
    elif verbose or name is not None:
        lines = [line for manifest in manifests for line in ("", *_lines(manifest, releases.default()))]
        screen.show([], [screen.Section(lines[1:])], verbose=True)
    else:
        _show_matrix(manifests, releases.default())


def _about(name: str, manifests: "Sequence[Manifest]") -> list[str]:
    """Describe a feature, preset or engine, and the releases that have it.

    Raises:
        UsageError: nothing is called that.
    """
    from extractor.values.errors import UsageError
    from extractor.values.nearest import nearest

    features = {item.name: item.summary for manifest in reversed(manifests) for item in manifest.features}
    presets = {item for manifest in manifests for item in manifest.algorithms}
    engines = {item for manifest in manifests for item in manifest.engines}
    if name in features:
        what, having = (
            f"a feature: {features[name]}",
            [name in {item.name for item in one.features} for one in manifests],
        )
    elif name in presets:
        what, having = "a preset, for --algorithm", [name in one.algorithms for one in manifests]
    elif name in engines:
        what, having = "an engine, for --engine", [name in one.engines for one in manifests]
    else:
        known = [*(one.release for one in manifests), *sorted({*features, *presets, *engines})]
        near = nearest(name, known, 3)
        raise UsageError(
            f"{name!r} is no supported release, feature, preset or engine",
            hint=f"did you mean {', '.join(near)}?" if near else "`vextract versions` lists them",
        )
    told = [one.release for one, has in zip(manifests, having, strict=True) if has]
    return [f"{name}  {what}", f"  in verl {', '.join(told)}"]


def _show_matrix(manifests: "Sequence[Manifest]", default: str) -> None:
    """One row for each engine and feature, one column for each release."""
    engines = sorted({name for manifest in manifests for name in manifest.engines})
    offered = [{feature.name for feature in manifest.features} for manifest in manifests]
    everywhere = set.intersection(*offered)
    features = sorted(set.union(*offered) - everywhere)
    rows = {
        "presets": [str(len(manifest.algorithms)) for manifest in manifests],
        **{f"engine {name}": _marks(name in manifest.engines for manifest in manifests) for name in engines},
        **{name: _marks(name in names for names in offered) for name in features},
    }
    width = max(map(len, rows))
    room = output.width_of(sys.stdout)
    columns = [manifest.release for manifest in manifests]
    while len(columns) > 1 and room is not None and width + 2 + len(" ".join(columns)) > room:
        columns.pop()
    head = [f"{'verl':{width}}  {' '.join(columns)}"]
    lines = [
        f"{name:{width}}  " + " ".join(f"{mark:^{len(column)}}" for mark, column in zip(marks, columns, strict=False))
        for name, marks in rows.items()
    ]
    tail = textwrap.wrap(f"in all of them: {', '.join(sorted(everywhere))}", room or 100)
    tail += [f"default: {default}; what each is: `vextract versions -v`"]
    if len(columns) < len(manifests):
        tail.append(f"{len(manifests) - len(columns)} older releases need a wider terminal, or -v")
    screen.show(head, [screen.Section([line.rstrip() for line in lines], prefix="")], tail, verbose=False)


def _marks(found: "Iterable[bool]") -> list[str]:
    return [_YES if item else _NO for item in found]


def _lines(manifest: "Manifest", default: str) -> list[str]:
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
    return lines


def _report(manifest: "Manifest", default: str) -> dict[str, object]:
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
