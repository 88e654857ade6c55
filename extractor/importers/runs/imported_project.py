"""A run's settings in a project's tree, step by step: carried, completed by copied code, written, checked, reported."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from extractor.importers.config.project import UNKNOWN
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.runs import assemble, changed_defaults, missing_inputs, references, report, setting_repairs
from extractor.importers.runs import settings as settings_of
from extractor.importers.runs.assemble import Assembled
from extractor.importers.runs.convert import Experiment
from extractor.importers.runs.copied_code import managers, own_verl, take_over
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.run import Run
from extractor.importers.runs.unsupported_keys import Remark
from extractor.pipeline.render.unread import named
from extractor.pipeline.source import Source
from extractor.values.configtree import flatten
from extractor.values.options import Options
from extractor.values.renames import Renames
from extractor.values.tree import Tree

_ASIDE = f"no release of verl has it: {UNKNOWN} keeps it for code of your own"
_READ = f"no release of verl has it: {UNKNOWN} keeps it, where the copy that reads it finds it"


@dataclass(frozen=True)
class ImportedProject:
    """A project's tree with a run's settings, and what a user should know.

    Attributes:
        run: As it was read.
        release: The release of verl that the run fits best.
        tree: The project's files.
        settings: The run's settings that differ from the project's own.
        remarks: What became of the others.
        headline: What runs.
    """

    run: Run
    release: str
    tree: Tree
    settings: Mapping[str, Any]
    remarks: tuple[Remark, ...]
    headline: str


@dataclass(frozen=True)
class _Carried:
    """The run's settings under the project's keys.

    Attributes:
        settings: What differs from the project's own.
        wanted: The values that the project's keys have to come to.
        remarks: What is not as it was.
        unknown: Settings that no release has.
    """

    settings: dict[str, Any]
    wanted: dict[str, Any]
    remarks: list[Remark]
    unknown: dict[str, Any]


@dataclass(frozen=True)
class _Completed:
    """The same with the run's code in the project.

    Attributes:
        project: With the code, and the settings that it needs.
        carried: What is left of the settings.
        aside: What `config/unknown.yaml` has.
        asked: Of that what copies read.
    """

    project: TargetProject
    carried: _Carried
    aside: dict[str, Any]
    asked: Collection[str] = ()


@dataclass(frozen=True)
class MatchedRun:
    """A run that was read, and the release of verl that it fits.

    Attributes:
        run: The run.
        experiment: The project's options, and what the run's settings are.
        target: The release that it fits best.
        unknown: Settings that no release of verl has.
        keeps_unknown: Whether --keep-unknown was given.
    """

    run: Run
    experiment: Experiment
    target: ReleaseConfig
    unknown: Mapping[str, Any] = field(default_factory=dict)
    keeps_unknown: bool = False

    def options(self, asked: Options, chosen: AbstractSet[str], without: tuple[str, ...]) -> Options:
        """Return the options that the run has, where the command line does not say otherwise.

        Args:
            asked: By the command line and its defaults.
            chosen: Those of algorithm and recipe that stand on the command line.
            without: Features to leave out.
        """
        run = self.experiment
        features = {*asked.features, *(item for item in run.features if item not in without)}
        return replace(
            asked,
            engine=run.engine,
            algorithm=asked.algorithm if "algorithm" in chosen else run.algorithm,
            recipe=asked.recipe if "recipe" in chosen else run.recipe,
            features=tuple(sorted(features)),
        )

    def settle(
        self, tree: Tree, options: Options, source: Source, adopted: Sequence[str] | None = None
    ) -> ImportedProject:
        """Put the run's settings into a project's tree.

        Args:
            tree: As generated.
            options: The project's.
            source: verl, of the project's release.
            adopted: The edits of the run's own copy of verl that the tree has; None: it was not looked at for any.
        """
        before, run = assemble.before(tree, self.run), self.run
        carried = self._carry(tree, options, before, adopted or ())
        project = TargetProject(tree, options.package, self.target.source, run.places, carried.settings, options.verl)
        if run.hints:  # an export of a project has no code of its own
            done = _Completed(project, carried, carried.unknown)
            return self._report(done, assemble.assemble(project, run, self.experiment), source)
        done = self._complete(project, before, carried, is_adopted=adopted is not None)
        return self._report(done, self._write(done, before), source)

    @property
    def _stated(self) -> dict[str, Any]:
        return settings_of.stated_by(self.run)

    def _carry(self, tree: Tree, options: Options, before: Mapping[str, Any], adopted: Sequence[str]) -> _Carried:
        """Return the settings that the project has a place for and reads."""
        back = Renames(options.verl, self.target.release)
        settings, remarks, wanted = settings_of.settings_for(self.experiment, self.run, before, self.target, back)
        settings = {key: value for key, value in settings.items() if key not in before or before[key] != value}
        lost = _without_place(self.unknown, remarks, before)
        sections = {key.partition(".")[0] for key in before}
        read = named([key for key in lost if key.partition(".")[0] in sections], adopted)
        own = {key: lost[key] for key in lost if key in read or (key in self.unknown and key in before)}
        settings, dropped = assemble.without_readers(tree, options.package, {**settings, **own})
        unread = {item.key for item in dropped}
        return _Carried(
            settings,
            {key: value for key, value in wanted.items() if key not in unread},
            [*(item for item in remarks if item.key not in own), *dropped],
            {key: value for key, value in self.unknown.items() if key not in own},
        )

    def _complete(
        self, project: TargetProject, before: Mapping[str, Any], carried: _Carried, *, is_adopted: bool
    ) -> _Completed:
        """Copy the run's code, and have settings that copies ask for where these find them."""
        run, defaults, stated = self.run, flatten(self.run.defaults), self._stated
        over = take_over.copy_user_code(
            project,
            run,
            {**run.former, **defaults, **stated},
            carried.unknown,
            before,
            keeps_unknown=self.keeps_unknown,
            is_adopted=is_adopted,
        )
        mended, about = setting_repairs.settle(over.project, before, self.experiment.wanted, stated)
        settings = {**over.project.settings, **mended}
        unknown = carried.unknown
        lost = _without_place(unknown, carried.remarks, before)
        left = {item.key for item in carried.remarks if item.what == "dropped"} | lost.keys()
        asked = (over.asked.keys() & left) | managers.read_by_copy(over.project, lost)
        kept = {key: lost[key] for key in asked & lost.keys()}
        read, _ = missing_inputs.files({**over.asked, **kept}, run.places)
        aside = {**unknown, **over.aside, **over.asked, **kept, **read}
        # What is said of its code comes before what is said of a setting.
        remarks = sorted([*carried.remarks, *over.remarks, *about], key=lambda item: item.value != "")
        said = {*stated, *aside, *(item.key for item in remarks)}
        known = {*flatten(self.target.compose().config), *before, *said}
        remarks += own_verl.defaults(project, defaults, known)
        # What the run's code changed or took out is not to be as the run has it.
        wanted = {
            key: value
            for key, value in carried.wanted.items()
            if settings.get(key, value) == value and (key in settings or key not in project.settings)
        }
        target = replace(project, tree=over.project.tree, settings=settings)
        return _Completed(target, _Carried(settings, wanted, remarks, unknown), aside, asked)

    def _write(self, done: _Completed, before: Mapping[str, Any]) -> Assembled:
        """Write the settings, and again those that the config does not come to as they were written."""
        project, wanted = done.project, done.carried.wanted
        following = assemble.following(project.tree)
        whole = {**flatten(self.experiment.config), **wanted}
        settings, followers = references.kept_as_references(project.settings, self._stated, before, following, whole)
        expected = {**wanted, **followers}
        written = assemble.assemble(replace(project, settings=settings), self.run, self.experiment)
        for follows in (False, True):  # first what follows nothing: what follows it may be right then
            wrong = assemble.differing(written.tree, expected)
            part = {key: value for key, value in wrong.items() if (key in following) == follows}
            if part:
                settings = {**settings, **part}
                again = replace(project, settings=settings)
                written = assemble.assemble(again, self.run, self.experiment)
        exported = take_over.variables_read(replace(project, tree=written.tree), self.run.environment)
        return Assembled(written.tree, written.settings, (*written.remarks, *exported))

    def _report(self, done: _Completed, written: Assembled, source: Source) -> ImportedProject:
        """Add what was put aside and the report to a written tree."""
        told = {**done.carried.unknown, **{key: done.aside[key] for key in done.asked}}
        aside = [
            Remark(key, value, *(("changed", _READ) if key in done.asked else ("not carried over", _ASIDE)))
            for key, value in sorted(told.items())
        ]
        remarks = [item for item in done.carried.remarks if item.key not in told]
        every = (*self.run.remarks, *self.experiment.remarks, *remarks, *aside, *written.remarks)
        tree = assemble.with_unknown(written.tree, self.run, done.aside)
        config = assemble.load_config(tree)
        if not self.run.hints:
            stated = self._stated if self.run.resolved is None else {}
            own, usual = flatten(self.run.defaults), VerlDefaults.of(ReleaseConfig.of(source))
            ours, theirs = done.project.release, self.target.release
            renames = Renames(theirs, ours), Renames(ours, theirs)
            whole = changed_defaults.with_defaults_of_its_own(self.experiment.wanted, own, config, usual, renames)
            every += tuple(changed_defaults.remarks(whole, stated, config, usual, renames, every))
        head = report.headline(self.run.file, self.target.release, config, len(written.settings))
        if not self.run.hints:
            tree = assemble.with_report(tree, report.text(head, every, self.run.notes))
        return ImportedProject(self.run, self.target.release, tree, dict(written.settings), every, head)


def _without_place(unknown: Mapping[str, Any], remarks: Sequence[Remark], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the run's settings that the project has none for."""
    others = {item.key: item.value for item in remarks if item.what == "not carried over" and item.key not in before}
    return {**others, **unknown}
