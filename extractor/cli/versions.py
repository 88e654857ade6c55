"""`vextract versions`: list the supported releases and their features."""

import textwrap
from typing import TYPE_CHECKING, Annotated

from extractor.cli import output
from extractor.cli.options import Json, Verbose, argument
from extractor.values.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extractor.values.manifest import Manifest


def versions(
    name: Annotated[str | None, argument("NAME", "Describe this release, feature, preset or engine only.")] = None,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """List the supported releases of verl.

    It prints a table of what each offers; with NAME or -v, a description.
    """
    from extractor.values import releases

    known, default = list(reversed(releases.list_supported())), releases.find_default()
    manifests = [releases.load(item) for item in ([name] if name in known else known)]
    if json:
        output.data_json([_report(manifest, default) for manifest in manifests])
    elif name is not None and name not in known:
        output.data("\n".join(_describe(name, manifests)))
    elif verbose or name is not None:
        output.data("\n\n".join("\n".join(_write_lines(manifest, default)) for manifest in manifests))
    else:
        _show_matrix(manifests, default)


def _describe(name: str, manifests: "Sequence[Manifest]") -> list[str]:
    """Describe a feature, preset or engine and the releases having it.

    Raises:
        UsageError: nothing is called that.
    """
    from extractor.values.nearest import find_nearest

    kinds: dict[str, dict[str, str]] = {}  # release -> name -> what it is
    for one in manifests:
        kinds[one.release] = {
            **{item.name: f"a feature: {item.summary}" for item in one.features},
            **dict.fromkeys(one.algorithms, "a preset, for --algorithm"),
            **dict.fromkeys(one.engines, "an engine, for --engine"),
        }
    having = [release for release, named in kinds.items() if name in named]
    if not having:
        near = find_nearest(name, [*kinds, *sorted({item for named in kinds.values() for item in named})], 3)
        raise UsageError(
            f"{name!r} is no supported release, feature, preset or engine",
            hint=f"did you mean {', '.join(near)}?" if near else "`vextract versions` lists them",
        )
    return [f"{name}  {kinds[having[0]][name]}", f"  in verl {', '.join(having)}"]


def _show_matrix(manifests: "Sequence[Manifest]", default: str) -> None:
    """Print a table of engines and features by release."""
    engines = sorted({name for manifest in manifests for name in manifest.engines})
    offered = [{feature.name for feature in manifest.features} for manifest in manifests]
    everywhere = set.intersection(*offered)
    rows = {
        "verl": [manifest.release for manifest in manifests],
        "presets": [str(len(manifest.algorithms)) for manifest in manifests],
        **{f"engine {name}": [".x"[name in manifest.engines] for manifest in manifests] for name in engines},
        **{name: [".x"[name in names] for names in offered] for name in sorted(set.union(*offered) - everywhere)},
    }
    width = max(map(len, rows))
    for name, marks in rows.items():
        columns = (f"{mark:^{len(manifest.release)}}" for mark, manifest in zip(marks, manifests, strict=True))
        output.data(f"{name:{width}}  {' '.join(columns)}".rstrip())
    output.data(textwrap.fill(f"in all of them: {', '.join(sorted(everywhere))}", 100))
    output.data(f"default: {default}; what each is: `vextract versions -v`")


def _write_lines(manifest: "Manifest", default: str) -> list[str]:
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
        **output.pick(manifest, "engines algorithms"),
        "features": [
            output.pick(feature, "name summary algorithms", engines=feature.engines or manifest.engines)
            for feature in sorted(manifest.features, key=lambda feature: feature.name)
        ],
    }
