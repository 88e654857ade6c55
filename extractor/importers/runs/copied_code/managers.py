"""The reward manager that a run chooses by name and a project lacks: taken from its checkout, or from its release."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from extractor.importers.runs import templates
from extractor.importers.runs.copied_code.code import (
    class_of,
    method_of,
    python_files,
    registered_by,
    settings_read,
    tree_of,
)
from extractor.importers.runs.copied_code.copying import Copying
from extractor.importers.runs.copied_code.manager_hooks import (
    HAS_ITS_OWN,
    OWN_SETTINGS,
    PROGRAMS,
    adapted,
    handed_by_programs,
)
from extractor.importers.runs.copied_code.modules import SCORERS
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject, copied_remarks
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values.errors import UsageError
from extractor.values.modules import absolute

KEYS = ("reward.reward_manager.name", "reward_model.reward_manager")
# They give every response the score that `naive` gives it, in processes side by side: that does for them.
AS_NAIVE, PLAIN = frozenset({"prime", "remote"}), "naive"
TARGET, IMPORTED_BY = "custom/verl_reward_manager", "custom/reward_manager"
# What a run hands to the class besides what verl does.
_GIVEN = re.compile(r"reward(?:_model)?\.reward_kwargs\.(\w+)")
_REGISTERED = re.compile(r"@register\w*\(\s*[\"']([\w-]+)[\"']")
# A line of the hook's table of what the run's program hands over.
_TABLE = re.compile(r"^ +\"(\w+)\": lambda: config\.([\w.]+?)(?:\.get\('(\w+)'.*)?,$", re.MULTILINE)
_DEFAULT_SCORERS = ("default_compute_score", "_default_compute_score")
# So many classes of one name are tried, and so many packages are followed that hand one on.
_MOST = 4


@dataclass(frozen=True)
class Manager:
    """A class that a checkout, or a release of verl, has for a reward manager's name.

    Attributes:
        cls: The class.
        module: Where it is imported from.
        place: The file that it is known by.
        folder: Where the module is imported from; None: the release.
        is_registered: Whether it registers itself; otherwise a program chooses it by its name.
        scorer: Module and name of the function that its program scores by.
    """

    cls: str
    module: str
    place: str
    folder: Path | None
    is_registered: bool
    scorer: tuple[str, str] | None = None


def names(code: Mapping[str, str]) -> set[str]:
    """Return the names of the reward managers that a package has, by its Python files' texts and paths."""
    found = {name for path, text in code.items() if "reward" in path for name in _REGISTERED.findall(text)}
    return found | {PLAIN}  # which is in no registry in projects of 0.4.0


def chosen(project: TargetProject) -> str | None:
    """Return the name of the reward manager that a run chooses."""
    return next((str(project.settings[key]) for key in KEYS if project.settings.get(key)), None)


def take(project: TargetProject) -> CopyResult:
    """Copy the reward manager that a run names, with what it imports; `custom/reward_manager.py` imports it."""
    name, known = chosen(project), names(project.code)
    if name is None or name in {*known, *AS_NAIVE} or not project.has(IMPORTED_BY):
        return CopyResult(project.tree)
    key = next(key for key in KEYS if project.settings.get(key))
    refused: list[Remark] = []
    for found in islice(_known_as(name, project), _MOST):
        copying = project.copying(*([] if found.folder is None else [found.folder]))
        try:
            copied = copying.copy(f"from {found.module} import {found.cls}\n", [found.cls])
        except (SyntaxError, UsageError, OSError):
            continue
        why = "; ".join(copied.missing)
        if not why and found.is_registered and any("/registry.py" in path for path in copying.files):
            why = "it would come with a registry of its own"
        if why:
            refused.append(Remark(key, name, "to do", f"{found.place} has it, and cannot be imported here: {why}"))
            continue
        hooks, lacking = _hooks(name, found, copied.text.strip(), copying, project)
        files = {path: _without_registering(text, known) for path, text in copying.files.items()}
        tree = project.with_hooks({**hooks, **files}, {TARGET: IMPORTED_BY})
        hook = f"{project.package}/{TARGET}.py"
        remarks = copied_remarks(key, name, found.place, hook, copied)
        if lacking:
            why = f"the run's program makes it with {', '.join(lacking)}: {hook} is to hand it over"
            remarks.append(Remark(key, name, "to do", why))
        reads = () if found.is_registered else tuple(sorted(settings_read([*hooks.values(), *copying.files.values()])))
        return CopyResult(tree, remarks, places=(f"{found.module.replace('.', '/')}.py",), reads=reads)
    return CopyResult(project.tree, refused[:1])


def _hooks(
    name: str, found: Manager, imports: str, copying: Copying, project: TargetProject
) -> tuple[dict[str, str], list[str]]:
    """Return the hook that registers a manager with what it imports, and arguments that it cannot hand over."""
    if found.is_registered:
        made = {"name": name, "place": found.place, "imports": f"from {imports.split()[1]} import {found.cls}"}
        text = templates.render("registered_manager.py", **made, cls=found.cls)
        return {f"{TARGET}.py": text}, []
    of_class = next((text for text in copying.files.values() if f"class {found.cls}" in text), "")
    its_own = HAS_ITS_OWN.search(of_class) if found.scorer is None else None
    has_its_own = its_own is not None and its_own[1] not in _DEFAULT_SCORERS  # which may take other arguments
    scorer, lines = "None", [imports]
    defaults = () if has_its_own else _DEFAULT_SCORERS
    for module, function in [*([found.scorer] if found.scorer else []), *((SCORERS, one) for one in defaults)]:
        try:
            copied = copying.copy(f"from {module} import {function}\n", [function])
        except (SyntaxError, UsageError, OSError):
            copying.undo()
            continue
        if not copied.missing:
            scorer, lines = function, [imports, copied.text.strip()]
            break
        copying.undo()
    imported = "\n".join(sorted("\n".join(lines).splitlines()))
    handed, lacking = handed_by_programs(map(project.checkouts, PROGRAMS), found.cls)
    hooks = adapted(name, found.place, found.cls, imported, scorer, handed, has_its_own=has_its_own)
    return hooks, lacking


def _without_registering(text: str, known: Iterable[str]) -> str:
    """Return a copy that registers nothing under names that a project has something under."""
    lines = text.split("\n")
    for node in reversed(tree_of(text).body):
        for item in reversed(getattr(node, "decorator_list", ())):
            said = re.fullmatch(r"\w*register\w*\('([^']+)'\)", ast.unparse(item).rpartition(".")[2])
            if said is not None and said[1] in known:
                del lines[item.lineno - 1 : item.end_lineno]
    return "\n".join(lines)


def decorator_of(name: str) -> re.Pattern[str]:
    """Return what registers a reward manager under a name."""
    return re.compile(rf"@register\(\s*[\"']{re.escape(name)}[\"']")


def _known_as(name: str, project: TargetProject) -> Iterator[Manager]:
    """Find the classes that are registered under a name, then those that a program chooses where it is given."""
    decorator, compared = decorator_of(name), re.compile(rf"==\s*[\"']{re.escape(name)}[\"']")
    source, root = project.source, project.places.root
    texts: list[tuple[str, str, Path | None]] = [(place, text, root) for place, text in python_files(project.places)]
    released = (path for path in sorted(source.files) if path.endswith(".py") and "reward" in path)
    texts += [(path, source.read(path), None) for path in released]
    for place, text, folder in texts:
        if decorator.search(text) and (classes := registered_by(text, decorator)):
            module, base = _module(place, folder)
            yield Manager(classes[0], module, place, base, is_registered=True)
    for place, text, folder in texts:
        if re.search("main|reward", Path(place).name) and compared.search(text):
            tree = tree_of(text)
            cls, (module, base) = _chosen(tree, name), _module(place, folder)
            origin = None if cls is None else _origin(tree, cls, module, base)
            if cls is not None and origin is not None:
                scorer = _scorer(tree, module)
                yield Manager(cls, origin, place, base, is_registered=False, scorer=scorer)


def _module(place: str, root: Path | None) -> tuple[str, Path | None]:
    """Return the name of the module that a file is, and the folder that it is imported from; None: of the release."""
    parts = Path(place).with_suffix("").parts
    if root is None:
        return ".".join(parts), None
    folder = (root / place).parent
    while (folder / "__init__.py").is_file() and folder != root:
        folder = folder.parent
    return ".".join(parts[len(folder.relative_to(root).parts) :]), folder


def _chosen(tree: ast.Module, name: str) -> str | None:
    """Return the class that is chosen where something equals a name: `if x == "name": manager = Class`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Eq):
            sides = [node.test.left, *node.test.comparators]
            if any(isinstance(side, ast.Constant) and side.value == name for side in sides):
                for item in node.body:
                    if isinstance(item, ast.Assign) and isinstance(item.value, ast.Name):
                        return item.value.id
    return None


def _imported_from(tree: ast.Module, name: str, module: str) -> tuple[str, str] | None:
    """Return the module, and the name there, that a module imports under a name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return absolute(node, module, is_package=False), alias.name
    return None


def _origin(tree: ast.Module, name: str, module: str, folder: Path | None) -> str | None:
    """Return the module that defines a name of a program, followed through packages that hand it on."""
    for _ in range(_MOST):
        if any(isinstance(node, ast.ClassDef) and node.name == name for node in tree.body):
            return module
        found = _imported_from(tree, name, module)
        if found is None or folder is None:
            return found and found[0]
        path = folder / found[0].replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not file.is_file():
            return found[0]
        module = f"{found[0]}.__init__" if path.is_dir() else found[0]
        tree = tree_of(file.read_text(encoding="utf-8", errors="replace"))
    return None


def _scorer(tree: ast.Module, module: str) -> tuple[str, str] | None:
    """Return what a program hands to `run_ppo` as the function that scores: its module and name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run_ppo":
            given = [*node.args[1:2], *(item.value for item in node.keywords if item.arg == "compute_score")]
            for item in given:
                if isinstance(item, ast.Name) and (found := _imported_from(tree, item.id, module)):
                    return found
    return None


def handed_settings(project: TargetProject, unknown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that hand over what the hook of a copied manager takes from others, and the run sets."""
    section = re.search(r'^MANAGER_ARGUMENTS = "(.+)"$', project.text_of("settings/reward_keys.py"), re.MULTILINE)
    table = _TABLE.findall(project.text_of(f"{TARGET}.py")) if section is not None else []
    found = {}
    for argument, path, name in table:
        key = f"{path}.{name}" if name else path
        if key in unknown or key in project.settings:
            found[f"{section[1]}.{argument}"] = unknown.get(key, f"${{{key}}}")  # type: ignore[index]
    return found


def not_taken(project: TargetProject) -> list[str]:
    """Return the settings that hand a run's manager arguments which its class does not take."""
    name = chosen(project) or PLAIN
    decorator = decorator_of(PLAIN if name in AS_NAIVE - names(project.code) else name)
    text = next((text for text in project.code.values() if decorator.search(text)), "")
    classes = (class_of(tree_of(text), cls) for cls in registered_by(text, decorator))
    made = next((method_of(node, "__init__") for node in classes if node is not None), None)
    if made is None or made.args.kwarg is not None:
        return []
    taken = {argument.arg for argument in (*made.args.args, *made.args.kwonlyargs)}
    given = [(key, found[1]) for key in project.settings if (found := _GIVEN.match(key))]
    # What it does not take it may still read, in the config.
    return [key for key, name in given if name not in taken and f'"{name}"' not in text]


def read_by_copy(project: TargetProject, unknown: Iterable[str]) -> set[str]:
    """Return the settings of no release that a run's copied manager finds in its config, and reads."""
    hook = project.code.get(f"{project.package}/{TARGET}.py", "")
    if OWN_SETTINGS not in hook:
        return set()
    classes = re.findall(r"^from \S+ import (\w+)$", hook, re.MULTILINE)
    code = "\n".join(text for text in project.code.values() if any(f"class {name}" in text for name in classes))
    return {key for key in unknown if _asks_for(key).search(code)}


def _asks_for(key: str) -> re.Pattern[str]:
    """Return how code asks a config for a setting: `config.trainer.task`, `trainer["task"]`, `.get("task")`."""
    section, last = map(re.escape, key.split(".")[-2:]) if "." in key else ("config", re.escape(key))
    return re.compile(rf"\b{section}\.{last}\b|[\[(]\s*[\"']{last}[\"']")
