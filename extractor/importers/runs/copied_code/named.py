"""Copy Python files, modules and tools that a run's config names."""

import re
from typing import Any, NamedTuple

import yaml

from extractor.importers.config.keys import CLASSES, FUNCTIONS, list_tools
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject, remark_on_copy
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run_folders import RunFolders
from extractor.pipeline.source import Source
from extractor.values import limits, readers
from extractor.values.configtree.compose import read_yaml
from extractor.values.configtree.written import dump_yaml
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree

# The settings that name modules to import before the model is loaded.
_LIBRARIES = ("actor_rollout_ref.model.external_lib", "critic.model.external_lib")
_CHECKOUT = "the run's checkout"
_MODULE, _TABLE = "custom/verl_tools.py", "custom/verl_tools.yaml"


class _Kind(NamedTuple):
    """A kind of file that a config names; `of_verl` is the module of its base class in the run's release."""

    key: str
    default: str | None
    target: str
    of_verl: str | None = None


_KINDS = (
    _Kind("custom_reward_function.path", "compute_score", "custom/verl_reward.py"),
    _Kind("data.custom_cls.path", None, "custom/verl_dataset.py", "verl.utils.dataset"),
    _Kind(f".{FUNCTIONS.rpartition('.')[2]}", None, "custom/verl_functions.py"),
)


def read_function_text(places: RunFolders, path: str, source: Source) -> str | None:
    """Return the text of a named file, or None."""
    place = places.find_like(path)
    if place is not None:
        return readers.decode_python(readers.read_bytes(place, limits.MAX_TEXT))
    own = path[path.find("verl/") :] if "verl/" in path else ""
    return source.read(own) if own in source.files else None


def take_files(project: TargetProject) -> CopyResult:
    """Copy the files of rewards, datasets and tools; point the settings to them."""
    texts: dict[str, str] = {}
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    copying = project.copying()
    for kind in _KINDS:
        keys = [name for name in project.settings if name.endswith(kind.key)]
        key = next(iter(keys), None)
        path = str(project.settings[key] or "").removeprefix("file://") if key else ""
        if key is None or not path or any(file.path == path for file in project.tree):
            continue  # what was copied before this names its own copy
        name = project.settings.get(f"{key.removesuffix('.path')}.name", kind.default)
        target = f"{project.package}/{kind.target}"
        changed |= dict.fromkeys(keys, target)
        own = kind.of_verl if project.source.release != project.release else None
        try:
            text = read_function_text(project.places, path, project.source)
            if text is None:
                remarks.append(Remark(key, path, "to do", f"not found: put it at {target}, or say --cwd"))
                continue
            copied = copying.copy(text, [name] if name else [], own, project.places.find_like(path))
        except (SyntaxError, UsageError, OSError) as error:  # only Python gets into a project
            why = f"not copied: it is no Python ({getattr(error, 'msg', None) or error})"
            remarks.append(Remark(key, path, "to do", why))
            continue
        if name and not re.search(rf"\b{re.escape(str(name))}\b|import \*", copied.text):
            remarks.append(Remark(key, path, "to do", f"it has no {name}: name what it has by {key[:-4]}name"))
        texts[kind.target] = copied.text
        remarks += remark_on_copy(key, path, _CHECKOUT, target, copied)
    return CopyResult(project.add_hooks({**copying.files, **texts}, {}), remarks, changed)


def remark_on_modules(project: TargetProject) -> list[Remark]:
    """Report the modules that a run imports before it loads its models."""
    why = f"not copied: put the module beside {project.package}, with what it imports"
    return [Remark(key, value, "to do", why) for key in _LIBRARIES if (value := project.settings.get(key))]


def take_tools(project: TargetProject) -> CopyResult:
    """Copy the run's table of tools, and its classes; point the settings to them."""
    path = str(project.settings.get(CLASSES) or "")
    if not path or any(file.path == path for file in project.tree):
        return CopyResult(project.tree)
    place, copying = project.places.find_like(path), project.copying()
    try:
        if place is None:
            raise UsageError("not found: put it there, or say --cwd", hint="")
        table = read_yaml(readers.read_text(place, limits.MAX_TEXT))
        listed = [item for item in list_tools(table) if "class_name" in item]
        tools = [(item, *str(item["class_name"]).rpartition(".")[::2]) for item in listed]
        if not tools:
            raise UsageError("it lists no tools", hint="")
        lines = dict.fromkeys(f"from {module} import {name}" for _, module, name in tools)
        text = "\n".join(['"""The classes of the run\'s tools."""', "", *lines, ""])
        copied = copying.copy(text, [name for _, _, name in tools])
    except (SyntaxError, UsageError, OSError, yaml.YAMLError) as error:
        return CopyResult(project.tree, [Remark(CLASSES, path, "to do", str(error))])
    for item, _, name in tools:
        item["class_name"] = f"{project.package}.custom.verl_tools.{name}"
    target = f"{project.package}/{_TABLE}"
    tree = project.add_hooks({**copying.files, _MODULE: copied.text}, {})
    tree = Tree.of([*tree, File(target, FileKind.HOOK, f"# The tools of {path}.\n{dump_yaml(table)}".encode())])
    names = {CLASSES, f"data.{CLASSES.rpartition('.')[2]}"} & project.settings.keys()
    remarks = remark_on_copy(CLASSES, path, _CHECKOUT, f"{project.package}/{_MODULE}", copied)
    return CopyResult(tree, remarks, dict.fromkeys(names, target))
