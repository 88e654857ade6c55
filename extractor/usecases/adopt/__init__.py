"""Adopting a copy of verl that was edited by hand: its release, its edits, and a project that has them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from extractor.pipeline.plan import Action, Plan, Reason, Verdict, plan_new
from extractor.usecases.adopt.compare import scores
from extractor.usecases.adopt.findings import Copy, Edit, ForkFile, Outcome, Score, Share
from extractor.usecases.adopt.locate import locate
from extractor.values.errors import SourceError, UsageError
from extractor.values.tree import File, FileKind, Tree

if TYPE_CHECKING:
    from extractor.pipeline.generate import Generated
    from extractor.pipeline.source import Source
    from extractor.usecases.adopt.carry import Carried
    from extractor.usecases.adopt.differences import Compared
    from extractor.usecases.adopt.target_project import TargetProject, Unit
    from extractor.usecases.fromrun import carry_over
    from extractor.values.manifest import Manifest, SourcePin
    from extractor.values.options import Options

__all__ = ["Adoption", "Copy", "Edit", "Outcome", "ForkFile", "Recognised", "Score", "Share", "adopt", "recognise"]

_LEAST = 0.1
# Copies that are nearest to the oldest supported release, and no nearer than so, may be of an older one.
_OLDER = 0.98
# Releases besides the nearest one whose text an edit may have been made in.
_BASES = 4
# Somebody's files that merely have the places and names of some of verl's are fewer than this share of its files.
_FEW_FILES = 0.1


@dataclass(frozen=True)
class Recognised:
    """A copy of verl, and what it was made from.

    Attributes:
        copy: Where it lies.
        scores: How near it is to each release that could be read, the nearest first.
        source: The release that it is taken for.
        newer: Supported releases that are newer, oldest first.
        unread: Releases that could not be read, with the reason.
        older: How near it is to the release that it was made from, where that is too old for a project.
        bases: Other releases that it may have parts of, the nearest first.
    """

    copy: Copy
    scores: tuple[Score, ...]
    source: Source = field(repr=False)
    newer: tuple[str, ...]
    unread: tuple[str, ...]
    older: Score | None = None
    bases: Mapping[str, Source] = field(default_factory=dict, repr=False)

    @property
    def score(self) -> Score:
        """Return how near it is to the release that it is taken for."""
        return next(score for score in self.scores if score.release == self.source.release)

    @cached_property
    def compared(self) -> dict[str, Compared]:
        """Return the modules that are not as in that release, by upstream's path."""
        from extractor.usecases.adopt.differences import compared

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
            return compared(self.copy, self.source, tuple(self.bases.values()))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what makes the result doubtful: releases that were not compared, a copy with hardly a file of verl."""
        score = self.score
        there = score.identical + score.edited
        if there >= _FEW_FILES * (there + score.missing):
            return self.unread
        files = "1 file" if there == 1 else f"{there} files"
        doubt = f"{self.copy.root} has {files} of verl's {there + score.missing}: is it your copy of verl?"
        return (*self.unread, doubt)


@dataclass(frozen=True)
class Adoption:
    """A project that has the fork's edits, worked out and not yet written.

    Attributes:
        options: What the project is made with; of the methods that are left out it has those that the edits need.
        generated: The project without edits: what the lock and the base say was emitted.
        plan: What is written.
        edits: Every edit, and what became of it.
        own: The fork's files that upstream does not have.
        code: The text of the edits that came along.
        outside: Packages that edits import and the project does not require by itself, sorted.
        run: What became of a run of the fork's; None: there is none.
    """

    options: Options
    generated: Generated = field(repr=False)
    plan: Plan = field(repr=False)
    edits: tuple[Edit, ...]
    own: tuple[ForkFile, ...]
    code: tuple[str, ...] = field(repr=False)
    outside: tuple[str, ...]
    run: carry_over.Settled | None = None

    @property
    def hunks(self) -> Share:
        """Return the places that differ, by what became of them."""
        carried = sum(edit.hunks for edit in self.edits if edit.outcome is Outcome.CARRIED)
        return Share(carried, sum(edit.hunks for edit in self.edits if edit.outcome is not Outcome.UPSTREAM))

    @property
    def symbols(self) -> Share:
        """Return the functions, classes, values and statements that differ, by what became of them."""
        found = [edit for edit in self.edits if edit.is_symbol and edit.outcome is not Outcome.UPSTREAM]
        return Share(sum(edit.outcome is Outcome.CARRIED for edit in found), len(found))


def recognise(
    directory: Path, release: str | None, *, offline: bool = False, say: Callable[[str], None] = lambda step: None
) -> Recognised:
    """Find the copy of verl in a directory, and the release that it was made from.

    Args:
        directory: It, or one above it.
        release: The release, where the owner knows it; None: the nearest one.
        offline: Never download.
        say: Takes the name of each step.

    Raises:
        UsageError: there is no copy of verl in it.
        SourceError: no release could be read.
    """
    from extractor.values import releases

    known = releases.supported()
    wanted = [releases.load(item).pin for item in ([release] if release is not None else known)]
    sources, unread = _read(wanted, offline, say)
    if not sources:
        raise unread[-1][1]
    say("looking for the copy")
    copy = locate(directory, sources)
    say("comparing it with the releases")
    found = scores(copy, sources)
    if found[0].similarity < _LEAST and release is None:
        raise UsageError(
            f"{copy.root}: too far from every supported release ({found[0].similarity:.0%} of verl {found[0].release})",
            hint="pass --verl RELEASE to compare it with that release anyway",
        )
    nearest = found[0].release
    before: tuple[Score, ...] = ()
    if nearest == known[0] and found[0].similarity < _OLDER:
        older, more = _read(releases.older(), offline, say)
        unread += more
        before = tuple(score for score in scores(copy, older) if score.similarity > found[0].similarity)
        sources |= older
    bases = [*before, *found[1:]][:_BASES]
    return Recognised(
        copy=_of_release(copy, sources[nearest]),
        scores=found,
        source=sources[nearest],
        newer=known[known.index(nearest) + 1 :],
        unread=tuple(f"verl {item} was not compared: {error.message}" for item, error in unread),
        older=before[0] if before else None,
        bases={score.release: sources[score.release] for score in bases},
    )


def _read(
    pins: Iterable[SourcePin], offline: bool, say: Callable[[str], None]
) -> tuple[dict[str, Source], list[tuple[str, SourceError]]]:
    """Open releases; returns those that could be read by number, and why the others could not."""
    from extractor.pipeline.source import open_source

    sources, unread = {}, []
    for pin in pins:
        say(f"reading verl {pin.release}")
        try:
            sources[pin.release] = open_source(pin, offline=offline)
        except SourceError as error:
            unread.append((pin.release, error))
    return sources, unread


def _of_release(copy: Copy, source: Source) -> Copy:
    """Return the copy, with what only other releases have among its own files."""
    files = {path: data for path, data in copy.files.items() if path in source.files}
    others = {path: data for path, data in copy.files.items() if path not in source.files and path.endswith(".py")}
    return replace(copy, files=files, own=dict(sorted({**copy.own, **others}.items())))


def adopt(
    recognised: Recognised, options: Options, manifest: Manifest, say: Callable[[str], None] = lambda step: None
) -> Adoption:
    """Carry the fork's edits over to a new project of its release; writes nothing.

    Args:
        recognised: The fork.
        options: The project's.
        manifest: Of the release.
        say: Takes the name of each step.

    Raises:
        UsageError: git is needed and missing.
    """
    from extractor.usecases.adopt import methods
    from extractor.usecases.wanted import generate_wanted

    wanted = methods.edited(recognised.copy, recognised.source)
    while True:
        say("choosing and rewriting what the project needs")
        options, generated = generate_wanted(options, recognised.source, manifest, wanted)
        say("carrying your edits over")
        adoption = _carried(recognised, generated, options)
        wanted |= methods.carried(adoption.plan, generated.tree, options.package)
        if not wanted.methods(generated.found):
            return adoption


def adopt_with_run(
    recognised: Recognised,
    asked: Options,
    chosen: frozenset[str],
    request: carry_over.Request,
    manifest: Manifest,
    say: Callable[[str], None] = lambda step: None,
) -> Adoption:
    """Carry the fork's edits over to a new project, and a run's settings with what these name; writes nothing.

    Args:
        recognised: The fork.
        asked: What the project's options are where the run says nothing else.
        chosen: The options that somebody chose: "engine", "algorithm".
        request: The run.
        manifest: Of the release.
        say: Takes the name of each step.

    Raises:
        UsageError: the run cannot be read, or git is needed and missing.
    """
    from extractor.pipeline.generate import complete
    from extractor.usecases.fromrun import carry_over

    engine = asked.engine if "engine" in chosen else None
    found = carry_over.read(request, manifest.release, manifest, engine, say)
    options = complete(carry_over.options(asked, found, chosen, ()), manifest)
    adoption = adopt(recognised, options, manifest, say)
    settled = carry_over.settle(_edited(adoption), adoption.options, found, recognised.source, adopted=adoption.code)
    return replace(adoption, plan=_with_run(adoption.plan, settled.tree), run=settled)


def _edited(adoption: Adoption) -> Tree:
    """Return the project with the fork's edits."""
    emitted = {file.path: file for file in adoption.generated.tree}
    return Tree.of(
        [
            replace(emitted.get(action.path) or File(action.path, action.kind, b""), data=action.data)
            for action in adoption.plan.actions
            if action.data is not None and action.verdict is not Verdict.ORPHAN
        ]
    )


def _with_run(plan: Plan, tree: Tree) -> Plan:
    """Return what is written, with a run's settings, which count as the owner's edits as well."""
    actions = {action.path: action for action in plan.actions}
    for file in tree:
        action = actions.get(file.path) or Action(file.path, Verdict.ADD, file.kind, Reason.OWNED)
        actions[file.path] = replace(action, data=file.data)
    return Plan(tuple(actions[path] for path in sorted(actions)))


def _carried(recognised: Recognised, generated: Generated, options: Options) -> Adoption:
    from extractor.usecases.adopt.assemble import assemble, broken
    from extractor.usecases.adopt.carry import carry
    from extractor.usecases.adopt.differences import all_upstreams
    from extractor.usecases.adopt.ledger import ledger, orphans
    from extractor.usecases.adopt.own_keys import own_keys, with_keys
    from extractor.usecases.adopt.target_project import OWN, TargetProject, Unit

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        target = TargetProject(recognised.copy, recognised.source, generated, options.package, recognised.compared)
        barred: dict[Unit, str] = {}
        while True:
            carried = carry(target, barred)
            files = assemble(target, carried)
            more = broken(target, carried, files)
            if not more:
                code = [work.core for work in carried.works.values()]
                keys = own_keys(recognised.copy, recognised.source, target.files, code)
                more = _without_field(target, carried, files, keys)
            if not more:
                break
            barred.update(more)
        edits = ledger(target, recognised.source, carried)
    files |= with_keys(target.files, keys)
    own = []
    for path in recognised.copy.own:
        module = next(name for name, place in target.own.items() if place == path)
        copied = target.own_path(module) if Unit(module, OWN) in carried.works else None
        inside = recognised.copy.root / path.removeprefix("verl/")
        known = copied is None and all_upstreams(target.fork_text(path))
        own.append(ForkFile(inside.relative_to(recognised.copy.top).as_posix(), copied, known))
    lines = [line for work in carried.works.values() for line in (*work.lines, *work.inner)]
    return Adoption(
        options=options,
        generated=generated,
        plan=_plan(generated, files, orphans(target, recognised.source, edits)),
        edits=edits,
        own=tuple(own),
        code=tuple(code),
        outside=tuple(sorted({line.outside for line in lines if line.outside} - _known(generated, options))),
    )


def _without_field(
    target: TargetProject, carried: Carried, files: Mapping[str, bytes], keys: Collection[str]
) -> dict[Unit, str]:
    """Return units that read settings for which the project's typed config has no field, with the reason."""
    from extractor.pipeline.render.unread import named
    from extractor.usecases.adopt.own_keys import without_field

    if not keys:
        return {}
    before = {path: file.data for path, file in target.files.items() if path.endswith(".py")}
    lacking = without_field(keys, {**before, **files}.values())
    return {
        unit: f"it reads {key}, for which the project's {lacking[key]} has no field"
        for unit, work in carried.works.items()
        for key in sorted(named(lacking, [work.core]))
    }


def _plan(generated: Generated, files: Mapping[str, bytes], parked: Mapping[str, bytes]) -> Plan:
    actions = {action.path: action for action in plan_new(generated.tree).actions}
    for path, data in files.items():
        if path not in actions:
            actions[path] = Action(path, Verdict.ADD, FileKind.HOOK, Reason.OWNED, data)
        elif data != actions[path].data:
            actions[path] = Action(path, Verdict.MERGE, actions[path].kind, Reason.CARRIED, data)
    for path, data in parked.items():
        actions[path] = Action(path, Verdict.ORPHAN, FileKind.HOOK, Reason.GONE, data)
    return Plan(tuple(actions[path] for path in sorted(actions)))


def _known(generated: Generated, options: Options) -> set[str]:
    """Return the packages that the project's own files import at their top, and Python's."""
    import re
    import sys

    found = {*sys.stdlib_module_names, options.package}
    for file in generated.tree:
        if file.path.endswith(".py"):
            found.update(re.findall(r"^(?:import|from) (\w+)", file.data.decode(), re.MULTILINE))
    return found
