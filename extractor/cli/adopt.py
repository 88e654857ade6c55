"""`vextract adopt` and `graft`: take a copy of verl, or one method of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extractor.cli import from_run, options, output, screen, unfinished
from extractor.cli.options import Offline, argument, option
from extractor.values.shell import quote_for_shell
from extractor.values.wording import count_noun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from extractor.importers.adopt import Adoption, ForkEdit, Outcome, Recognised


_PACKAGE = "myproj"
_NOTHING = "nothing was written"

Fork = Annotated[Path, argument("FORK_DIR", "Your copy of verl, or a directory that holds it.")]
Target = Annotated[Path | None, argument("", "Directory of the project; without it nothing is written.")]
Release = Annotated[
    str | None, option("--verl RELEASE", "Release of verl that was copied; the nearest one by default.")
]


@screen.answers
@from_run.takes_run
def adopt(
    context: typer.Context,
    fork: Fork,
    target: Target = None,
    engine: options.Engine = "hf",
    verl: Release = None,
    algorithm: options.Algorithm = "grpo",
    with_: options.With = None,
    package: options.Package = None,
    run: Any = None,
    offline: options.Offline = False,
    dry_run: options.DryRun = False,
) -> screen.Answer:
    """Make a project from a copy of verl, with your edits in it.

    Finds the release that was copied, and carries your edits over to what vextract vendors of it. What has no place
    there is parked below orphaned/, with a note. From then on `vextract upgrade` keeps your edits. With --from-verl-run
    the project also has the experiment of a launch script of yours.
    """
    from extractor.importers import adopt as adopting
    from extractor.importers.adopt import Outcome
    from extractor.importers.adopt.method_states import Runs, judge_overall
    from extractor.pipeline.generate import complete
    from extractor.project import location
    from extractor.usecases.new import create
    from extractor.values import releases
    from extractor.values.options import Options

    place = location.check_target(target) if target is not None else None
    name = package if package is not None else location.name_package(place.name) if place is not None else _PACKAGE
    location.check_package(name, "--package" if package is not None else "TARGET")
    written = place if not dry_run else None
    with output.show_progress("adopting") as say:
        found = adopting.recognise(fork, verl, offline=offline, say=say)
        manifest = releases.load(found.source.release)
        asked = Options(name, manifest.release, engine, algorithm, tuple(sorted(set(with_ or ()))))
        if run is None:
            adoption = adopting.adopt(found, complete(asked, manifest), manifest, say)
        else:
            chosen = frozenset(item for item in ("engine", "algorithm") if options.is_given(context, item))
            adoption = adopting.adopt_with_run(found, asked, chosen, run, manifest, say)
        if written is not None:
            say(f"writing {target}")
            create(written, adoption.plan, adoption.generated.tree, adoption.options, found.source)
    is_parked = bool(adoption.methods) and judge_overall(adoption.methods) is Runs.NO
    made = target if written is not None else None
    aside = from_run.describe(adoption.run) if adoption.run is not None else None
    edits = {outcome: [edit for edit in adoption.edits if edit.outcome is outcome] for outcome in Outcome}
    return screen.Answer(
        _report(found, adoption, place, written is not None) | ({} if aside is None else {"run": aside.data}),
        _write_head(found, adoption, len(edits[Outcome.UPSTREAM])),
        _list_sections(found, adoption, edits),
        [] if made is None else _list_next(made, is_parked),
        notes=[_NOTHING if target is not None else f"{_NOTHING}; name a TARGET to make the project"] * (made is None),
        warnings=[*found.warnings, *adoption.generated.warnings],
        code=int(is_parked),
        aside=aside,
    )


def _list_next(target: Path, is_parked: bool) -> list[str]:
    steps = (f"cd {quote_for_shell(target)}", "vextract diff", "make setup", "make train")
    return [f"made {target}{', without your method' * is_parked}", "next:", *(f"  {step}" for step in steps)]


def _list_sections(
    found: "Recognised", adoption: "Adoption", edits: "Mapping[Outcome, list[ForkEdit]]"
) -> list[screen.Section]:
    from extractor.importers.adopt import Outcome

    own = [
        f"  {file.path}" + (f" -> {file.copied}" if file.copied else "  (not copied)")
        for file in adoption.own
        if not file.is_upstreams
    ]
    others = [f"  verl {other.release}: {other.similarity:.1%}" for other in found.scores if other is not found.score]
    titles = {
        "without a place, parked below orphaned/:": map(_write_line, edits[Outcome.ORPHANED]),
        "carried over:": map(_write_line, edits[Outcome.CARRIED]),
        "files of your own:": own,
        "as upstream had it on another day:": map(_write_line, edits[Outcome.UPSTREAM]),
        "other releases:": others,
    }
    return [screen.Section(list(lines), title) for title, lines in titles.items()]


def _write_head(found: "Recognised", adoption: "Adoption", drifted: int) -> list[str]:
    """Return report lines on methods, copied release and edits carried over."""
    from extractor.importers.adopt.method_states import Runs, summarize

    copy, score, older = found.copy, found.score, found.older
    head = [summarize(adoption.methods, adoption.edits)]
    for item in adoption.methods:
        place = f" ({item.why})" if item.why else f" -> {item.where}"
        choice = f", chosen by {item.setting}" if item.setting and item.runs is not Runs.NO else ""
        head.append(f"  {item.kind} {item.name} {item.runs.value}{choice}{place}")
    head.append(f"copy of verl: {copy.root}")
    if copy.others:
        head.append(f"other copies of verl here: {', '.join(map(str, copy.others))} (name one to adopt it)")
    if copy.prefixes:
        head.append(f"imports itself as: {', '.join(copy.prefixes)}")
    head.append(
        f"nearest release: verl {score.release} ({score.similarity:.1%}): {score.identical} files identical,"
        f" {score.edited} edited, {score.missing} missing"
    )
    if found.source.release != score.release:
        why = f"verl {score.release} has one policy loss, which no setting replaces"
        head.append(f"the project is of verl {found.source.release}: {why} (--verl {score.release} makes it of that)")
    if copy.says and copy.says != score.release:
        head.append(f"its version file says {copy.says}")
    if older is not None:
        head.append(f"made from verl {older.release}, which is too old for a project ({older.similarity:.1%})")
    behind = f"behind by {count_noun(len(found.newer), 'supported release')}: {', '.join(found.newer)}"
    head.append(behind if found.newer else "that is the newest supported release")
    carried, total = adoption.symbols
    head.append(f"carried over: {carried} of {total} symbols ({adoption.symbols.percent:.0f} %)")
    if drifted:
        places = count_noun(drifted, "place")
        head.append(f"not edits, as upstream had them on another day: {places}; the project has verl {score.release}'s")
    if adoption.options.methods:
        names = ", ".join(name.partition(":")[2] for name in adoption.options.methods)
        head.append(f"methods that are here because your edits need them: {names}")
    if adoption.outside:
        head.append(f"your edits also import: {', '.join(adoption.outside)} (add them to pyproject.toml)")
    return head


def _write_line(edit: "ForkEdit") -> str:
    place = f" ({edit.why})" if edit.why else f" -> {edit.where}" if edit.where else ""
    parts = f" in {', '.join(edit.parts)}" if edit.parts else ""
    return f"  {edit.upstream_path}: {edit.symbol}, {edit.what}{parts}{place}"


def _report(found: "Recognised", adoption: "Adoption", target: Path | None, written: bool) -> dict[str, object]:
    copy = found.copy
    return {
        "path": target,
        "written": written,
        "fork": {"path": copy.root, "others": copy.others, "imports": copy.prefixes, "says": copy.says},
        "release": found.source.release,
        "made_from": found.older.release if found.older is not None else found.source.release,
        "newer": found.newer,
        "scores": [
            output.pick(score, "release similarity identical edited missing", similarity=round(score.similarity, 4))
            for score in found.scores
        ],
        "options": output.pick(adoption.options, "package verl engine algorithm features methods"),
        "edits": [
            output.pick(edit, "upstream=upstream_path symbol what parts fate=outcome where", why=edit.why or None)
            for edit in adoption.edits
        ],
        "methods": output.pick_all(adoption.methods, "kind name runs where setting why"),
        "own": output.pick_all(adoption.own, "path copied upstreams=is_upstreams"),
        "outside": adoption.outside,
        "carried": output.pick(adoption.symbols, "carried total"),
        "warnings": [*found.warnings, *adoption.generated.warnings],
    }


Idea = Annotated[
    str,
    argument("FORK[::SYMBOL]", "A copy of verl; ::SYMBOL names one of its methods or functions."),
]


@screen.answers
def graft(
    fork: Idea, path: options.Project = Path(), allow_dirty: options.AllowDirty = False, offline: Offline = False
) -> screen.Answer:
    """Take one method of a fork into a project, as a hook.

    Without ::SYMBOL, lists what the fork has and upstream has not. A method becomes a hook in custom/algorithms.py,
    with the functions and the features that it needs, and its settings come into config/. `vextract verify --fork`
    compares its numbers.
    """
    from extractor.importers.adopt import graft as grafting
    from extractor.importers.adopt import recognise
    from extractor.importers.adopt.method_states import Runs
    from extractor.project import disk

    directory, _, symbol = fork.partition("::")
    with output.show_progress("reading the fork") as say:
        found = recognise(Path(directory), None, offline=offline, say=say)
    if not symbol:
        ideas = list(grafting.list_ideas(found))
        lines = [f"{idea.kind} {idea.name} ({idea.path}): {idea.about}" for idea in ideas]
        return screen.Answer(output.pick_all(ideas, "kind name path about"), lines)
    root, locked = unfinished.open_project(path)
    state, files, lacking = grafting.graft(found, symbol, root, locked, offline=offline)
    if lacking:
        with output.show_progress(f"adding {', '.join(lacking)}"):
            grafting.add_features(root, lacking, offline=offline, allow_dirty=allow_dirty)
        root, locked = unfinished.open_project(path)
        state, files, _ = grafting.graft(found, symbol, root, locked, offline=offline)
    for name, data in files.items():
        target = disk.gate(root, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        disk.replace(target, data)
    return screen.Answer(
        output.pick(state, "kind name runs where setting why", files=sorted(files), features=lacking),
        [f"{state.kind} {state.name} {state.runs.value}: {state.where}, chosen by {state.setting}"],
        notes=[f"the project has {', '.join(lacking)} now, which it needs"] * bool(lacking),
        tail=[f"check it: vextract verify {quote_for_shell(root)} --fork {quote_for_shell(directory)}"],
        warnings=[state.why] if state.runs is not Runs.YES else [],
    )
