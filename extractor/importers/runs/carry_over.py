"""A run of verl carried over into a project: read, fitted to a release, and put into the project's tree."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.version import Version

from extractor.importers.config.project import UNKNOWN
from extractor.importers.config.release import Defaults, Target
from extractor.importers.runs import (
    assemble,
    convert,
    earlier,
    fitting,
    importance,
    primes_own,
    references,
    report,
    startable,
    supplied,
    turns,
    unsaid,
)
from extractor.importers.runs import settings as settings_of
from extractor.importers.runs.bash import read_script
from extractor.importers.runs.convert import Experiment
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.reading import read_run
from extractor.importers.runs.run import Run
from extractor.importers.runs.taken_over import managers, named_files, own_verl, surroundings
from extractor.importers.runs.taken_over.everything import take_over
from extractor.importers.runs.taken_over.recipient import Recipient
from extractor.importers.runs.unknowns import readable, shown, unknowns
from extractor.pipeline.render.unread import named
from extractor.pipeline.source import Source, open_source
from extractor.values import readers, releases
from extractor.values.configtree import flatten, nearest
from extractor.values.errors import UsageError
from extractor.values.manifest import Manifest
from extractor.values.options import Options
from extractor.values.renames import Renames
from extractor.values.tree import Tree

# Unknown settings that are listed, and the characters that are shown of each.
_MOST, _SHOWN = 20, 200
_ASIDE = f"no release of verl has it: {UNKNOWN} keeps it for code of your own"
_READ = f"no release of verl has it: {UNKNOWN} keeps it, where the copy that reads it finds it"
# Beyond these a script's variables come from itself or from --set: the same script gives the same project everywhere.
_ENVIRONMENT = ("HOME", "USER")


@dataclass(frozen=True)
class Request:
    """Holds what the command line says about the run.

    Attributes:
        file: The run.
        variables: `VAR=VALUE`, for what the script takes from outside.
        config_dirs: Where its own configs are.
        run_verl: The release that it was written for; None: found out.
        started_in: The directory that it is started in; None: guessed by which of its paths exist.
        offline: Never download.
        keep_unknown: Put settings that no release has into a file of their own, rather than refuse the run.
    """

    file: Path
    variables: Sequence[str] = ()
    config_dirs: Sequence[Path] = ()
    run_verl: str | None = None
    started_in: Path | None = None
    offline: bool = False
    keep_unknown: bool = False

    def read(self, release: str, manifest: Manifest, engine: str | None, step: Callable[[str], None]) -> Found:
        """Read the run and find the release whose config it fits; see `read`."""
        return read(self, release, manifest, engine, step)


@dataclass(frozen=True)
class Found:
    """A run, and what a project makes of it.

    Attributes:
        run: The run.
        experiment: The project's options, and what the run's settings are.
        target: The release of verl that the run fits best.
        unknown: Settings that no release of verl has.
        keeps_unknown: Whether what is not known is put aside.
    """

    run: Run
    experiment: Experiment
    target: Target
    unknown: Mapping[str, Any] = field(default_factory=dict)
    keeps_unknown: bool = False

    def options(self, asked: Options, chosen: AbstractSet[str], without: tuple[str, ...]) -> Options:
        """Return the options that the run has, where the command line does not say otherwise."""
        return options(asked, self, chosen, without)

    def settle(self, tree: Tree, options: Options, source: Source) -> Settled:
        """Put the run's settings into a project's tree; see `settle`."""
        return settle(tree, options, self, source)


def read(request: Request, release: str, manifest: Manifest, engine: str | None, step: Callable[[str], None]) -> Found:
    """Read the run and find the release whose config it fits.

    Args:
        request: The run.
        release: The project's.
        manifest: The same.
        engine: The project's; None: that of the run.
        step: Told what is going on.

    Raises:
        UsageError: it cannot be read, or names keys that no release has.
    """
    given = _variables(request.variables)
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    run = read_run(request.file, given, environment, tuple(request.config_dirs), request.started_in)
    written = {item.key for item in run.overrides}
    run = turns.with_verls_names(earlier.with_earlier_defaults(run))
    run = importance.with_corrections_names(primes_own.with_recipes_names(run))
    # Names that are given to what it says tell nothing of the release that it was written for.
    translated = {item.key for item in run.overrides} - written
    fits = []

    def target_of(candidate: str) -> Target:
        step(f"reading verl {candidate}")
        return Target.of(open_source(releases.load(candidate).pin, offline=request.offline))

    for candidate in _candidates(request, run, release):
        fits.append(fitting.fit(run, target_of(candidate)))
        if _strangeness(run, fits[-1], translated) == (0, 0):
            break
    best = min(fits, key=lambda item: _strangeness(run, item, translated))
    if fitting.unhandled(best.problems):
        others = [item.target for item in fits]
        if translated and all(item.release != release for item in others):  # whose names it is given
            others.append(target_of(release))
        best = fitting.fit(run, best.target, others)
    unknown = fitting.unhandled(best.problems)
    if not request.keep_unknown:
        _refuse(request, best, len(run.overrides) + len(flatten(run.resolved or {})))
    run = _as_named(run, best.overrides)
    renamed = Renames(best.target.release, release)
    aside = {problem.override.key: shown(problem.override.value) for problem in unknown}
    experiment = convert.convert(run, best, manifest, engine, renamed, aside)
    return Found(run, experiment, best.target, aside, request.keep_unknown)


def _strangeness(run: Run, fit: fitting.Fit, translated: Collection[str]) -> tuple[int, int]:
    """Return how many keys of a run a release does not know, and how many it has that the run's whole config lacks."""
    unknown = [item for item in fitting.unhandled(fit.problems) if item.override.key not in translated]
    return len(unknown), fitting.strange(run, fit.target)


def _variables(said: Sequence[str]) -> dict[str, str]:
    """Return the variables of a script that are given: VAR=VALUE, or @FILE with such lines, as bash writes them."""
    given: dict[str, str] = {}
    for item in said:
        name, equals, value = item.partition("=")
        if item.startswith("@"):
            file = Path(item[1:]).expanduser()
            if not file.is_file():
                raise UsageError(f"--set {item}: there is no such file", hint="give a file of lines VAR=VALUE")
            found = read_script(readers.read_text(file), str(file), {}, {}).variables
            given.update({key: value for key, value in found.items() if not unknowns(value)})
        elif equals and re.fullmatch(r"\w+", name):
            given[name] = value
        else:
            raise UsageError(f"--set {item}: not VAR=VALUE", hint="--set sets a variable of the script")
    return given


def _as_named(run: Run, overrides: Sequence[Any]) -> Run:
    """Return the run under the names of the release that it fits best, with a note on those that it has otherwise."""

    if not overrides:
        return run
    pairs = zip(run.overrides, overrides, strict=True)
    other = dict.fromkeys(
        f"{old.key} as {new.key}" + (f"={new.value} (a share, not percent)" if old.value != new.value else "")
        for old, new in pairs
        if old.key != new.key
    )
    notes = (*run.notes, f"names of other versions of verl: {', '.join(other)}") if other else run.notes
    return replace(run, overrides=tuple(overrides), notes=notes)


def _refuse(request: Request, best: Any, count: int) -> None:

    unknown = fitting.unhandled(best.problems)
    if not unknown:
        return
    lines = []
    if len(unknown) == count > 1:
        raise UsageError(
            f"{request.file}: none of its {len(unknown)} settings is one of verl's",
            hint="pass a run of verl's, of EasyR1's, or of TRL's GRPOTrainer or RLOOTrainer",
        )
    keys = {problem.override.key for problem in unknown}
    for problem in unknown[:_MOST]:
        meant = nearest(best.config, problem.override.key, keys)
        near = f" (did you mean {meant}?)" if meant else ""
        lines.append(f"{readable(problem.override.text)[:_SHOWN]}: {problem.message}{near}")
    if len(unknown) > _MOST:
        lines.append(f"and {len(unknown) - _MOST} more")
    raise UsageError(
        f"{request.file}: verl {best.target.release}, the release that fits best, does not know "
        f"{len(unknown)} of its settings:\n  " + "\n  ".join(lines),
        hint="correct them, name the release that it is for with --run-verl, or put them aside with --keep-unknown",
    )


def _candidates(request: Request, run: Run, release: str) -> list[str]:
    """Return the releases to try, the likeliest first."""

    if request.run_verl is not None:
        return [request.run_verl]
    if "verl" in run.hints:
        return [str(run.hints["verl"])]
    likeliest = [release]
    if run.version is not None:
        # `0.6.0.dev` is what becomes 0.6.0.
        own = Version(run.version).release
        likeliest = [item for item in releases.supported() if Version(item).release >= own][:1] or likeliest
    elif earlier.is_earlier(run) is not None:
        likeliest = [releases.supported()[0]]
    return list(dict.fromkeys([*likeliest, release, *reversed(releases.supported())]))


@dataclass(frozen=True)
class Settled:
    """A project's tree with a run's settings, and what a user should know."""

    found: Found
    tree: Tree
    settings: dict[str, Any]
    remarks: tuple[Remark, ...]
    headline: str = ""


def options(asked: Options, found: Found, given: AbstractSet[str], without: tuple[str, ...]) -> Options:
    """Return the options that the run has, where the command line does not say otherwise.

    Args:
        asked: By the command line and its defaults.
        found: The run.
        given: Those of algorithm and recipe that stand on the command line.
        without: Features to leave out.
    """

    run = found.experiment
    features = {*asked.features, *(item for item in run.features if item not in without)}
    return replace(
        asked,
        engine=run.engine,
        algorithm=asked.algorithm if "algorithm" in given else run.algorithm,
        recipe=asked.recipe if "recipe" in given else run.recipe,
        features=tuple(sorted(features)),
    )


def settle(
    tree: Tree, options: Options, found: Found, source: Source, *, adopted: Sequence[str] | None = None
) -> Settled:
    """Put the run's settings into a project's tree.

    Args:
        tree: As generated.
        options: The project's.
        found: The run.
        source: verl, of the project's release.
        adopted: The edits of the run's own copy of verl that the tree has; None: it was not looked at for any.
    """
    project = assemble.before(tree, found.run)
    renames = Renames(found.target.release, options.verl), Renames(options.verl, found.target.release)
    settings, remarks, wanted = settings_of.settings_for(
        found.experiment, found.run, project, found.target, renames[1], found.experiment.function
    )
    settings = {key: value for key, value in settings.items() if key not in project or project[key] != value}
    own = _of_the_edits(found, remarks, project, adopted or ())
    remarks = [item for item in remarks if item.key not in own]
    found = replace(found, unknown={key: value for key, value in found.unknown.items() if key not in own})
    settings, dropped = assemble.without_readers(tree, options.package, {**settings, **own})
    stated = settings_of.stated_by(found.run)
    unknown, asked, of_files = dict(found.unknown), set[str](), set[str]()
    of_run = Recipient(tree, options.package, found.target.source, found.run.places, settings, options.verl)
    if not found.run.hints:
        over = take_over(
            of_run,
            found.run,
            {**found.run.former, **flatten(found.run.defaults), **stated},
            found.unknown,
            project,
            keeps_unknown=found.keeps_unknown,
            is_adopted=adopted is not None,
        )
        mended, about = startable.settle(over.project, project, found.experiment.wanted, stated)
        tree, settings = over.project.tree, {**over.project.settings, **mended}
        found = replace(found, unknown={key: value for key, value in found.unknown.items() if key not in over.handed})
        lost = _without_place(found, remarks, project)
        every_key = {**flatten(found.run.defaults), **found.experiment.wanted}
        without = {key: value for key, value in every_key.items() if key not in project and value is not None}
        of_files = named_files.read_of(of_run, {**without, **lost, **found.unknown})
        by_default = {key: without[key] for key in of_files & without.keys() - {*lost, *found.unknown}}
        left = {item.key for item in remarks if item.what == "dropped"} | lost.keys()
        asked = (over.asked.keys() & left) | managers.read_by_copy(over.project, lost) | of_files
        asked -= by_default.keys()
        kept = {**by_default, **{key: lost[key] for key in asked & lost.keys()}}
        read, _ = supplied.files({**over.asked, **kept}, found.run.places)
        unknown = {**found.unknown, **over.aside, **over.asked, **kept, **read}
        # What is said of its code comes before what is said of a setting.
        remarks = sorted([*remarks, *over.remarks, *about], key=lambda item: item.value != "")
        said = {*stated, *unknown, *over.handed, *(item.key for item in remarks)}
        known = {*flatten(found.target.compose().config), *project, *said}
        remarks += own_verl.defaults(of_run, flatten(found.run.defaults), known)
        # What these changed or took out is not to be as the run has it.
        wanted = {key: value for key, value in wanted.items() if settings.get(key, value) == value}
        wanted = {key: value for key, value in wanted.items() if key in settings or key not in of_run.settings}
    wanted = {key: value for key, value in wanted.items() if key not in {item.key for item in dropped}}
    expected = dict(wanted)
    following = set() if found.run.hints else assemble.following(tree)
    if not found.run.hints:
        whole = {**flatten(found.experiment.config), **wanted}
        settings, followers = references.kept_as_references(settings, stated, project, following, whole)
        expected.update(followers)
    of_run = replace(of_run, tree=tree, settings=settings)
    done = assemble.assemble(of_run, found.run, found.experiment, of_files)
    wrong = {} if found.run.hints else assemble.differing(done.tree, expected)
    for follows in (False, True):  # first what follows nothing: what follows it may be right then
        if part := {key: value for key, value in wrong.items() if (key in following) == follows}:
            of_run = replace(of_run, settings={**of_run.settings, **part})
            done = assemble.assemble(of_run, found.run, found.experiment, of_files)
            wrong = assemble.differing(done.tree, expected)
    exported = {} if found.run.hints else {**found.run.environment}
    set_there = surroundings.take(replace(of_run, tree=done.tree), exported)
    made = assemble.with_unknown(set_there.tree, found.run, unknown)
    told = {**found.unknown, **{key: unknown[key] for key in asked}}
    remarks = [item for item in remarks if item.key not in told]
    aside = [
        Remark(key, value, *(("changed", _READ) if key in asked else ("not carried over", _ASIDE)))
        for key, value in sorted(told.items())
    ]
    remarks = [*found.run.remarks, *found.experiment.remarks, *remarks, *aside, *dropped]
    every = (*remarks, *done.remarks, *set_there.remarks)
    config = assemble.load_config(made)
    if not found.run.hints and not found.run.is_bare:
        usual = Defaults.of(Target.of(source))
        itself = stated if found.run.resolved is None else {}
        own = flatten(found.run.defaults)
        theirs = unsaid.with_defaults_of_its_own(found.experiment.wanted, own, config, usual, renames)
        every += tuple(unsaid.remarks(theirs, itself, config, usual, renames, every))
    head = report.headline(found.run.file, found.target.release, config, len(done.settings))
    if not found.run.hints:
        made = assemble.with_report(made, report.text(head, every, found.run.notes))
    return Settled(found, made, dict(done.settings), every, head)


def _of_the_edits(
    found: Found, remarks: Iterable[Remark], project: Mapping[str, Any], code: Sequence[str]
) -> dict[str, Any]:
    """Return the settings that verl does not have and that edits of the run's own copy read which came along."""
    new = _without_place(found, remarks, project)
    sections = {key.partition(".")[0] for key in project}
    read = named([key for key in new if key.partition(".")[0] in sections], code)
    return {key: value for key, value in new.items() if key in read or (key in found.unknown and key in project)}


def _without_place(found: Found, remarks: Iterable[Remark], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run's settings that the project has none for."""
    others = {item.key: item.value for item in remarks if item.what == "not carried over" and item.key not in project}
    return {**others, **found.unknown}
