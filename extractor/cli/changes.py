"""`vextract changes`: compare the vendored code of two releases."""

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from extractor.cli import options, output, screen
from extractor.cli.completion import releases
from extractor.cli.options import Json, Offline, Verbose, features

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from extractor.pipeline.generate import Generated
    from extractor.pipeline.source import Source
    from extractor.usecases.changes import Changes, KeyChanges, SymbolChange
    from extractor.usecases.changes.changeset import ChangeKind as ChangeKind
    from extractor.values.manifest import Manifest

_SAID = {"wording": "reworded", "body": "changed inside", "signature": "changed in signature"}
# Details of a change that say that something else is computed.
_BODY = re.compile(r"body changed|default of ")
_MEMBER = re.compile(r"(?P<method>\w+)\(\): (?:body changed|default of )|field (?P<field>\w+): ")


def command(
    old: Annotated[str, typer.Argument(help="The release of verl to compare from.", autocompletion=releases)],
    new: Annotated[str, typer.Argument(help="The release to compare to.", autocompletion=releases)],
    names: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Argument(metavar="NAME", help="Only these functions, classes or files."),
    ] = None,
    engine: Annotated[str, options.engine("Rollout engine: hf or vllm.")] = "hf",
    algorithm: Annotated[str, options.algorithm("Preset: grpo or ppo.")] = "grpo",
    with_: Annotated[Optional[list[str]], features("--with", "Compare with an optional feature")] = None,  # noqa: UP045
    config: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Also name the keys in these YAML files that no longer exist."),
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show how upstream's text differs.")] = False,
    offline: Offline = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Compare two releases, as far as a project uses them.

    It compares functions, classes, registries and config keys. No project is needed.
    """
    from extractor.usecases.changes.config_keys import read_config
    from extractor.values import releases

    manifests = releases.load(old), releases.load(new)
    wanted = _features(manifests, tuple(with_ or ()))
    owner = None if config is None else read_config(config)
    with output.progress(f"reading verl {old} and {new}"):
        before, old_source = _generate(manifests[0], engine, algorithm, wanted, offline)
        after, new_source = _generate(manifests[1], engine, algorithm, wanted, offline)
        from extractor.usecases.changes import report

        found = report(before, after, old_source, new_source, owner)
    chosen = select(found, tuple(names or ()))
    if json:
        output.data_json(as_json(found, chosen, diff))
    else:
        head = f"verl {found.old} -> {found.new}"
        if names:
            # Whoever names them wants to see them whole.
            screen.show([head], [screen.Section(_symbols(found, chosen, diff))], verbose=True)
        else:
            whole = verbose or diff
            tail = () if whole else ("-v shows each function, upstream's config and its classes",)
            screen.show([f"{head}: {counted(found)}"], sections(found, chosen, diff, whole), tail, verbose=whole)


def select(found: "Changes", names: tuple[str, ...]) -> "tuple[SymbolChange, ...]":
    """Return the symbols of these names or files; all without names.

    Raises:
        UsageError: nothing is called that.
    """
    if not names:
        return found.symbols
    from extractor.values.errors import UsageError
    from extractor.values.nearest import nearest

    known = {name: [item for item in found.symbols if name in _names(item)] for name in names}
    for name, items in known.items():
        if not items:
            near = nearest(name, {item for change in found.symbols for item in _names(change)})
            hint = f"did you mean `{near[0]}`?" if near else f"run `vextract changes {found.old} {found.new}` for all"
            raise UsageError(f"neither release's project vendors anything called {name!r}", hint=hint)
    return tuple(item for item in found.symbols if any(item in items for items in known.values()))


def _names(item: "SymbolChange") -> set[str]:
    found = set()
    for place in (item.old, item.new):
        if place is not None:
            found |= {place.symbol, place.symbol.partition(":")[2], place.upstream_path, place.path}
    return found


def counted(found: "Changes") -> str:
    """Write "12 changed, 3 added"."""
    return _counted(found.counts()) or "nothing vendored"


def _counted(counts: "Mapping[ChangeKind, int]") -> str:
    return ", ".join(f"{number} {_SAID.get(change.value, change.value)}" for change, number in counts.items() if number)


def sections(found: "Changes", chosen: "tuple[SymbolChange, ...]", diff: bool, verbose: bool) -> list[screen.Section]:
    """Return the report: what may change numbers first, the rest for `verbose`."""
    told = [item for item in chosen if item.change.value != "unchanged"]
    first = [
        screen.Section(_computing(told), "may change numbers"),
        screen.Section(_owner_lines(found), "your config"),
        screen.Section(_registries(found), "registries"),
        _keys("config of the project", found.project_keys, _defaults(found)),
    ]
    if not verbose:
        return first
    return [
        *first,
        screen.Section(_symbols(found, told, diff), "functions and classes"),
        _keys("upstream's config, where the project uses it", found.upstream_keys),
        screen.Section(_fields(found), "fields of config classes"),
    ]


def _symbols(found: "Changes", chosen: "Sequence[SymbolChange]", diff: bool) -> list[str]:
    """Return the symbols by file."""
    lines: list[str] = []
    file = None
    for item in chosen:
        if item.place.upstream_path != file:
            file = item.place.upstream_path
            lines.append(f"  {file}")
        lines.append(f"    {item.change.value:9}  {item.place.symbol.partition(':')[2]}")
        lines += [f"               {detail}" for detail in item.details]
        if diff:
            lines += [f"      {line}" for line in item.diff(found.old, found.new).splitlines()]
    return lines


def _defaults(found: "Changes") -> list[str]:
    keys = {item.key: item for item in (*found.project_keys.defaults, *found.upstream_keys.defaults)}
    return [f"  ~ {item.key}: {item.old} -> {item.new}" for item in keys.values()]


def _computing(told: "Sequence[SymbolChange]") -> list[str]:
    """Name what computes something else now, by file, the algorithms' first."""
    files: dict[str, list[str]] = {}
    for item in sorted(told, key=lambda item: (_rank(item.place.path), item.place.upstream_path)):
        if names := _changed_inside(item):
            files.setdefault(item.place.upstream_path, []).extend(names)
    indent = " " * 4
    return [
        line
        for file, names in files.items()
        for line in (
            f"  {file}",
            *textwrap.wrap(", ".join(names), 76, initial_indent=indent, subsequent_indent=indent),
        )
    ]


def _rank(path: str) -> int:
    folders = ("/algorithms/", "/protocol", "/workers/", "/data/")
    return next((rank for rank, folder in enumerate(folders) if folder in path), len(folders))


def _changed_inside(item: "SymbolChange") -> list[str]:
    """Return the names of a symbol, its methods or fields that compute something else."""
    name = item.place.symbol.partition(":")[2]
    if item.old is None or item.new is None or item.change.value not in ("body", "signature"):
        return []
    if item.place.kind == "class":
        members = [match for match in map(_MEMBER.match, item.details) if match]
        return list(dict.fromkeys(f"{name}.{match['method'] or match['field']}" for match in members))
    changed = item.change.value == "body" or any(map(_BODY.match, item.details))
    return [name] if changed else []


def _fields(found: "Changes") -> list[str]:
    return [f"  {item.symbol}: {_marks(item.gained, item.lost)}" for item in found.fields]


def _owner_lines(found: "Changes") -> list[str]:
    """Return what the owner's config files have to change."""
    lines = []
    for key in found.owner_keys:
        now = f"; now {key.renamed_to}" if key.renamed_to else ""
        what = f"refers to {key.key}, which" if key.reference else f"{key.key}"
        lines.append(f"  {key.file}:{key.line}: {what} no longer exists{now}")
    lines += [f"  {path}: not valid YAML, so its keys were not checked" for path in found.unreadable]
    return lines


def _registries(found: "Changes") -> list[str]:
    marked = [(item.registry, _marks(item.gained, item.lost)) for item in found.registries]
    return [f"  {registry}: {marks}" for registry, marks in marked if marks]


def _marks(gained: "Iterable[str]", lost: "Iterable[str]") -> str:
    return " ".join([*(f"+{name}" for name in gained), *(f"-{name}" for name in lost)])


def _keys(title: str, keys: "KeyChanges", first: "Sequence[str]" = ()) -> screen.Section:
    lines = [*first, *(f"  + {key}" for key in keys.gained)]
    lines += [f"  - {item.key}" + (f"  (now {item.renamed_to})" if item.renamed_to else "") for item in keys.lost]
    if keys.others:
        lines.append(f"  and {keys.others} that it does not use")
    return screen.Section(lines, title)


def as_json(found: "Changes", chosen: "tuple[SymbolChange, ...]", diff: bool) -> dict[str, object]:
    """Return the whole report as JSON's types."""
    from dataclasses import asdict

    return {
        "old": found.old,
        "new": found.new,
        "counts": {change.value: number for change, number in found.counts().items()},
        "symbols": [_symbol(item, found, diff) for item in chosen],
        "registries": [asdict(item) for item in found.registries],
        "project_keys": asdict(found.project_keys),
        "upstream_keys": asdict(found.upstream_keys),
        "fields": [asdict(item) for item in found.fields],
        "owner_keys": [asdict(item) for item in found.owner_keys],
        "unreadable": list(found.unreadable),
    }


def _symbol(item: "SymbolChange", found: "Changes", diff: bool) -> dict[str, object]:
    report: dict[str, object] = {
        "symbol": item.place.symbol,
        "kind": item.place.kind,
        "change": item.change.value,
        "was": item.old.symbol if item.old is not None else None,
        "upstream_path": item.place.upstream_path,
        "path": item.place.path,
        "line": item.place.line,
        "details": list(item.details),
    }
    if diff:
        report["diff"] = item.diff(found.old, found.new)
    return report


def _features(manifests: "tuple[Manifest, Manifest]", wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Check that at least one of the two releases has each feature."""
    from extractor.values.errors import UsageError

    known = sorted({feature.name for manifest in manifests for feature in manifest.features})
    for name in wanted:
        if name not in known:
            raise UsageError(f"neither release has a feature {name!r} here", hint=f"features: {', '.join(known)}")
    return tuple(sorted(set(wanted)))


def _generate(
    manifest: "Manifest", engine: str, algorithm: str, wanted: tuple[str, ...], offline: bool
) -> "tuple[Generated, Source]":
    from extractor.pipeline import generate
    from extractor.pipeline.source import open_source
    from extractor.values.options import Options

    known = [feature.name for feature in manifest.features]
    features = tuple(name for name in wanted if name in known)
    options = generate.complete(Options("myproj", manifest.release, engine, algorithm, features), manifest)
    source = open_source(manifest.pin, offline=offline)
    return generate.generate(options, source, manifest), source
