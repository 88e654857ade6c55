"""Put a run's settings and code into a project's tree."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from extractor.importers.config.project import UNKNOWN, load
from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.runs import report, setting_repairs
from extractor.importers.runs import settings as settings_of
from extractor.importers.runs.copied_code import easyr1, managers, named
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject
from extractor.importers.runs.experiment import Experiment
from extractor.importers.runs.placeholders import shown
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run import Run
from extractor.pipeline.render import unread
from extractor.pipeline.source import Source
from extractor.usecases.changes.config_keys import select_config
from extractor.values.configtree import compose, flatten
from extractor.values.configtree.compose import merge, read_yaml
from extractor.values.configtree.written import dump_yaml, nest
from extractor.values.errors import InternalError
from extractor.values.options import Options
from extractor.values.renamed_config_keys import KeyRenames
from extractor.values.tree import File, FileKind, Tree

_ASIDE = f"no release of verl has it: {UNKNOWN} keeps it for code of your own"
_READ = f"no release of verl has it: {UNKNOWN} keeps it, where the copy that reads it finds it"
# Variables that everybody has.
_ANYONES = {"HOME", "PATH", "PWD", "USER"}
_FOLLOWED = re.compile(r"\$\{([\w.]+)\}")
RECIPE = "verl_run"
_CONFIG = "config/"
_DEFAULT = re.compile(r"^(\s*- recipe@_global_: )\S+$", re.MULTILINE)
_OVER_TOY = "# What the run has otherwise than the toy sizes.\n"


@dataclass(frozen=True)
class ImportedProject:
    """A project's tree with a run's settings, and the report's contents."""

    run: Run
    release: str
    tree: Tree
    settings: Mapping[str, Any]
    remarks: tuple[Remark, ...]
    headline: str


@dataclass
class _Settings:
    """The run's settings while they are carried into a project."""

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
    """A run with the verl release that fits it best."""

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
        before, run = load_config(tree, "actor_rollout_ref.model.path=given"), self.run
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
        back = KeyRenames(project.release, self.target.release)
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
            named.take_tools,
            put_aside if self.keeps_unknown else lambda project: CopyResult(project.tree),
            lambda project: managers.take_unnamed(project, run.program, before),
        ):
            taken = take(project)
            remarks += taken.remarks
            places += taken.places
            project = replace(project, tree=taken.tree, settings={**project.settings, **taken.settings})
        remarks += named.remark_on_modules(project)
        remarks += managers.remark_on_changed(project, tuple(places), is_adopted=is_adopted)
        left = [key for key in managers.list_not_taken(project) if key not in before]
        why = "its reward manager takes no such argument"
        remarks += [Remark(key, project.settings[key], "dropped", why) for key in left]
        kept = {key: value for key, value in project.settings.items() if key not in left}
        return replace(project, settings=kept), remarks

    def _write(self, project: TargetProject, before: Mapping[str, Any], settings: _Settings) -> CopyResult:
        """Write the settings; correct those whose composed values come out different."""
        following, stated = list_following(project.tree), self._stated
        now = {
            key: stated[key] if _is_reference(stated.get(key), before) else value
            for key, value in project.settings.items()
            if key in stated or key not in following
        }
        others = {key: value for key, value in project.settings.items() if now.get(key, following) != value}
        expected = {**settings.wanted, **others}
        written = _write_settings(replace(project, settings=now), self.run)
        for follows in (False, True):  # first what follows nothing: what follows it may be right then
            made = load_config(written.tree)
            wrong = {key: value for key, value in expected.items() if key in made and made[key] != value}
            part = {key: value for key, value in wrong.items() if (key in following) == follows}
            if part:
                now = {**now, **part}
                written = _write_settings(replace(project, settings=now), self.run)
        return written

    def _report(
        self, project: TargetProject, written: CopyResult, settings: _Settings, source: Source
    ) -> ImportedProject:
        """Return the finished project with its report and unknown settings."""
        told = {**settings.unknown, **{key: settings.aside[key] for key in settings.asked}}
        aside = [
            Remark(key, value, *(("changed", _READ) if key in settings.asked else ("not carried over", _ASIDE)))
            for key, value in sorted(told.items())
        ]
        remarks = [item for item in settings.remarks if item.key not in told]
        every = (*self.run.remarks, *self.experiment.remarks, *remarks, *aside, *written.remarks)
        tree = add_unknown(written.tree, self.run, settings.aside)
        config = load_config(tree)
        head = report.write_headline(self.run.file, self.target.release, config, len(written.settings))
        every += tuple(report_variables(replace(project, tree=tree), self.run.environment))
        stated = self._stated if self.run.resolved is None else {}
        usual = VerlDefaults.of(ReleaseConfig.of(source)).flat
        renames = KeyRenames(self.target.release, project.release), KeyRenames(project.release, self.target.release)
        whole = {**flatten(self.run.defaults), **self.experiment.wanted}
        every += tuple(report.remark_on_defaults(whole, stated, config, usual, renames, every))
        data = config.get("data.train_files") or "data that it does not name (without them a toy task stands in)"
        said = f"Made of {head}. It wants {data}; `{report.FILE}` has what became of its other settings."
        tree = Tree.of([_describe_origin(file, said) for file in tree])
        tree = add_hook(tree, report.FILE, report.write_report(head, every, self.run.notes))
        return ImportedProject(self.run, self.target.release, tree, dict(written.settings), every, head)


def _describe_origin(file: File, said: str) -> File:
    """Return a file; the README with what the project was made of."""
    is_readme = file.path == "README.md"
    return replace(file, data=report.describe_origin(file.data.decode(), said).encode()) if is_readme else file


def _is_reference(value: Any, config: Mapping[str, Any]) -> bool:
    """Tell whether a value follows keys that a config has, such as `${data.max_response_length}`."""
    followed = _FOLLOWED.findall(value) if isinstance(value, str) else []
    return bool(followed) and all(name in config for name in followed)


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


def load_config(tree: Tree, *settings: str) -> Mapping[str, Any]:
    """Return a tree's config with further settings, flat and resolved."""
    return load(select_config(tree), settings).flat


def list_following(tree: Tree) -> set[str]:
    """Return config keys whose value refers to others, `${data.max_response_length}`."""
    composed = compose(select_config(tree), "ppo_trainer.yaml").config
    return {key for key, value in flatten(composed).items() if isinstance(value, str) and "${" in value}


def add_unknown(tree: Tree, run: Run, unknown: Mapping[str, Any]) -> Tree:
    """Add a file with settings unknown to every release."""
    if not unknown:
        return tree
    read = any(
        file.kind is FileKind.HOOK and file.path.endswith(".py") and b"unknown.yaml" in file.data for file in tree
    )
    by = "only what was copied from its checkout reads this file" if read else "nothing in the project reads this file"
    head = f"# What {Path(run.file).name} has and the project has no setting for; {by}.\n"
    return add_hook(tree, UNKNOWN, head + dump_yaml({key: shown(value) for key, value in sorted(unknown.items())}))


def add_hook(tree: Tree, path: str, text: str) -> Tree:
    """Return a tree with another hook file."""
    return Tree.of([*tree, File(path, FileKind.HOOK, text.encode())])


def _write_settings(project: TargetProject, run: Run) -> CopyResult:
    """Write a run's settings into a tree as a config recipe."""
    taken = named.take_files(project)
    files = {file.path: file for file in taken.tree}
    chosen = {**project.settings, **taken.settings}
    main = files[f"{_CONFIG}ppo_trainer.yaml"]
    text, count = _DEFAULT.subn(rf"\g<1>{RECIPE}", main.data.decode())
    if count != 1:
        raise InternalError("config/ppo_trainer.yaml does not name its recipe", hint="report it")
    files[main.path] = replace(main, data=text.encode())
    recipe = files.get(f"{_CONFIG}recipe/toy.yaml")
    body = (read_yaml(recipe.data.decode()) or {}) if recipe is not None else {}
    merge(body, nest(chosen))
    head = f"# The settings of {Path(run.file).name} where they differ from this project's own.\n"
    path = f"{_CONFIG}recipe/{RECIPE}.yaml"
    files[path] = File(path, FileKind.HOOK, (head + dump_yaml(body)).encode())
    _override_toy(files, chosen)
    return CopyResult(Tree.of(list(files.values())), taken.remarks, chosen)


def _override_toy(files: dict[str, File], settings: Mapping[str, Any]) -> None:
    """Repeat settings in toy configs that would otherwise override them."""
    if settings.get("actor_rollout_ref.model.path") is not None:
        return
    for name in ("scale/toy.yaml", "critic_scale/toy.yaml"):
        file = files.get(_CONFIG + name)
        if file is None:
            continue
        body = read_yaml(file.data.decode()) or {}
        keys = set(flatten(body))
        wrong = {key: value for key, value in settings.items() if key in keys and flatten(body)[key] != value}
        if wrong:
            merge(body, nest(wrong))
            first = "".join(line for line in file.data.decode().splitlines(True) if line.startswith("#"))
            files[file.path] = replace(file, data=(first + _OVER_TOY + dump_yaml(body)).encode())
