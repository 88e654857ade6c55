"""Put a run's settings and code into a project's tree."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from extractor.importers.config.project import UNKNOWN
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.runs import report, setting_repairs, write_settings
from extractor.importers.runs import settings as settings_of
from extractor.importers.runs.copied_code import easyr1, managers, named, own_verl
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject
from extractor.importers.runs.experiment import Experiment
from extractor.importers.runs.run import Run
from extractor.importers.runs.unsupported_keys import Remark
from extractor.pipeline.render import unread
from extractor.pipeline.source import Source
from extractor.values.configtree import flatten
from extractor.values.options import Options
from extractor.values.renames import Renames
from extractor.values.tree import File, Tree

_ASIDE = f"no release of verl has it: {UNKNOWN} keeps it for code of your own"
_READ = f"no release of verl has it: {UNKNOWN} keeps it, where the copy that reads it finds it"
# Variables that everybody has.
_ANYONES = {"HOME", "PATH", "PWD", "USER"}
_FOLLOWED = re.compile(r"\$\{([\w.]+)\}")


@dataclass(frozen=True)
class ImportedProject:
    """A project's tree with a run's settings, and the report's contents.

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


@dataclass
class _Settings:
    """The run's settings while they are carried into a project.

    Attributes:
        wanted: The values that the project's keys have to come to.
        remarks: What is not as it was.
        unknown: Settings that no release has.
        aside: What `config/unknown.yaml` has.
        asked: Of that what copies read.
    """

    wanted: dict[str, Any]
    remarks: list[Remark]
    unknown: dict[str, Any]
    aside: dict[str, Any] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def list_without_place(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return the run's settings that the project has no key for."""
        lost = {item.key: item.value for item in self.remarks if item.what == "not carried over"}
        return {**{key: value for key, value in lost.items() if key not in before}, **self.unknown}


@dataclass(frozen=True)
class MatchedRun:
    """A run with the verl release that fits it best.

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
        """Return the project's options: the run's, unless chosen by the user.

        Args:
            asked: By the command line and its defaults.
            chosen: Those that stand on the command line.
            without: Features to leave out.
        """
        run = self.experiment
        features = {*asked.features, *(item for item in run.features if item not in without)}
        return replace(
            asked,
            engine=run.engine,
            algorithm=asked.algorithm if "algorithm" in chosen else run.algorithm,
            features=tuple(sorted(features)),
        )

    def apply_to_project(
        self, tree: Tree, options: Options, source: Source, adopted: Sequence[str] | None = None
    ) -> ImportedProject:
        """Put the run's settings into a project's tree.

        Args:
            tree: As generated.
            options: The project's.
            source: verl, of the project's release.
            adopted: The edits of the run's own copy of verl that the tree has; None: it was not looked at for any.
        """
        before, run = write_settings.load_config(tree, "actor_rollout_ref.model.path=given"), self.run
        project = TargetProject(tree, options.package, self.target.source, run.places, {}, options.verl)
        project, settings = self._carry(project, before, adopted or ())
        project = self._complete_project(project, before, settings, is_adopted=adopted is not None)
        return self._report(project, self._write(project, before, settings), settings, source)

    @property
    def _stated(self) -> dict[str, Any]:
        return settings_of.list_stated(self.run)

    def _carry(
        self, project: TargetProject, before: Mapping[str, Any], adopted: Sequence[str]
    ) -> tuple[TargetProject, _Settings]:
        """Select the run's settings that the project has and reads."""
        back = Renames(project.release, self.target.release)
        found, remarks, wanted = settings_of.choose_settings(self.experiment, self.run, before, self.target, back)
        found = {key: value for key, value in found.items() if key not in before or before[key] != value}
        lost = _Settings(wanted, remarks, dict(self.unknown)).list_without_place(before)
        sections = {key.partition(".")[0] for key in before}
        read = unread.find_named([key for key in lost if key.partition(".")[0] in sections], adopted)
        own = {key: lost[key] for key in lost if key in read or (key in self.unknown and key in before)}
        found, dropped = _drop_unread(project, {**found, **own})
        settings = _Settings(
            {key: value for key, value in wanted.items() if key not in {item.key for item in dropped}},
            [*(item for item in remarks if item.key not in own), *dropped],
            {key: value for key, value in self.unknown.items() if key not in own},
        )
        return replace(project, settings=found), settings

    def _complete_project(
        self, project: TargetProject, before: Mapping[str, Any], settings: _Settings, *, is_adopted: bool
    ) -> TargetProject:
        """Copy the run's code, repair settings, and add what copies read."""
        run, stated, carried = self.run, self._stated, project.settings
        project, about = self._copy(project, before, settings, is_adopted=is_adopted)
        mended, more = setting_repairs.repair_settings(project, before, self.experiment.wanted, stated)
        project = replace(project, settings={**project.settings, **mended})
        lost = settings.list_without_place(before)
        left = {item.key for item in settings.remarks if item.what == "dropped"} | lost.keys()
        said = {**flatten(run.defaults), **stated, **lost}
        code = "\n".join(project.copies.values())
        asked = {
            key: value for key, value in said.items() if key not in before and _is_asked_for(key, code, key in lost)
        }
        settings.asked = asked.keys() & left
        settings.aside = {
            **settings.unknown,
            **settings.aside,
            **asked,
            **setting_repairs.list_files(asked, run.places)[0],
        }
        # What is said of its code comes before what is said of a setting.
        settings.remarks = sorted([*settings.remarks, *about, *more], key=lambda item: item.value != "")
        # What the run's code changed or took out is not to be as the run has it.
        now = project.settings
        settings.wanted = {
            key: value
            for key, value in settings.wanted.items()
            if now.get(key, value) == value and (key in now or key not in carried)
        }
        return project

    def _copy(
        self, project: TargetProject, before: Mapping[str, Any], settings: _Settings, *, is_adopted: bool
    ) -> tuple[TargetProject, list[Remark]]:
        """Copy the code that the run names or changed."""
        remarks: list[Remark] = []
        places: list[str] = []
        run = self.run

        def put_aside(project: TargetProject) -> CopyResult:
            taken, names = setting_repairs.put_aside(project, before)
            settings.aside.update(names)
            return taken

        for take in (
            lambda project: easyr1.take_rewards(project, run.scoring_function),
            lambda project: easyr1.take_prompts(project, run.prompt_template),
            managers.take_named,
            named.take_modules,
            named.take_tools,
            put_aside if self.keeps_unknown else lambda project: CopyResult(project.tree),
            lambda project: managers.take_unnamed(project, run.program, before),
        ):
            taken = take(project)
            remarks += taken.remarks
            places += taken.places
            project = replace(project, tree=taken.tree, settings={**project.settings, **taken.settings})
        remarks += own_verl.remark_on_changed(project, tuple(places), is_adopted=is_adopted)
        left = [key for key in managers.list_not_taken(project) if key not in before]
        why = "its reward manager takes no such argument"
        remarks += [Remark(key, project.settings[key], "dropped", why) for key in left]
        kept = {key: value for key, value in project.settings.items() if key not in left}
        return replace(project, settings=kept), remarks

    def _write(
        self, project: TargetProject, before: Mapping[str, Any], settings: _Settings
    ) -> write_settings.WrittenSettings:
        """Write the settings; correct those whose composed values come out different."""
        following, wanted = write_settings.list_following(project.tree), settings.wanted
        whole = {**flatten(self.experiment.config), **wanted}
        now, followers = keep_references(project.settings, self._stated, before, following, whole)
        expected = {**wanted, **followers}
        written = write_settings.write(replace(project, settings=now), self.run)
        for follows in (False, True):  # first what follows nothing: what follows it may be right then
            made = write_settings.load_config(written.tree)
            wrong = {key: value for key, value in expected.items() if key in made and made[key] != value}
            part = {key: value for key, value in wrong.items() if (key in following) == follows}
            if part:
                now = {**now, **part}
                written = write_settings.write(replace(project, settings=now), self.run)
        return written

    def _report(
        self, project: TargetProject, written: write_settings.WrittenSettings, settings: _Settings, source: Source
    ) -> ImportedProject:
        """Return the finished project with its report and unknown settings."""
        told = {**settings.unknown, **{key: settings.aside[key] for key in settings.asked}}
        aside = [
            Remark(key, value, *(("changed", _READ) if key in settings.asked else ("not carried over", _ASIDE)))
            for key, value in sorted(told.items())
        ]
        remarks = [item for item in settings.remarks if item.key not in told]
        every = (*self.run.remarks, *self.experiment.remarks, *remarks, *aside, *written.remarks)
        tree = write_settings.add_unknown(written.tree, self.run, settings.aside)
        config = write_settings.load_config(tree)
        head = report.write_headline(self.run.file, self.target.release, config, len(written.settings))
        every += tuple(report_variables(replace(project, tree=tree), self.run.environment))
        stated = self._stated if self.run.resolved is None else {}
        usual = VerlDefaults.of(ReleaseConfig.of(source)).flat
        renames = Renames(self.target.release, project.release), Renames(project.release, self.target.release)
        whole = {**flatten(self.run.defaults), **self.experiment.wanted}
        every += tuple(report.remark_on_defaults(whole, stated, config, usual, renames, every))
        data = config.get("data.train_files") or "data that it does not name (without them a toy task stands in)"
        said = f"Made of {head}. It wants {data}; `{report.FILE}` has what became of its other settings."
        tree = Tree.of([_describe_origin(file, said) for file in tree])
        tree = write_settings.add_hook(tree, report.FILE, report.text(head, every, self.run.notes))
        return ImportedProject(self.run, self.target.release, tree, dict(written.settings), every, head)


def _describe_origin(file: File, said: str) -> File:
    """Return a file; the README with what the project was made of."""
    is_readme = file.path == "README.md"
    return replace(file, data=report.describe_origin(file.data.decode(), said).encode()) if is_readme else file


def _is_asked_for(key: str, code: str, under_any_name: bool) -> bool:
    """Tell whether code reads a setting, as `trainer.task` or `trainer["task"]`."""
    section, last = map(re.escape, key.split(".")[-2:]) if "." in key else ("config", re.escape(key))
    asks = rf"(?:\.get\(|\[)\s*[\"']{last}[\"']"
    named = "" if under_any_name else rf"\b{section}"
    return re.search(rf"\b{section}\.{last}\b|{named}{asks}", code) is not None


def report_variables(project: TargetProject, environment: Mapping[str, str]) -> list[Remark]:
    """Report environment variables that copies read and the script exports."""
    why = "{path} reads it, and the run's script exports it: export it before a run"
    return [
        Remark(f"${name}", None, "to do", why.format(path=path))
        for name in sorted(environment.keys() - _ANYONES)
        for path, text in project.copies.items()
        if re.search(rf"(?:environ|getenv)\b.*[\"']{re.escape(name)}[\"']", text)
    ]


def _drop_unread(project: TargetProject, settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Remark]]:
    """Drop settings that no project code reads, with a remark each."""
    texts = {file.path: file.data.decode() for file in project.tree if file.path.endswith((".py", ".yaml"))}
    nobodys = unread.find_unread_settings(texts, unread.collect_values(texts), project.package)
    dropped = {key: value for key, value in settings.items() if key in nobodys and value not in nobodys[key]}
    why = "nothing in a project with these parts reads it"
    remarks = [Remark(key, value, "dropped", why) for key, value in sorted(dropped.items())]
    return {key: value for key, value in settings.items() if key not in dropped}, remarks


def keep_references(
    settings: Mapping[str, Any],
    stated: Mapping[str, Any],
    project: Mapping[str, Any],
    following: AbstractSet[str],
    wanted: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write settings as references where the run does.

    Args:
        settings: By the project's keys, resolved.
        stated: What the run itself sets, as it is written.
        project: The project's config, by key.
        following: Those of its keys whose value names others.
        wanted: The run's config, by the project's keys, resolved.

    Returns:
        The settings to write, and the values that those which are references now must come to.
    """
    written: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for key, value in settings.items():
        said = stated.get(key)
        followed = _FOLLOWED.findall(said) if isinstance(said, str) else []
        if followed and all(name in project for name in followed):
            written[key], expected[key] = said, value
            others = (name for name in followed if name in wanted and name not in settings)
            written.update({name: wanted[name] for name in others if wanted[name] != project[name]})
        elif key in following and key not in stated:
            expected[key] = value
        else:
            written[key] = value
    return written, expected
