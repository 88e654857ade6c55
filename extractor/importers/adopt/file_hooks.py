"""Copy a fork's reward code and dataset into hook files."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from extractor.importers.adopt.find_methods import rewrite_for_hook
from extractor.importers.adopt.fork_code import Closure, ForkCode, find_calls
from extractor.importers.adopt.method_hooks import map_project_names
from extractor.importers.adopt.method_states import MethodState, Runs
from extractor.importers.adopt.own_keys import compose_settings
from extractor.importers.adopt.recognised import Recognised
from extractor.importers.adopt.target_project import AdoptTarget, NoPlace
from extractor.importers.config.keys import REWARD_MANAGER
from extractor.importers.config.templates import read_table, render
from extractor.importers.python_text.definitions import list_required_arguments
from extractor.importers.runs.copied_code import managers, named
from extractor.importers.runs.copied_code.target import TargetProject
from extractor.importers.runs.run_folders import RunFolders
from extractor.values.tree import File, FileKind, Tree

_CUSTOM, _CLASS = "data.custom_cls", "RLHFDataset"
_COLLATES = "collate_fn"  # of a project's dataset, whichever class it has
_DATASET, _DATASETS = "utils/dataset/rl_dataset.py", "verl.utils.dataset.rl_dataset"
# What a project makes its dataset of, by name, and what trainers of forks call that.
_GIVEN = {"data_files", "tokenizer", "config"}
_OF_A_DATASET: Mapping[str, str] = read_table("adopt")["of_a_dataset"]
_MADE, _DEFAULTS, _REWARDS = "ForkDataset", "at their defaults", "rewards"


class _Copied(NamedTuple):
    """A copy, the setting that chooses it, what is missing."""

    where: str
    setting: str
    why: str


def copy_files(
    recognised: Recognised, target: AdoptTarget, files: Mapping[str, bytes], release: str, states: Sequence[MethodState]
) -> tuple[dict[str, bytes], list[MethodState]]:
    """Copy reward code and the dataset that were not carried.

    Returns:
        More files, and the states with the copies.
    """
    copy = target.copy
    parked = [item for item in states if item.runs is Runs.NO and item.where not in copy.own]
    lost = {item.kind for item in parked}
    whole = dict(target.files)
    whole |= {path: File(path, FileKind.HOOK, data) for path, data in files.items()}
    folders = RunFolders((copy.root.parent, copy.top), is_said=True, home=copy.top)
    project = TargetProject(Tree.of(list(whole.values())), target.package, recognised.source, folders, {}, release)
    found: dict[str, _Copied] = {}
    if lost & {"reward manager", "reward function"}:
        project, found = _copy_rewards(project, recognised.code, parked)
    for own in [item for item in states if item.kind == "reward manager" and item.where in copy.own]:
        project, copied = _copy_manager(project, own)
        states = [copied if item is own else item for item in states]
    texts = {path: file.data.decode() for path, file in whole.items() if path.endswith(".py")}
    made, left = _make_of_config(recognised, texts, target.package) if "dataset" in lost else (None, [])
    if made is not None:
        chosen = {f"{_CUSTOM}.path": f"{copy.root.name}/{_DATASET}", f"{_CUSTOM}.name": _CLASS}
        taken = named.take_files(replace(project, settings=chosen))
        whys = [item.why for item in taken.remarks if item.what == "to do"]
        if all("needs packages" in why for why in whys):
            where = str(taken.settings[f"{_CUSTOM}.path"])
            data = {file.path: file.data + made.encode() * (file.path == where) for file in taken.tree}
            project = replace(project, tree=Tree.of([replace(file, data=data[file.path]) for file in taken.tree]))
            choice = f"{_CUSTOM}.path={where} {_CUSTOM}.name={_MADE if made else _CLASS}"
            whys += [f"its trainer computes {', '.join(left)} for it: {_DEFAULTS}"] if left else []
            found["dataset"] = _Copied(where, choice, "; ".join(whys))
    new = {file.path: file.data for file in project.tree if whole.get(file.path) is not file}
    written = {path: data for path, data in new.items() if path not in whole or whole[path].data != data}
    return written, [_update_state(item, found, written) if item in parked else item for item in states]


def _copy_rewards(
    project: TargetProject, fork: ForkCode, parked: Sequence[MethodState]
) -> tuple[TargetProject, dict[str, _Copied]]:
    """Copy what scores in files of verl's."""
    before = compose_settings({file.path: file.data for file in project.tree}, "config/")
    plain = next(iter(project.choose_manager(managers.PLAIN)), "")
    key = next((key for key in REWARD_MANAGER if key in before), plain)
    # Without a run the manager is one whose file was changed, most scripts' first; else verl's plain one.
    changed = [Path(item.where).stem for item in parked if "manager" in item.kind]
    found: dict[str, _Copied] = {}
    names = dict.fromkeys([managers.PLAIN, *changed])
    for name in sorted(names, key=lambda name: len(fork.list_scripts([("reward_manager", name)])), reverse=True):
        chosen = replace(project, settings={key: name})
        if found and name not in changed:
            continue
        if found:
            taken = managers.take_changed(chosen, fork.program, f"{name}_fork")
        else:
            taken = managers.take_unnamed(chosen, fork.program, before)
        for setting, value in list(taken.settings.items())[:1]:
            choice, where = f"{setting}={value}", f"{project.package}/{managers.TARGET}.py"
            if str(value).endswith(".py"):
                choice, where = f"{choice} {plain}={managers.PLAIN}" if plain else choice, str(value)
            elif found:
                where = f"{project.package}/{managers.TARGET}_{value}.py"
            asked = "; ".join(item.why for item in taken.remarks if item.what == "to do")
            found = {_REWARDS: _Copied(where, choice, asked), **found, name: _Copied(where, choice, asked)}
            project = replace(project, tree=taken.tree)
    return project, found


def _copy_manager(project: TargetProject, state: MethodState) -> tuple[TargetProject, MethodState]:
    """Copy a reward manager that stands in a file of the fork's own."""
    key = next(iter(project.choose_manager(state.name)), "")
    is_first = not any(file.path == f"{project.package}/{managers.TARGET}.py" for file in project.tree)
    target = managers.TARGET if is_first else managers.TARGET + re.sub(r"\W", "_", f"_{state.name}")
    taken = managers.take_named(replace(project, settings={key: state.name}), target)
    why = "; ".join(item.why for item in taken.remarks if item.what == "to do")
    if not taken.places:
        return project, replace(state, why=why or state.why)
    runs = Runs.IN_PART if why.endswith(managers.HAND_OVER) else Runs.YES
    place, setting = f"{project.package}/{target}.py", f"{key}={state.name}"
    return replace(project, tree=taken.tree), replace(state, runs=runs, where=place, setting=setting, why=why)


def _update_state(item: MethodState, found: Mapping[str, _Copied], written: Mapping[str, bytes]) -> MethodState:
    """Return a method's state, updated if its code was copied."""
    keys = (Path(item.where).stem, _REWARDS) if "reward" in item.kind else (item.kind,)
    copied = next((found[key] for key in keys if key in found), None)
    if copied is None or item.name == _COLLATES:
        return item
    name = re.escape(item.name.partition(" of ")[0])
    is_whole = any(re.search(rf"\b(class|def) {name}\b".encode(), data) for data in written.values())
    runs, why = Runs.YES if is_whole or item.kind != "reward manager" else Runs.IN_PART, copied.why
    if runs is Runs.IN_PART:
        why = f"only what it scores by was copied; {why or item.why}"
    elif why.endswith((_DEFAULTS, managers.HAND_OVER)):
        runs = Runs.IN_PART
    return replace(item, runs=runs, where=copied.where, setting=copied.setting, why=why)


def _make_of_config(recognised: Recognised, texts: Mapping[str, str], package: str) -> tuple[str | None, list[str]]:
    """Return a class that makes the dataset of a config; and arguments that stay at their defaults.

    The class is empty where the dataset takes what projects pass, and None where it cannot be made.
    """
    fork, module = recognised.code, recognised.code.find(_DATASETS)
    node = module.by_name[_CLASS].node if module is not None and _CLASS in module.by_name else None
    makes = [item for item in getattr(node, "body", ()) if getattr(item, "name", "") == "__init__"]
    if not makes or not isinstance(makes[0], ast.FunctionDef):
        return None, []
    if {item.arg for item in makes[0].args.args} >= _GIVEN:
        return "", []
    needed = set(list_required_arguments(makes[0])) - {"self"}
    for trainer in fork.list_callers(f"{_CLASS}("):
        names = {*trainer.by_name, *trainer.imports}
        for call, around in find_calls(trainer, (_CLASS,)):
            asked = {item.arg: item.value for item in call.keywords if item.arg}
            closure = Closure(fork, map_project_names(texts, package), package, frozenset({_CLASS}))
            given: dict[str, str] = {}
            for key, value in asked.items():
                try:
                    text = rewrite_for_hook(value, around, _OF_A_DATASET, names)
                    given |= {key: closure.rewrite(trainer, text)} if text else {}
                except NoPlace:
                    continue
            if "data_files" in given.values() and not call.args and needed <= given.keys():
                lines = "".join(f"            {key}={text},\n" for key, text in given.items())
                code = "\n\n\n".join(text.strip() for text in closure.texts.values())
                imports = "\n".join(sorted(closure.imports.values()))
                made = render("fork_dataset.py", cls=_CLASS, name=_MADE, arguments=lines, code=code, imports=imports)
                return made, sorted(asked.keys() - given.keys())
    return None, []
