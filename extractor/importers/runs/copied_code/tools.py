"""Copy a run's tools: classes named in YAML, and function files."""

from __future__ import annotations

from dataclasses import replace

import yaml

from extractor.importers.config.keys import CLASSES, FUNCTIONS, list_tools
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject, remark_on_copy
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values import limits, readers
from extractor.values.configtree.compose import read_yaml
from extractor.values.configtree.written import dump_yaml
from extractor.values.errors import UsageError
from extractor.values.tree import File, FileKind, Tree

_CHECKOUT = "the run's checkout"
_MODULE, _TABLE, _FUNCTIONS = "custom/verl_tools.py", "custom/verl_tools.yaml", "custom/verl_functions.py"


def take_tools(project: TargetProject) -> CopyResult:
    """Copy a run's tool files; point the settings to them."""
    result = CopyResult(project.tree)
    for key, take in ((CLASSES, _take_classes), (FUNCTIONS, _take_functions)):
        path = str(project.settings.get(key) or "")
        if not path or any(file.path == path for file in project.tree):
            continue
        place = project.places.find_like(path)
        try:
            if place is None:
                raise UsageError("not found: put it there, or say --cwd", hint="")
            tree, target, remarks = take(project, readers.read_text(place, limits.MAX_TEXT), key, path)
        except (SyntaxError, UsageError, OSError, yaml.YAMLError) as error:
            result.remarks.append(Remark(key, path, "to do", str(error)))
            continue
        project = replace(project, tree=tree)
        names = {key, f"data.{key.rpartition('.')[2]}"} & project.settings.keys()
        result = CopyResult(tree, [*result.remarks, *remarks], {**result.settings, **dict.fromkeys(names, target)})
    return result


def _take_classes(project: TargetProject, text: str, key: str, path: str) -> tuple[Tree, str, list[Remark]]:
    """Copy the tool classes' modules and the YAML that names them."""
    table = read_yaml(text)
    tools = [item for item in list_tools(table) if "class_name" in item]
    named = [str(item["class_name"]) for item in tools]
    if not named:
        raise UsageError("it lists no tools", hint="")
    lines = [f"from {name.rpartition('.')[0]} import {name.rpartition('.')[2]}" for name in dict.fromkeys(named)]
    names = [name.rpartition(".")[2] for name in named]
    copying = project.copying()
    copied = copying.copy("\n".join(['"""The classes of the run\'s tools."""', "", *lines, ""]), names)
    for item in tools:
        item["class_name"] = f"{project.package}.custom.verl_tools.{str(item['class_name']).rpartition('.')[2]}"
    target, module = f"{project.package}/{_TABLE}", f"{project.package}/{_MODULE}"
    tree = project.add_hooks({**copying.files, _MODULE: copied.text}, {})
    body = f"# The tools of {path}.\n{dump_yaml(table)}"
    tree = Tree.of([*tree, File(target, FileKind.HOOK, body.encode())])
    return tree, target, remark_on_copy(key, path, _CHECKOUT, module, copied)


def _take_functions(project: TargetProject, text: str, key: str, path: str) -> tuple[Tree, str, list[Remark]]:
    """Copy a file of functions."""
    copying = project.copying()
    copied = copying.copy(readers.decode_python(text.encode()), [], None, project.places.find_like(path))
    target = f"{project.package}/{_FUNCTIONS}"
    tree = project.add_hooks({**copying.files, _FUNCTIONS: copied.text}, {})
    return tree, target, remark_on_copy(key, path, _CHECKOUT, target, copied)
