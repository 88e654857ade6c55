"""`vextract changes` and `versions`: what releases of verl have."""

import textwrap
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from extractor.cli import output, screen
from extractor.cli.options import Algorithm, Engine, Json, Offline, Verbose, argument, make_features_option, option
from extractor.values.errors import UsageError, VextractError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extractor.usecases.changes import Changes, SymbolChange
    from extractor.values.manifest import Feature, Manifest


_SAID = {"wording": "reworded", "body": "changed inside", "signature": "changed in signature"}

Old = Annotated[str, argument("", "The release of verl to compare from.")]
New = Annotated[str, argument("", "The release to compare to.")]
Names = Annotated[list[str] | None, argument("NAME", "Only these functions, classes or files.")]
With = Annotated[list[str] | None, make_features_option("--with", "Compare with an optional feature")]


@screen.answers
def changes(
    old: Old,
    new: New,
    names: Names = None,
    engine: Engine = "hf",
    algorithm: Algorithm = "grpo",
    with_: With = None,
    diff: Annotated[bool, option("--diff", "Show how upstream's text differs.")] = False,
    offline: Offline = False,
) -> screen.Answer:
    """Compare two releases, as far as a project uses them.

    It compares functions, classes and config keys. No project is needed.
    """
    with output.show_progress(f"reading verl {old} and {new}"):
        from extractor.usecases.changes import report_releases

        compared = report_releases(old, new, engine, algorithm, set(with_ or ()), offline=offline)
    head, chosen = f"verl {compared.old} -> {compared.new}", compared.named(tuple(names or ()))
    if names:  # who names them wants to see them whole
        return screen.Answer(chosen, [head], [screen.Section(_write_symbols(compared, chosen, diff))], whole=True)
    head, more = f"{head}: {count_kinds(compared)}", ["-v shows each function"]
    return screen.Answer(compared, [head], write_sections(compared, diff), more=more, whole=diff)


def count_kinds(compared: "Changes") -> str:
    """Write "12 changed, 3 added"."""
    counts = {change.value: number for change, number in compared.counts().items() if number}
    return ", ".join(f"{number} {_SAID.get(change, change)}" for change, number in counts.items()) or "nothing vendored"


def write_sections(compared: "Changes", diff: bool = False) -> list[screen.Section]:
    """Return report sections: numeric changes first, the rest only with `-v`."""
    told = [item for item in compared.symbols if item.change.value != "unchanged"]
    config = compared.project_keys
    keys = [f"  ~ {item.key}: {item.old} -> {item.new}" for item in config.defaults]
    keys += [f"  + {key}" for key in config.gained]
    keys += [f"  - {item.key}{f'  (now {item.renamed_to})' if item.renamed_to else ''}" for item in config.lost]
    return [
        screen.Section(_name_computing(told), "may change numbers"),
        screen.Section(keys, "config of the project"),
        screen.Section(_write_symbols(compared, told, diff), "functions and classes", rest=True),
    ]


def _write_symbols(compared: "Changes", chosen: "Sequence[SymbolChange]", diff: bool) -> list[str]:
    """Return the symbols by file."""
    lines: list[str] = []
    file = None
    for item in chosen:
        if item.place.upstream_path != file:
            file = item.place.upstream_path
            lines.append(f"  {file}")
        lines.append(f"    {item.change.value:9}  {item.place.name}")
        lines += [f"               {detail}" for detail in item.details]
        if diff:
            lines += [f"      {line}" for line in item.diff(compared.old, compared.new).splitlines()]
    return lines


def _name_computing(told: "Sequence[SymbolChange]") -> list[str]:
    """Name what computes something else now, by file, the algorithms' first."""
    files: dict[str, list[str]] = {}
    for item in sorted(told, key=lambda item: ("/algorithms/" not in item.place.path, item.place.upstream_path)):
        if item.computing and item.place.kind != "value":
            files.setdefault(item.place.upstream_path, []).extend(item.computing)
    lines = []
    for file, names in files.items():
        lines += [f"  {file}", *textwrap.wrap(", ".join(names), 76, initial_indent="    ", subsequent_indent="    ")]
    return lines


@screen.answers
def versions(
    name: Annotated[str | None, argument("NAME", "Describe this release, feature, preset or engine only.")] = None,
    verbose: Verbose = False,
    json: Json = False,
) -> screen.Answer:
    """List the supported releases of verl.

    It prints what each offers; with NAME or -v, a description. Of a feature it says how many lines it adds.
    """
    from extractor.values import releases as known_releases

    known, default = list(reversed(known_releases.list_supported())), known_releases.find_default()
    manifests = [known_releases.load(item) for item in ([name] if name in known else known)]
    if name is not None and name not in known and not json:
        lines = _describe(name, manifests)
    elif verbose or name is not None:
        lines = "\n\n".join("\n".join(_describe_release(manifest, default)) for manifest in manifests).split("\n")
    else:
        lines = _list_releases(manifests, default)
    return screen.Answer([output.pick(item, "release engines algorithms features") for item in manifests], lines)


def _describe(name: str, manifests: "Sequence[Manifest]") -> list[str]:
    """Describe a feature, preset or engine and the releases having it.

    Raises:
        UsageError: nothing is called that.
    """
    from extractor.usecases.new import measure_feature
    from extractor.values.nearest import find_nearest

    names = {one.release: [*one.engines, *one.algorithms, *(item.name for item in one.features)] for one in manifests}
    having = [one for one in manifests if name in names[one.release]]
    if not having:
        near = find_nearest(name, {*names, *(item for known in names.values() for item in known)}, 3)
        raise UsageError(
            f"{name!r} is no supported release, feature, preset or engine",
            hint=f"did you mean {', '.join(near)}?" if near else "`vextract versions` lists them",
        )
    newest, more = having[0], list[str]()
    what = "a preset, for --algorithm" if name in newest.algorithms else "an engine, for --engine"
    for feature in (item for item in newest.features if item.name == name):
        what, adds = f"a feature: {feature.summary}", ""
        with suppress(VextractError):  # verl is not in the cache
            own, theirs = measure_feature(newest, name)
            adds = f"adds {own:,} lines of ours and {theirs:,} of verl's in a project of {newest.release}; "
        more = [f"  {adds}{_say_needs(feature)}"]
    return [f"{name}  {what}", *more, f"  in verl {', '.join(one.release for one in having)}"]


def _say_needs(feature: "Feature") -> str:
    """Return the features and packages that a feature needs, in words."""
    needs = [*feature.needs, *feature.requirements]
    return f"needs {', '.join(needs)}" if needs else "needs nothing else"


def _list_releases(manifests: "Sequence[Manifest]", default: str) -> list[str]:
    """Return a line for each release: its engines, its presets, and the features that came with it."""
    offered = [{feature.name for feature in manifest.features} for manifest in manifests]
    lines = []
    for manifest, names, older in zip(manifests, offered, [*offered[1:], offered[-1]], strict=True):
        came = f"; new: {', '.join(sorted(names - older))}" if names - older else ""
        about = f"engines {', '.join(manifest.engines)}; {len(manifest.algorithms)} presets{came}"
        lines += textwrap.wrap(f"{manifest.release}  {about}", 110, subsequent_indent=" " * 7)
    lines += textwrap.wrap(f"in all of them: {', '.join(sorted(offered[-1]))}", 110)
    return [*lines, f"default: {default}; what each is: `vextract versions -v`"]


def _describe_release(manifest: "Manifest", default: str) -> list[str]:
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
        needs = f" ({_say_needs(feature)})" if feature.needs or feature.requirements else ""
        lines.append(f"    {feature.name:{width}}  {feature.summary}{on}{only}{needs}")
    return lines
