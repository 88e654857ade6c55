"""Copy the code that scores a run without a reward file.

A run may name a manager that its checkout or its release registers. Forks also change verl's managers, the class in
their `main_ppo.py`, or `verl/utils/reward_score`: these are copied where they are no version of verl's, or know a
source of data that the run's release does not.
"""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from extractor.importers.config import templates
from extractor.importers.config.keys import REWARD_FILE, REWARD_MANAGER
from extractor.importers.python_text.definitions import (
    drop_decorators,
    list_registered_by,
    map_methods,
)
from extractor.importers.python_text.module_imports import replace_nodes
from extractor.importers.runs.copied_code.copying import FOLDER, SCORERS, Copied, Copying
from extractor.importers.runs.copied_code.target import CopyResult, TargetProject, remark_on_copy
from extractor.importers.runs.launch_reader import find_program_file
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run_folders import list_python_files
from extractor.values import fingerprint, readers
from extractor.values.errors import UsageError

# They give every response the score that `naive` gives it, in processes side by side: that does for them.
AS_NAIVE, PLAIN = frozenset({"prime", "remote"}), "naive"
TARGET, IMPORTED_BY = "custom/verl_reward_manager", "custom/reward_manager"
# What a run hands to the class besides what verl does.
_GIVEN = re.compile(r"reward(?:_model)?\.reward_kwargs\.(\w+)")
_REGISTERED = re.compile(r"@register\w*\(\s*[\"']([\w-]+)[\"']")
# Where upstream has managers; those of the latter score one row each time, by a method of this name.
_FOLDERS = ("workers/reward_manager", "experimental/reward/reward_loop", "experimental/reward_loop/reward_manager")
_OF_A_LOOP = "run_single"
_FOLDER = f"{SCORERS.replace('.', '/')}/"
_SCORERS = f"{_FOLDER}__init__.py"
_DEFAULT_SCORERS = ("default_compute_score", "_default_compute_score")
# How a class falls back to a function of its own.
_HAS_ITS_OWN = re.compile(r"self\.compute_score = compute_score or (\w+)")
_REWARD, _PROGRAM = "custom/verl_reward", "custom/verl_program"
# The name under which a class that no registry has is registered.
_OF_THE_RUN = "of_the_run"
# Where verl and its forks make managers, what verl makes them with, and the settings that a program may hand over.
PROGRAMS = ("verl/trainer/main_ppo.py", "verl/trainer/ppo/reward.py")
_BY_VERL = {"tokenizer", "num_examine", "compute_score", "reward_fn_key", "config"}
_OF_A_PROGRAM = {"config", "tokenizer", *dir(builtins)}
# How often a name of a program is followed to what it was made of.
_HANDED_ON = 5
_PACKAGE, HAND_OVER = "verl", "is to hand it over"
_THE_REST = "The project has verl's; adopting the copy with --from-verl-run carries over what has a place in a project"
_ADOPTED = "What has a place here was carried over, and the rest lies below orphaned/"


def find_changed(project: TargetProject) -> list[str]:
    """Return the checkout's verl files that match no upstream version."""
    return [path for path in fingerprint.load_upstream_files() if is_changed(project, path)]


def is_changed(project: TargetProject, path: str) -> bool:
    """Tell whether no version of upstream's has the checkout's version of a file."""
    text = project.checkouts(path)
    if not text or (path in project.source.files and project.source.read(path) == text):
        return False
    known = fingerprint.load_upstream_files().get(path)
    if known:
        return _compute_fingerprint(text) not in known
    nodes = [node for node in readers.parse_python(text).body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    return any(fingerprint.fingerprint_statement(node) not in fingerprint.load_upstream_parts() for node in nodes)


@lru_cache(maxsize=128)  # each file is asked for several times in a conversion
def _compute_fingerprint(text: str) -> str:
    return fingerprint.fingerprint(readers.parse_python_or_nothing(text))


def find_program_classes(tree: ast.Module) -> list[str]:
    """Return a program's reward manager classes, the training one last."""
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    made = [ast.unparse(call.func) for call in calls if any(item.arg == "num_examine" for item in call.keywords)]
    text = ast.unparse(tree)
    trains = set(re.findall(r"(?m)^ *reward_fn = (\w+)\(", text))
    return sorted((name for name in made if name in defined), key=lambda name: name in trains)


def find_program_managers(tree: ast.Module) -> ast.Module | None:
    """Return a program's reward managers and their functions, or None."""
    names = set(find_program_classes(tree))
    if not names:
        return None
    own = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    more = names
    while more:
        used = {item.id for name in more for item in ast.walk(own[name]) if isinstance(item, ast.Name)}
        more = (used & own.keys()) - names
        names |= more
    return ast.Module([node for name, node in own.items() if name in names], type_ignores=[])


def is_own_manager(text: str) -> bool:
    """Tell whether a program defines a reward manager unlike upstream's programs."""
    manager = find_program_managers(readers.parse_python_or_nothing(text))
    return manager is not None and fingerprint.fingerprint(manager) not in fingerprint.load_upstream_programs()


def remark_on_changed(project: TargetProject, copied: tuple[str, ...], *, is_adopted: bool = False) -> list[Remark]:
    """Report the changed verl files that were not carried over."""
    left = [path for path in find_changed(project) if not path.startswith(copied)]
    if not left:
        return []
    names = ", ".join(str(PurePosixPath(path).relative_to(_PACKAGE)) for path in left)
    why = f"the run's own copy of verl was changed in {names}: no known version of verl has these so"
    return [Remark(_PACKAGE, "", "not carried over", f"{why}. {_ADOPTED if is_adopted else _THE_REST}")]


class _Scorer(NamedTuple):
    """A scoring class or function of the checkout.

    Attributes:
        path: Its file, below a root of the checkout.
        name: What it is called there.
        text: Of the file.
        key: The setting that is to name it.
        called: What it is registered as.
        target: The hook that registers it, without `.py`.
    """

    path: str
    name: str
    text: str
    key: str
    called: str = _OF_THE_RUN
    target: str = TARGET

    @property
    def what(self) -> str:
        """Return its description for remarks."""
        return f"{self.path}, which scores by rules of its own,"


def list_names(code: Mapping[str, str]) -> set[str]:
    """Return the names of a package's reward managers from its files."""
    found = {name for path, text in code.items() if "reward" in path for name in _REGISTERED.findall(text)}
    return found | {PLAIN}  # which is in no registry in projects of 0.4.0


def find_chosen(project: TargetProject) -> str | None:
    """Return the name of the reward manager that a run chooses."""
    return next((str(project.settings[key]) for key in REWARD_MANAGER if project.settings.get(key)), None)


def take_named(project: TargetProject, target: str = TARGET) -> CopyResult:
    """Copy the reward manager a run names; `custom/reward_manager.py` imports it."""
    name, known = find_chosen(project), list_names(project.code)
    if name is None or name in known or not project.has(IMPORTED_BY):
        return CopyResult(project.tree)
    key = next(key for key in REWARD_MANAGER if project.settings.get(key))
    for place, cls in _find_registered(name, project):
        if name in AS_NAIVE and not is_changed(project, place):
            continue
        copying = project.copying()
        copied = _copy_file(copying, f"from {copying.name_module(place)} import {cls}\n", cls)
        if copied is None or copied.missing or any("/registry.py" in path for path in copying.files):
            continue  # it stays unknown, which is said of any such name
        imports = f"from {copied.text.split()[1]} import {cls}"
        text = templates.render("registered_manager.py", name=name, place=place, imports=imports, cls=cls)
        pattern = rf"\w*register\w*\('(?:{'|'.join(map(re.escape, sorted(known)))})'\)"
        files = {path: drop_decorators(copy, pattern) for path, copy in copying.files.items()}
        tree = project.add_hooks({f"{target}.py": text, **files}, {target: IMPORTED_BY})
        remarks = remark_on_copy(key, name, place, f"{project.package}/{target}.py", copied)
        return CopyResult(tree, remarks, places=(place,))
    classes = map_branches(map(project.checkouts, PROGRAMS)).get(name, ())
    for place, text in list_python_files(project.places) if classes else ():
        for cls in classes:
            if re.search(rf"^class {cls}\b", text, re.MULTILINE):
                return _copy_class(_Scorer(place, cls, text, key, name, target), project, PROGRAMS[0])
    return CopyResult(project.tree)


def map_branches(programs: Iterable[str]) -> dict[str, set[str]]:
    """Map names to classes that programs choose by an if."""
    found: dict[str, set[str]] = {}
    for node in (node for text in programs for node in ast.walk(readers.parse_python_or_nothing(text))):
        if isinstance(node, ast.If) and "reward" in ast.unparse(node.test):
            body = "\n".join(map(ast.unparse, node.body))
            for name in re.findall(r"== '([\w-]+)'", ast.unparse(node.test)):
                found.setdefault(name, set()).update(re.findall(r"= ([A-Z]\w+)(?:$|\()", body, re.MULTILINE))
    return found


def take_changed(project: TargetProject, program: str, called: str) -> CopyResult:
    """Copy a changed manager of verl's under another name."""
    key = next(key for key in REWARD_MANAGER if project.settings.get(key))
    found = _find_changed_class(project, key)
    target = TARGET + re.sub(r"\W", "_", f"_{called}")
    if found is None:
        return CopyResult(project.tree)
    return _copy_class(found._replace(called=called, target=target), project, program)


def take_unnamed(project: TargetProject, program: str, before: Mapping[str, Any]) -> CopyResult:
    """Copy the scoring code of a run without function and manager."""
    path = find_program_file(program)
    key = next((key for key in REWARD_MANAGER if key in before), None)
    if key is not None and (found := _find_changed_class(project, key)):
        taken = _copy_class(found, project, path)
        if taken.settings:
            return taken
    function = next((key for key in REWARD_FILE if key in before), None)
    named = {project.settings[key] for key in REWARD_MANAGER if project.settings.get(key)}
    by_default = {PLAIN, "dapo", *AS_NAIVE}  # they score by the default function where the run names none
    if function is None or not named <= by_default or any(project.settings.get(key) for key in REWARD_FILE):
        return CopyResult(project.tree)
    text = project.checkouts(path)
    classes = find_program_classes(readers.parse_python_or_nothing(text))
    if is_own_manager(text) and classes and key is not None and named <= {PLAIN}:
        return _copy_class(_Scorer(path, classes[-1], text, key), project, path)
    text = project.checkouts(_SCORERS)
    defined = [name for name in _DEFAULT_SCORERS if f"def {name}(" in text]
    known = project.source.read(_SCORERS) if _SCORERS in project.source.files else ""
    known += "".join(file.data.decode() for file in project.tree if file.upstream_path == _SCORERS)
    asked = " ".join(re.findall(r"data_source (?:==|in) [^:]*", text))
    is_new = any(source not in known for source in re.findall(r"""["']([^"']+)["']""", asked))
    if defined and (is_new or any(item.startswith(_FOLDER) for item in find_changed(project))):
        return _copy_function(_Scorer(_SCORERS, defined[-1], text, function), project)
    return CopyResult(project.tree)


def list_not_taken(project: TargetProject) -> list[str]:
    """Return settings for arguments the run's reward manager doesn't take."""
    name = find_chosen(project) or PLAIN
    decorator = _write_decorator(PLAIN if name in AS_NAIVE - list_names(project.code) else name)
    text = next((text for text in project.code.values() if decorator.search(text)), "")
    made = [
        map_methods(readers.parse_python_or_nothing(text), cls).get("__init__")
        for cls in list_registered_by(text, decorator)
    ]
    if not made or made[0] is None or made[0].args.kwarg is not None:
        return []
    taken = {argument.arg for argument in (*made[0].args.args, *made[0].args.kwonlyargs)}
    given = [(key, found[1]) for key in project.settings if (found := _GIVEN.match(key))]
    # What it does not take it may still read, in the config.
    return [key for key, name in given if name not in taken and f'"{name}"' not in text]


def _write_decorator(name: str) -> re.Pattern[str]:
    """Return the pattern of a decorator that registers a manager."""
    return re.compile(rf"@register\(\s*[\"']{re.escape(name)}[\"']")


def _copy_file(copying: Copying, text: str, *roots: str, **more: Any) -> Copied | None:
    """Copy a file; return None if unreadable or not Python."""
    try:
        return copying.copy(text, roots, **more)
    except (SyntaxError, UsageError, OSError):
        return None


def _find_registered(name: str, project: TargetProject) -> Iterator[tuple[str, str]]:
    """Yield file and class of the checkout's managers registered under a name."""
    decorator = _write_decorator(name)
    for place, text in list_python_files(project.places):
        if decorator.search(text) and (classes := list_registered_by(text, decorator)):
            yield place, classes[0]


def _write_hook(found: _Scorer, imports: str, handed: Mapping[str, str], has_its_own: bool) -> dict[str, str]:
    """Return the hook that registers a reward manager class, by path."""
    default = "None" if has_its_own else "function"
    values = {"name": found.called, "place": found.path, "cls": found.name, "imports": imports, "default": default}
    is_of_rows = _OF_A_LOOP in map_methods(readers.parse_python_or_nothing(found.text), found.name)
    base = "OfRows" if is_of_rows else found.name
    text = templates.render("run_manager.py", **values, handed=handed, is_of_rows=is_of_rows, base=base)
    own_settings = templates.render("own_settings.py")
    return {f"{found.target}.py": text, f"custom/{FOLDER}/own_settings.py": own_settings}


def _find_handed(texts: Iterable[str], cls: str) -> tuple[dict[str, str], list[str]]:
    """Return what programs pass a reward manager beyond verl's own arguments.

    First constants and `config` settings by argument, then the names of the other arguments.
    """
    found: dict[str, str] = {}
    others: set[str] = set()
    for tree in map(readers.parse_python_or_nothing, texts):
        assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
        aliases = {ast.unparse(item) for node in assigned for item in node.targets if ast.unparse(node.value) == cls}
        made = {cls, "reward_manager_cls", *aliases}
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) in made]
        for item in (item for call in calls for item in call.keywords):
            if item.arg in {None, *_BY_VERL, *found}:
                continue
            if (value := _write_of_config(item.value, assigned)) is not None:
                found[str(item.arg)] = value
            else:
                others.add(str(item.arg))
    return found, sorted(others - found.keys())


def _write_of_config(value: ast.expr, assigned: list[ast.Assign]) -> str | None:
    """Return an expression by config values alone, or None."""
    made: dict[str, list[str]] = {}
    for node in assigned:
        for target in node.targets:
            made.setdefault(ast.unparse(target), []).append(ast.unparse(node.value))
    text = ast.unparse(value)
    for _ in range(_HANDED_ON):
        names = [node for node in ast.walk(readers.parse_python(text)) if isinstance(node, ast.Name)]
        known = [(node, made[node.id]) for node in names if node.id in made and node.id not in _OF_A_PROGRAM]
        text = replace_nodes(text, [(node, f"({values[0]})") for node, values in known if len(values) == 1])
    text = text.replace("self.config", "config")
    is_changed = any("." in target and target.replace("self.config", "config") in text for target in made)
    lacking = {node.id for node in ast.walk(readers.parse_python(text)) if isinstance(node, ast.Name)} - _OF_A_PROGRAM
    return None if lacking or is_changed else text


def _find_changed_class(project: TargetProject, key: str) -> _Scorer | None:
    """Return the checkout's changed class of the run's manager, or None."""
    name = find_chosen(project) or PLAIN
    path = next((path for folder in _FOLDERS if is_changed(project, path := f"verl/{folder}/{name}.py")), "")
    text = project.checkouts(path)
    tree = readers.parse_python_or_nothing(text)
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    classes = [cls for cls in classes if map_methods(tree, cls).keys() & {"__call__", _OF_A_LOOP}]
    verls = project.source.read(path) if path in project.source.files else ""
    same = [cls for cls in classes if re.search(rf"^class {cls}\b", verls, re.MULTILINE)]
    decorated = [cls for cls in list_registered_by(text, _write_decorator(name)) if cls in classes]
    if not classes:
        return None
    # What they register themselves as is the project's own.
    return _Scorer(path, (decorated or same or classes)[-1], drop_decorators(text, r"register\(.*"), key)


def _explain_lack(found: _Scorer, copied: Copied | None, project: TargetProject) -> CopyResult:
    lost = [] if copied is None else [f"{found.what} cannot be imported here: {'; '.join(copied.missing)}"]
    return CopyResult(project.tree, [Remark(found.key, None, "to do", why) for why in lost])


def _copy_function(found: _Scorer, project: TargetProject) -> CopyResult:
    """Copy the checkout's scoring function, with a hook that calls it."""
    copying = project.copying()
    copied = _copy_file(copying, f"from {SCORERS} import {found.name}\n", found.name)
    if copied is None or copied.missing:
        return _explain_lack(found, copied, project)
    hook = f"{project.package}/{_REWARD}.py"
    text = templates.render("verl_reward.py", place=found.path, imports=copied.text.strip(), name=found.name)
    tree = project.add_hooks({f"{_REWARD}.py": text, **copying.files}, {})
    remarks = remark_on_copy(found.key, None, found.what, hook, copied)
    settings: dict[str, Any] = {found.key: hook}
    named = f"{found.key.removesuffix('path')}name"
    if named in project.settings:  # null, of a run that names no function
        settings[named] = "compute_score"
    return CopyResult(tree, remarks, settings, (found.path, _FOLDER))


def _copy_class(found: _Scorer, project: TargetProject, program: str) -> CopyResult:
    """Copy the checkout's reward manager, with a hook that registers it."""
    copying = project.copying()
    place = project.places.find(found.path)
    copied = _copy_file(copying, found.text, found.name, place=place, only_part=True)
    if copied is None or copied.missing:
        return _explain_lack(found, copied, project)
    hook, part = f"{project.package}/{found.target}.py", _PROGRAM + found.target.removeprefix(TARGET)
    handed, lacking = _find_handed([project.checkouts(path) for path in sorted({program, *PROGRAMS})], found.name)
    imports = f"from {project.package}.{part.replace('/', '.')} import {found.name}"
    has_its_own = _HAS_ITS_OWN.search(copied.text) is not None
    hooks = _write_hook(found, imports, handed, has_its_own)
    own = {f"{part}.py": copied.text, **hooks, **copying.files}
    tree = project.add_hooks(own, {found.target: IMPORTED_BY})
    remarks = remark_on_copy(found.key, find_chosen(project), found.what, hook, copied)
    if lacking:
        why = f"{found.path} is made with {', '.join(lacking)}: {hook} {HAND_OVER}"
        remarks.append(Remark(found.key, None, "to do", why))
    return CopyResult(tree, remarks, {found.key: found.called}, (found.path, _FOLDER))
