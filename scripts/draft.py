"""Draft the manifest of another release of verl, as far as it can be inferred from the one before it.

    python scripts/draft.py 0.10.0 [--from PATH] [--after RELEASE] [-o FILE] [--offline]

What a person must decide is marked TODO, and docs/releases.md explains each.
"""

import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import tomlkit
import typer
from packaging.version import InvalidVersion, Version
from tomlkit.items import Item

from extractor.cli import output
from extractor.cli.options import From, Offline, Output
from extractor.importers.config.release import ReleaseConfig
from extractor.pipeline import generate
from extractor.pipeline.source import Source, detect_release
from extractor.usecases.draft import NO_DIGEST, OF_FIXES, Finding, Kind, ManifestFit, attempt, list_choices
from extractor.usecases.draft.config_fields import drop_lost_fields
from extractor.usecases.verify.closed_imports import import_problems
from extractor.values import releases
from extractor.values.configtree import flatten
from extractor.values.errors import UsageError, VextractError
from extractor.values.manifest import read_toml
from extractor.values.manifest.chain import NAMES, OWN_KEYS, Data
from extractor.values.wording import count_noun

WIDTH = 120  # of a line
Remarks = Mapping[str, Sequence[str]]
_FIRST = ("schema", "release", "follows", "engines", "algorithms", "source")
SURE = 0.9  # of the code that both have: there is nothing to decide


@dataclass(frozen=True)
class Note:
    """A remark on a key of a draft.

    Attributes:
        where: The key: "roles.actor", "fixes.ID", "drop"; "" for the whole.
        text: One sentence.
        todo: True where a person must decide.
    """

    where: str
    text: str
    todo: bool = True

    def __str__(self) -> str:
        return f"TODO: {self.text}" if self.todo else self.text


@dataclass(frozen=True)
class Draft:
    """A drafted manifest.

    Attributes:
        release: For this release.
        follows: The release whose manifest it follows.
        text: The manifest, as TOML with comments.
        stated: The same as TOML gives it.
        notes: The remarks in it, in its order.
    """

    release: str
    follows: str
    text: str
    stated: Mapping[str, Any]
    notes: tuple[Note, ...]

    @property
    def todo(self) -> tuple[Note, ...]:
        """Return the remarks on which a person must decide."""
        return tuple(note for note in self.notes if note.todo)


def find_predecessor(release: str, after: str | None) -> str:
    """Return the release whose manifest another one's is drafted from: the one that is named, or the newest before it.

    Raises:
        UsageError: there is none, or the one named is not before it.
    """
    known = releases.list_supported()
    try:
        wanted = Version(release)
    except InvalidVersion:
        raise UsageError(f"{release!r} is no release number", hint="write it as in 0.9.1") from None
    before = [item for item in known if Version(item) < wanted]
    if after is not None and after not in before:
        raise UsageError(f"--after {after}: no supported release before {release}", hint=", ".join(known))
    if not before:
        raise UsageError(f"verl {release} is older than all that this vextract knows", hint=f"the oldest is {known[0]}")
    return after or before[-1]


def list_problems(found: ManifestFit) -> tuple[str, ...]:
    """Return what is wrong with projects made from what holds: the plainest one, and one with all features."""
    problems: dict[str, None] = {}
    for options in list_choices(found.manifest)[:2]:
        try:
            made, lost = drop_lost_fields(generate.generate(options, found.new, found.manifest), found.old, found.new)
        except VextractError as error:
            problems[f"a project cannot be made: {error.message}"] = None
            continue
        problems.update(dict.fromkeys((*lost, *import_problems(made))))
    return tuple(problems)


def draft(found: ManifestFit, problems: tuple[str, ...] = ()) -> Draft:
    """Write the manifest.

    Args:
        found: What holds of the one that it follows.
        problems: What is wrong with a project made from the inferred manifest, a line each.
    """
    data = dict(found.data)
    notes = list(list_notes(found))
    if found.old.requires != found.new.requires:
        notes.append(Note("requirements", "upstream now requires other packages or versions: do the bounds still fit?"))
    if data["source"]["wheel_sha256"] == NO_DIGEST:
        notes.append(Note("source", "the wheel's name and sha256 on the package index (`pip download --no-deps verl`)"))
    if keys := infer_renamed_keys(found.old, found.new):
        data["renamed_keys"] = keys
        notes.append(Note("renamed_keys", "inferred from upstream's config trees. Do these keys mean the same?"))
    stated = {"schema": found.before["schema"], "release": found.new.release, "follows": found.base}
    stated.update(_prune(difference({**found.before, "release": found.base}, data)))
    ordered = {key: stated[key] for key in sorted(stated, key=_place)}
    notes = [*dict.fromkeys(notes), *(Note("", text) for text in problems)]
    remarks: dict[str, list[str]] = {}
    for note in notes:
        remarks.setdefault(note.where, []).append(str(note))
    title = f"What vextract knows about verl {found.new.release}."
    if any(note.todo for note in notes):
        title = f"{title} A draft, inferred from the manifest of {found.base}: decide each TODO and take it out."
    text = write_manifest(ordered, title, remarks)
    return Draft(found.new.release, found.base, text, read_toml(text, "draft"), tuple(notes))


def list_notes(found: ManifestFit) -> Iterator[Note]:
    """Yield what was done about each finding, and what a person must decide."""
    fixes: dict[str, list[Finding]] = {}
    for item in found.findings:
        if item.kind in OF_FIXES:
            fixes.setdefault(item.where.partition(".")[2], []).append(item)
        elif item.kind is Kind.SIGNATURE:
            yield Note(item.where, f"{item.subject} {item.problem}. Does what stands for it still fit?")
        elif item.kind is Kind.REPLACEMENT:
            yield _note(item, f"replacements.{item.moved}" if item.moved else "drop.replacements")
        else:
            yield _note(item)
    for fix_id, items in fixes.items():
        yield from _note_fix(fix_id, items, any(entry["id"] == fix_id for entry in found.data["fixes"]))
    for name in found.before["roles"].keys() - found.data["roles"]:
        yield Note("drop.roles", f"{name}: nothing of it is left")


def _note_fix(fix_id: str, items: list[Finding], is_left: bool) -> Iterator[Note]:
    gone = next((item for item in items if item.kind is Kind.FIX_MODULE and item.moved is None), None)
    if gone is not None:
        yield Note("drop.fixes", f"{fix_id}: its module {gone.subject} is gone{_propose_similar(gone)}")
    elif not is_left:
        reasons = "; ".join(dict.fromkeys(f"{item.subject}: {item.problem}" for item in items))
        yield Note("drop.fixes", f"{fix_id}: {reasons}. Has upstream repaired it, or written it in another way?")
    else:
        for item in items:
            if item.kind is not Kind.FIX_EDIT:
                yield _note(item)
            elif item.count:
                yield Note(item.where, f"{item.problem}. Are these the places that the fix is about?")
            else:
                yield Note(item.where, f"edit {item.edit + 1} was left out: {item.problem}")


def _note(item: Finding, where: str | None = None) -> Note:
    """Say that something has moved, or that it is gone."""
    place = where or item.where
    if item.moved is None:
        if item.kind in (Kind.LAYOUT, Kind.CUT) and not item.suggestions:
            return Note(place, f"{item.subject} {item.problem}, and was taken out", todo=item.kind is Kind.CUT)
        return Note(place, f"{item.subject} {item.problem}{_propose_similar(item)}. What takes its part?")
    best = next((near for near in item.suggestions if near.place == item.moved), None)
    is_sure = best is None or best.score is None or best.score >= SURE
    why = f" ({best.why})" if best is not None else ""
    text = f"{item.subject} has moved to {item.moved}{why}{'' if is_sure else '. Is it that?'}"
    return Note(place, text, not is_sure)


def _propose_similar(item: Finding) -> str:
    near = ", ".join(map(str, item.suggestions))
    return f"; similar: {near}" if near else ", and nothing is like it"


def infer_renamed_keys(old: Source, new: Source) -> dict[str, str]:
    """Return old key -> new key, as upstream's config trees tell.

    A key that is gone is taken for the only one that came and ends in the same two names, or that has its last name and
    its value and lies in the same two sections, or for a key of two names in any.
    """
    before, after = (flatten(ReleaseConfig.of(source).compose().config) for source in (old, new))
    lost, came = before.keys() - after, after.keys() - before
    found: dict[str, str] = {}
    for key in lost:
        ours = key.split(".")
        ends = [place for place in came if len(ours) > 1 and place.split(".")[-2:] == ours[-2:]]
        near = [
            place
            for place in came
            if place.split(".")[-1:] == ours[-1:]
            and (len(ours) == 2 or place.split(".")[:2] == ours[:2])
            and after[place] == before[key]
        ]
        for places in (ends, near):
            if key not in found and len(places) == 1:
                found[key] = places[0]
    # Two keys cannot become one.
    counts = Counter(found.values())
    return {key: place for key, place in sorted(found.items()) if counts[place] == 1 and "._" not in key}


def _place(key: str) -> int:
    return _FIRST.index(key) if key in _FIRST else len(_FIRST) + (key == "drop")


def _prune(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statements without tables and arrays of tables that state nothing."""
    found = {key: _prune(value) if isinstance(value, Mapping) else value for key, value in stated.items()}
    return {
        key: value
        for key, value in found.items()
        if value != {} and not (key in ("replacements", "fixes") and not value)
    }


def write_manifest(data: Mapping[str, object], comment: str, remarks: Remarks | None = None) -> str:
    """Write a manifest, or what it states beyond its predecessor.

    Args:
        data: As `combine` and `difference` give it.
        comment: The first line, without the hash.
        remarks: Further comments by the table that they stand in: "roles.actor", "fixes.ID", "drop.fixes" (then they
            stand at the top of `drop`); those of a table that is not there follow the first line.
    """
    remarks = remarks or {}
    document = tomlkit.document()
    said: set[str] = set()
    items = {key: _item(key, value, key, remarks, said) for key, value in data.items()}
    left = [text for where, texts in remarks.items() if where not in said for text in texts]
    for line in _lines([comment, *left]):
        document.add(tomlkit.comment(line))
    for key, item in items.items():
        document.add(key, item)
    return tomlkit.dumps(document).replace("\n\n\n", "\n\n")


def _item(key: str, value: object, where: str, remarks: Remarks, said: set[str]) -> Item:
    if isinstance(value, Mapping):
        if value and set(value) <= {"add", "drop"}:
            change = tomlkit.inline_table()
            change.update({name: _item(name, part, "", {}, said) for name, part in value.items()})
            return change
        comments = _comments(where, remarks, said)
        nested = bool(value) and not comments and all(isinstance(part, Mapping) for part in value.values())
        table = tomlkit.table(is_super_table=nested)
        for line in _lines(comments):
            table.add(tomlkit.comment(line))
        for name, part in value.items():
            table.add(name, _item(name, part, f"{where}.{name}", remarks, said))
        return table
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        entries = tomlkit.aot()
        for entry in value:
            entries.append(_item(key, entry, f"{where}.{entry.get(NAMES.get(where, ''))}", remarks, said))
        return entries
    if isinstance(value, list):
        array = tomlkit.array()
        array.extend(value)
        return array.multiline(len(f"{key} = {array.as_string()}") > WIDTH)
    return tomlkit.item(value)


def _comments(where: str, remarks: Remarks, said: set[str]) -> list[str]:
    """Return the remarks on a table."""
    names = [name for name in remarks if name == where or (where == "drop" and name.startswith("drop."))]
    names = [name for name in names if name not in said]
    said.update(names)
    return [text for name in names for text in remarks[name]]


def _lines(texts: Iterable[str]) -> list[str]:
    """Wrap comments; continued lines are indented."""
    return [
        line
        for text in texts
        for line in textwrap.wrap(
            text, WIDTH - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
        )
    ]


def difference(older: Data, newer: Data) -> dict[str, object]:
    """Return a manifest that turns `older` into `newer` by `combine`."""
    dropped: dict[str, list[str]] = {}
    stated = _difference({k: v for k, v in older.items() if k not in OWN_KEYS}, newer, "", dropped)
    return {**stated, **({"drop": dropped} if dropped else {})}


def _difference(older: Data, newer: Data, path: str, dropped: dict[str, list[str]]) -> dict[str, object]:
    stated: dict[str, object] = {}
    for key, value in newer.items():
        before, where = older.get(key), f"{path}.{key}" if path else key
        if value == before and key in older:
            continue
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            if inner := _difference(before, value, where, dropped):
                stated[key] = inner
        elif where in NAMES and isinstance(before, list) and isinstance(value, list):
            stated[key] = _stated_entries(before, value, where, dropped)
        elif _strings_only(before) and _strings_only(value) and before and value:
            stated[key] = _change(before, value)
        else:
            stated[key] = value
    gone = [key for key in older if key not in newer]
    if path and gone:
        dropped[path] = gone
    elif gone:
        stated.update({key: [] for key in gone if isinstance(older[key], list)})
        dropped.update({key: list(part) for key in gone if isinstance(part := older[key], Mapping)})
    return stated


def _stated_entries(
    before: list[Data], value: list[Data], where: str, dropped: dict[str, list[str]]
) -> list[Mapping[str, object]]:
    name = NAMES[where]

    def named(entries: list[Data], key: object) -> list[Data]:
        return [entry for entry in entries if entry[name] == key]

    gone = dict.fromkeys(str(entry[name]) for entry in before if not named(value, entry[name]))
    if gone:
        dropped[where] = list(gone)
    return [entry for entry in value if named(before, entry[name]) != named(value, entry[name])]


def _change(before: object, value: object) -> object:
    """Return additions and removals, or the whole list if shorter."""
    assert isinstance(before, list)
    assert isinstance(value, list)
    change = {
        "add": [item for item in value if item not in before],
        "drop": [item for item in before if item not in value],
    }
    change = {key: items for key, items in change.items() if items}
    if not change or sum(map(len, change.values())) >= len(value):
        return value
    return change


def _strings_only(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def command(
    release: Annotated[str, typer.Argument(metavar="RELEASE", help="The release of verl, such as 0.10.0.")],
    from_: From = None,
    after: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="RELEASE", help="The release that it follows; the newest one before it by default."),
    ] = None,
    out: Output = None,
    offline: Offline = False,
) -> None:
    """Write the manifest of a release, as far as it can be inferred."""
    if out is not None and out.exists():
        raise UsageError(f"{out}: exists", hint="choose another name, or remove it")
    base = find_predecessor(release, after)
    with output.show_progress(f"verl {release}") as step:
        tried = attempt(release, base, from_, offline=offline, step=step)
        step("making a trial project")
        made = draft(tried, list_problems(tried))
    if from_ is not None and from_.is_dir() and (said := detect_release(from_)) != release:
        output.print_note(f"{from_} says that it is verl {said}: draft again from the release")
    if out is None:
        output.print_data(made.text.rstrip("\n"))
    else:
        output.write_file(out, made.text)
        output.print_note(f"wrote {out}")
    output.print_note(f"drafted: verl {release} after {base}, {count_noun(len(made.todo), 'thing')} to decide")
    for note in made.todo:
        output.print_note(f"  TODO  {note.text}")


def main(arguments: list[str]) -> int:
    """Draft; return the exit code."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
    app.command()(command)
    try:
        typer.main.get_command(app).main(args=arguments, prog_name="scripts/draft.py")
    except VextractError as error:
        output.print_error(error.message, error.hint)
        return error.code
    except SystemExit as ended:  # how typer ends, also after a mistake in the options
        return int(ended.code or 0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
