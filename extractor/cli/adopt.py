"""`vextract adopt` and `graft`: take a copy of verl, or one method of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from extractor.cli import options, output, screen, unfinished
from extractor.cli.new import describe_run, takes_run
from extractor.cli.options import Offline, argument, option
from extractor.cli.upgrade import change_project
from extractor.values.shell import quote_for_shell
from extractor.values.wording import count_noun

if TYPE_CHECKING:
    from extractor.importers.adopt import Adoption, ForkEdit, Recognised


_PACKAGE = "myproj"

Fork = Annotated[Path, argument("FORK_DIR", "Your copy of verl, or a directory that holds it.")]
Target = Annotated[Path | None, argument("", "Directory of the project; without it nothing is written.")]
Release = Annotated[str | None, option("--verl RELEASE", "Release that was copied; the nearest one by default.")]


@screen.answers
@takes_run
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
) -> screen.Answer:
    """Make a project from a copy of verl, with your edits in it.

    Finds the release that was copied, and carries your edits over to what vextract vendors of it. What has no place
    there is parked below orphaned/, with a note. From then on `vextract upgrade` keeps your edits. With --from-verl-run
    the project also has the experiment of a launch script of yours.
    """
    from extractor.importers import adopt as adopting
    from extractor.pipeline.generate import complete
    from extractor.project import location
    from extractor.usecases.new import write
    from extractor.values import releases
    from extractor.values.options import Options

    place = location.check_target(target) if target is not None else None
    name = package if package is not None else location.name_package(place.name) if place is not None else _PACKAGE
    location.check_package(name, "--package" if package is not None else "TARGET")
    with output.show_progress("adopting") as say:
        recognised = adopting.recognise(fork, verl, offline=offline, say=say)
        manifest = releases.load(recognised.source.release)
        asked = Options(name, manifest.release, engine, algorithm, tuple(sorted(set(with_ or ()))))
        if run is None:
            adoption = adopting.adopt(recognised, complete(asked, manifest), manifest, say)
        else:
            chosen = frozenset(item for item in ("engine", "algorithm") if options.is_given(context, item))
            adoption = adopting.adopt_with_run(recognised, asked, chosen, run, manifest, say)
        if place is not None:
            say(f"writing {target}")
            write(place, adoption.plan, adoption.generated)
    return _answer(recognised, adoption, target, place)


def _answer(recognised: "Recognised", adoption: "Adoption", target: Path | None, place: Path | None) -> screen.Answer:
    from extractor.importers.adopt import Outcome
    from extractor.importers.adopt.method_states import Runs, judge_overall

    is_parked = bool(adoption.methods) and judge_overall(adoption.methods) is Runs.NO
    aside = describe_run(adoption.run) if adoption.run is not None else None
    data = {
        "path": place,
        "written": place is not None,
        "release": recognised.source.release,
        "run": aside and aside.data,
        **output.pick(recognised, "fork=copy newer scores made_from=older"),
        **output.pick(adoption, "options edits methods own outside", carried=adoption.symbols._asdict()),
    }
    titles = {
        Outcome.ORPHANED: "without a place, parked below orphaned/:",
        Outcome.CARRIED: "carried over:",
        Outcome.UPSTREAM: "as upstream had it on another day:",
    }
    edits = {outcome: [_write_line(edit) for edit in adoption.edits if edit.outcome is outcome] for outcome in titles}
    own = [f"  {file.path}  ({file.copied or 'not copied'})" for file in adoption.own if not file.is_upstreams]
    sections = [screen.Section(edits[outcome], title) for outcome, title in titles.items()]
    steps = [] if target is None else [f"cd {quote_for_shell(target)}", "vextract diff", "make setup", "make train"]
    made = [f"made {target}{', without your method' * is_parked}", "next:", *(f"  {step}" for step in steps)]
    return screen.Answer(
        data,
        _write_head(recognised, adoption, len(edits[Outcome.UPSTREAM])),
        [*sections[:2], screen.Section(own, "files of your own:"), *sections[2:]],
        made if steps else [],
        notes=[] if steps else ["nothing was written; name a TARGET to make the project"],
        warnings=[*recognised.warnings, *adoption.generated.warnings],
        code=int(is_parked),
        aside=aside,
    )


def _write_head(recognised: "Recognised", adoption: "Adoption", drifted: int) -> list[str]:
    """Return report lines on methods, copied release and edits carried over."""
    from extractor.importers.adopt.method_states import Runs, summarize

    copy, score, older = recognised.copy, recognised.score, recognised.older
    head = [summarize(adoption.methods, adoption.edits)]
    for item in adoption.methods:
        place = f" ({item.why})" if item.why else f" -> {item.where}"
        choice = f", chosen by {item.setting}" if item.setting and item.runs is not Runs.NO else ""
        head.append(f"  {item.kind} {item.name} {item.runs.value}{choice}{place}")
    head.append(f"copy of verl: {copy.root}")
    if copy.others:
        head.append(f"other copies of verl here: {', '.join(map(str, copy.others))} (name one to adopt it)")
    head.append(
        f"nearest release: verl {score.release} ({score.similarity:.1%}): {score.identical} files identical,"
        f" {score.edited} edited, {score.missing} missing"
    )
    if recognised.source.release != score.release:
        why = f"verl {score.release} has one policy loss, which no setting replaces"
        head.append(
            f"the project is of verl {recognised.source.release}: {why} (--verl {score.release} makes it of that)"
        )
    if older is not None:
        head.append(f"made from verl {older.release}, which is too old for a project ({older.similarity:.1%})")
    behind = f"behind by {count_noun(len(recognised.newer), 'supported release')}: {', '.join(recognised.newer)}"
    head.append(behind if recognised.newer else "that is the newest supported release")
    carried, total = adoption.symbols
    head.append(f"carried over: {carried} of {total} symbols ({adoption.symbols.percent:.0f} %)")
    if drifted:
        places = count_noun(drifted, "place")
        head.append(f"not edits, as upstream had them on another day: {places}; the project has verl {score.release}'s")
    if adoption.outside:
        head.append(f"your edits also import: {', '.join(adoption.outside)} (add them to pyproject.toml)")
    return head


def _write_line(edit: "ForkEdit") -> str:
    place = f" ({edit.why})" if edit.why else f" -> {edit.where}" if edit.where else ""
    parts = f" in {', '.join(edit.parts)}" if edit.parts else ""
    return f"  {edit.upstream_path}: {edit.symbol}, {edit.what}{parts}{place}"


Idea = Annotated[str, argument("FORK[::SYMBOL]", "A copy of verl; ::SYMBOL names one of its methods or functions.")]


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
    from extractor.usecases.upgrade.choices import UpgradeRequest

    directory, _, symbol = fork.partition("::")
    with output.show_progress("reading the fork") as say:
        recognised = recognise(Path(directory), None, offline=offline, say=say)
    if not symbol:
        ideas = list(grafting.list_ideas(recognised))
        lines = [f"{idea.kind} {idea.name} ({idea.path}): {idea.about}" for idea in ideas]
        return screen.Answer([output.pick(idea, "kind name path about") for idea in ideas], lines)
    root, locked = unfinished.open_project(path)
    state, files, lacking = grafting.graft(recognised, symbol, root, locked, offline=offline)
    if lacking:
        change_project(root, UpgradeRequest(added=lacking), None, offline, dry_run=False, allow_dirty=allow_dirty)
        root, locked = unfinished.open_project(path)
        state, files, _ = grafting.graft(recognised, symbol, root, locked, offline=offline)
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
