"""`vextract changes`: compare the vendored code of two releases."""

import re
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from extractor.cli import output, screen
from extractor.cli.options import Json, Offline, Verbose, argument, make_features_option, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extractor.usecases.changes import Changes, SymbolChange

_SAID = {"wording": "reworded", "body": "changed inside", "signature": "changed in signature"}
# Details of a change that say that something else is computed.
_BODY = re.compile(r"body changed|default of ")
_MEMBER = re.compile(r"(?P<method>\w+)\(\): (?:body changed|default of )|field (?P<field>\w+): ")
_FOLDERS = ("/algorithms/", "/protocol", "/workers/", "/data/")  # those that compute, first

Old = Annotated[str, argument("", "The release of verl to compare from.")]
New = Annotated[str, argument("", "The release to compare to.")]
Names = Annotated[list[str] | None, argument("NAME", "Only these functions, classes or files.")]
Engine = Annotated[str, option("--engine", "Rollout engine: hf or vllm.")]
Algorithm = Annotated[str, option("--algorithm", "Preset: grpo or ppo.")]
With = Annotated[list[str] | None, make_features_option("--with", "Compare with an optional feature")]


def changes(
    old: Old,
    new: New,
    names: Names = None,
    engine: Engine = "hf",
    algorithm: Algorithm = "grpo",
    with_: With = None,
    diff: Annotated[bool, option("--diff", "Show how upstream's text differs.")] = False,
    offline: Offline = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Compare two releases, as far as a project uses them.

    It compares functions, classes, registries and config keys. No project is needed.
    """
    with output.steps(f"reading verl {old} and {new}"):
        from extractor.usecases.changes import report_releases

        found = report_releases(old, new, engine, algorithm, set(with_ or ()), offline=offline)
    chosen = found.named(tuple(names or ()))
    head = f"verl {found.old} -> {found.new}"
    if json:
        output.data_json(write_json(found, chosen, diff))
    elif names:
        # Whoever names them wants to see them whole.
        screen.show([head], [screen.Section(_write_symbols(found, chosen, diff))], verbose=True)
    else:
        whole = verbose or diff
        tail = () if whole else ("-v shows each function",)
        screen.show([f"{head}: {count_kinds(found)}"], write_sections(found, chosen, diff, whole), tail, verbose=whole)


def count_kinds(found: "Changes") -> str:
    """Write "12 changed, 3 added"."""
    counts = {change.value: number for change, number in found.counts().items() if number}
    return ", ".join(f"{number} {_SAID.get(change, change)}" for change, number in counts.items()) or "nothing vendored"


def write_sections(
    found: "Changes", chosen: "Sequence[SymbolChange]", diff: bool, verbose: bool
) -> list[screen.Section]:
    """Return report sections: numeric changes first, the rest if `verbose`."""
    told = [item for item in chosen if item.change.value != "unchanged"]
    owner = [f"  {key.file}:{key.line}: {key.problem}" for key in found.owner_keys]
    owner += [f"  {path}: not valid YAML, so its keys were not checked" for path in found.unreadable]
    marked = [
        (item.registry, " ".join([*(f"+{name}" for name in item.gained), *(f"-{name}" for name in item.lost)]))
        for item in found.registries
    ]
    keys = [f"  ~ {item.key}: {item.old} -> {item.new}" for item in found.project_keys.defaults]
    keys += [f"  + {key}" for key in found.project_keys.gained]
    keys += [
        f"  - {item.key}{f'  (now {item.renamed_to})' if item.renamed_to else ''}" for item in found.project_keys.lost
    ]
    first = [
        screen.Section(_name_computing(told), "may change numbers"),
        screen.Section(owner, "your config"),
        screen.Section([f"  {registry}: {marks}" for registry, marks in marked if marks], "registries"),
        screen.Section(keys, "config of the project"),
    ]
    return [*first, screen.Section(_write_symbols(found, told, diff), "functions and classes")] if verbose else first


def _write_symbols(found: "Changes", chosen: "Sequence[SymbolChange]", diff: bool) -> list[str]:
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
            lines += [f"      {line}" for line in item.diff(found.old, found.new).splitlines()]
    return lines


def _name_computing(told: "Sequence[SymbolChange]") -> list[str]:
    """Name what computes something else now, by file, the algorithms' first."""
    files: dict[str, list[str]] = {}

    def rank(item: "SymbolChange") -> tuple[int, str]:
        ranks = (number for number, folder in enumerate(_FOLDERS) if folder in item.place.path)
        return next(ranks, len(_FOLDERS)), item.place.upstream_path

    for item in sorted(told, key=rank):
        if names := _list_changed_inside(item):
            files.setdefault(item.place.upstream_path, []).extend(names)
    lines = []
    for file, names in files.items():
        lines += [f"  {file}", *textwrap.wrap(", ".join(names), 76, initial_indent="    ", subsequent_indent="    ")]
    return lines


def _list_changed_inside(item: "SymbolChange") -> list[str]:
    """Return the names in a symbol whose computation changed."""
    name = item.place.name
    if item.old is None or item.new is None or item.change.value not in ("body", "signature"):
        return []
    if item.place.kind == "class":
        members = [match for match in map(_MEMBER.match, item.details) if match]
        return list(dict.fromkeys(f"{name}.{match['method'] or match['field']}" for match in members))
    changed = item.change.value == "body" or any(map(_BODY.match, item.details))
    return [name] if changed else []


def write_json(found: "Changes", chosen: "Sequence[SymbolChange]", diff: bool) -> dict[str, object]:
    """Return the whole report as JSON's types."""
    symbols = [
        {
            **output.pick(item.place, "symbol kind", change=item.change, was=item.old and item.old.symbol),
            **output.pick(item.place, "upstream_path path line", details=item.details),
            **({"diff": item.diff(found.old, found.new)} if diff else {}),
        }
        for item in chosen
    ]
    return {
        **output.pick(found, "old new"),
        "counts": {change.value: number for change, number in found.counts().items()},
        "symbols": symbols,
        "registries": [asdict(item) for item in found.registries],
        "project_keys": asdict(found.project_keys),
        "owner_keys": [asdict(item) for item in found.owner_keys],
        "unreadable": found.unreadable,
    }
