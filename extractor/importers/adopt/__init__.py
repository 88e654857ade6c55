"""Adopting a copy of verl that was edited by hand: its release, its edits, and a project that has them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from extractor.importers.adopt.findings import Copy, ForkEdit, ForkFile, Outcome, Score, Share
from extractor.importers.adopt.recognised import Recognised, recognise
from extractor.pipeline.plan import Action, Plan, Reason, Verdict, plan_new
from extractor.values.modules import module_name
from extractor.values.tree import File, FileKind, Tree

if TYPE_CHECKING:
    from extractor.importers.adopt.carry import Carried
    from extractor.importers.adopt.target_project import AdoptTarget
    from extractor.importers.runs.carry_over import RunRequest
    from extractor.importers.runs.imported_project import ImportedProject
    from extractor.pipeline.generate import Generated
    from extractor.values.manifest import Manifest
    from extractor.values.options import Options

__all__ = ["Adoption", "Copy", "ForkEdit", "Outcome", "ForkFile", "Recognised", "Score", "Share", "adopt", "recognise"]


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
    edits: tuple[ForkEdit, ...]
    own: tuple[ForkFile, ...]
    code: tuple[str, ...] = field(repr=False)
    outside: tuple[str, ...]
    run: ImportedProject | None = None

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
    from extractor.importers.adopt import methods
    from extractor.usecases.kept_methods import generate_with_methods

    wanted = methods.find_edited(recognised.copy, recognised.source)
    while True:
        say("choosing and rewriting what the project needs")
        options, generated = generate_with_methods(options, recognised.source, manifest, wanted)
        say("carrying your edits over")
        adoption = _carried(recognised, generated, options)
        wanted |= methods.find_demanded(adoption.plan, generated.tree, options.package)
        if not wanted.methods(generated.found):
            return adoption


def adopt_with_run(
    recognised: Recognised,
    asked: Options,
    chosen: frozenset[str],
    request: RunRequest,
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

    engine = asked.engine if "engine" in chosen else None
    found = request.read(manifest.release, manifest, engine, say)
    options = complete(found.options(asked, chosen, ()), manifest)
    adoption = adopt(recognised, options, manifest, say)
    settled = found.settle(_edited(adoption), adoption.options, recognised.source, adoption.code)
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
    from extractor.importers.adopt.assemble import assemble, find_broken
    from extractor.importers.adopt.carry import carry
    from extractor.importers.adopt.ledger import list_edits, park
    from extractor.importers.adopt.own_keys import add_own_keys
    from extractor.importers.adopt.target_project import AdoptTarget, Unit

    copy, source = recognised.copy, recognised.source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
        target = AdoptTarget(copy, source, generated, options.package, recognised.compared)
        barred: dict[Unit, str] = {}
        while True:
            carried = carry(target, barred)
            files = assemble(target, carried)
            if not (more := find_broken(target, carried, files)):
                break
            barred.update(more)
        edits = list_edits(target, source, carried)
    code = tuple(work.core for work in carried.works.values())
    files |= add_own_keys(copy, source, target.files, code)
    lines = [line for work in carried.works.values() for line in (*work.lines, *work.inner)]
    return Adoption(
        options=options,
        generated=generated,
        plan=_plan(generated, files, park(target, source, edits)),
        edits=edits,
        own=tuple(_fork_file(target, carried, path) for path in copy.own),
        code=code,
        outside=tuple(sorted({line.outside for line in lines if line.outside} - _known_packages(generated, options))),
    )


def _fork_file(target: AdoptTarget, carried: Carried, path: str) -> ForkFile:
    """Return what became of a file that upstream does not have."""
    from extractor.importers.adopt.differences import is_all_upstreams
    from extractor.importers.adopt.target_project import OWN, Unit

    module = module_name(path)
    is_copied = Unit(module, OWN) in carried.works and target.own[module] == path
    inside = target.copy.root / path.removeprefix("verl/")
    return ForkFile(
        inside.relative_to(target.copy.top).as_posix(),
        target.own_path(module) if is_copied else None,
        not is_copied and is_all_upstreams(target.fork_text(path)),
    )


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


def _known_packages(generated: Generated, options: Options) -> set[str]:
    """Return the packages that the project's own files import at their top, and Python's."""
    import re
    import sys

    found = {*sys.stdlib_module_names, options.package}
    for file in generated.tree:
        if file.path.endswith(".py"):
            found.update(re.findall(r"^(?:import|from) (\w+)", file.data.decode(), re.MULTILINE))
    return found
