"""The reward manager that a run chooses by name and a project has not: taken from its checkout, or from its release."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from extractor.pipeline.source import Source
from extractor.usecases.fromrun.files import SCORERS, Copying, Places
from extractor.usecases.fromrun.meaning import Remark
from extractor.usecases.fromrun.taken_over import registered
from extractor.usecases.fromrun.taken_over.recipient import Recipient, Taken, copied_remarks
from extractor.values.errors import UsageError
from extractor.values.modules import absolute

KEYS = ("reward.reward_manager.name", "reward_model.reward_manager")
# They give every response the score that `naive` gives it, in processes side by side: that does for them.
AS_NAIVE, PLAIN = frozenset({"prime", "remote"}), "naive"
# What a run hands to the class besides what verl does.
_GIVEN = re.compile(r"reward(?:_model)?\.reward_kwargs\.(\w+)")
# What a fork's trainer reads for its class: `threshold=config.reward_model.threshold`.
_READ = re.compile(r"reward(?:_model)?\.(\w+)")
_ARGUMENTS = re.compile(r'^MANAGER_ARGUMENTS = "(.+)"$', re.MULTILINE)
_REGISTERED = re.compile(r"@register\w*\(\s*[\"']([\w-]+)[\"']")
TARGET, IMPORTED_BY = "custom/verl_reward_manager", "custom/reward_manager"
# How a class falls back to a function of its own.
HAS_ITS_OWN = re.compile(r"self\.compute_score = compute_score or ")
# What the hook calls a class with, besides the batch.
_CALLED_WITH = {"self", "config", "data", "return_dict", "step", "global_step", "global_steps"}
_CALLED_WITH |= {
    f"{column}{more}" for column in ("data_source", "extra_info", "reward_model", "uid") for more in ("", "s")
}
# So many classes of one name are tried.
_MOST = 4
_DEFAULT_SCORERS = ("default_compute_score", "_default_compute_score")
_PLAIN = '''# vextract:hook  yours: written once, never touched by an upgrade
"""The reward manager {name}, which the run names: {place} registers it."""

from {module} import {cls}
{registered}
__all__ = ["{cls}"]
'''
_REGISTER = """\
try:
    from ..vendored.{projects} import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.{verls} import register
"""
# Where managers of batches are registered, and those of single responses: in a project, and in verl.
_OF_BATCHES = ("workers.reward_manager.registry", "workers.reward_manager.registry")
_OF_RESPONSES = ("workers.reward_loop.registry", "experimental.reward_loop.reward_manager.registry")
_ADAPTED = '''# vextract:hook  yours: written once, never touched by an upgrade
"""The reward manager {name}, which the run names: a class of {place}."""

import copy
import inspect
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

{imports}

{register}

def with_unknown(config: Any) -> Any:
    """Return the config with the run's settings that no release of verl has."""
    file, found = Path(__file__).parents[2] / "config" / "unknown.yaml", copy.deepcopy(config)
    for key, value in (yaml.safe_load(file.read_text(encoding="utf-8")) or {{}} if file.is_file() else {{}}).items():
        OmegaConf.update(found, key, value, force_add=True)
    return found


@register("{name}")
class RunRewardManager({cls}):
    """The run's manager, called as a project calls one: with the arguments that it takes."""

    def __init__(self, *, config: Any = None, **given: Any) -> None:
        function = given.get("compute_score")
        if getattr(function, "__name__", "") == "default_compute_score":  # nobody has named one
            function = {default}
        given["compute_score"] = function or {scorer}
        self._of_the_run = given["config"] = None if config is None else with_unknown(config)
        taken = inspect.signature({cls}).parameters
{handed}        every = any(item.kind is item.VAR_KEYWORD for item in taken.values())
        of_all = given.keys() - {{"config"}} if every else ()  # verl's own takes no config
        super().__init__(**{{key: value for key, value in given.items() if key in taken or key in of_all}})

    def __call__(self, data: Any, return_dict: bool = False) -> Any:
        taken = inspect.signature(super().__call__).parameters
        step = data.meta_info.get("global_steps", 0) if hasattr(data, "meta_info") else 0
        known = dict.fromkeys(("step", "global_step", "global_steps"), step)
        known |= {{"return_dict": True, "config": self._of_the_run}}
        for name, column in getattr(data, "non_tensor_batch", {{}}).items():  # data_sources, say
            known.setdefault(name, column)
            known.setdefault(f"{{name}}s", column)
        others = [item for item in taken.values() if item.kind is item.POSITIONAL_OR_KEYWORD]
        others = [item.name for item in others if item.name not in known]
        first = "data" if "data" in taken else next(iter(others), None)  # what it calls the batch
        unnamed = [data] if first is None else []
        named = {{key: value for key, value in {{**known, first: data}}.items() if key in taken}}
        found = super().__call__(*unnamed, **named)
        if isinstance(found, tuple):  # what is for each token, among other things
            found = next((item for item in found if isinstance(item, dict) or getattr(item, "ndim", 0) == 2), found[0])
        found = dict(found) if isinstance(found, dict) else {{"reward_tensor": found}}
        for name in ("gt_scores", "all"):  # of PRIME's own managers: without, and with what a model says
            if name in found:
                found.setdefault("reward_tensor", found.pop(name))
        found.setdefault("reward_extra_info", {{}})
        return found if return_dict else found["reward_tensor"]
'''


# The lines of a hook that hand over what the run's program does.
_HANDED = """\
        config, tokenizer = given["config"], given.get("tokenizer")
        of_the_program = {{  # as the run's program makes it
{lines}        }}
        for name, value in of_the_program.items():
            if name in taken and name not in given:
                try:
                    given[name] = value()
                except (AttributeError, KeyError) as error:
                    if taken[name].default is inspect.Parameter.empty:
                        raise
                    print(f"note: {{name}} is {{taken[name].default!r}}: the run says no other ({{error}})")
"""
_BY_VERL = frozenset({"tokenizer", "num_examine", "compute_score", "reward_fn_key", "config"})
_PLAIN_NODES = (
    ast.Expression,
    ast.Attribute,
    ast.Name,
    ast.Constant,
    ast.Call,
    ast.Subscript,
    ast.BinOp,
    ast.operator,
    ast.expr_context,
)


@dataclass(frozen=True)
class _Manager:
    """A class, the file that it is known by, and how that is imported from which folder; scorer: module and name."""

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


def take(project: Recipient) -> Taken:
    """Copy the reward manager that a run names, with what it imports; `custom/reward_manager.py` imports it."""
    settings, package = project.settings, project.package
    key = next((key for key in KEYS if settings.get(key)), None)
    if key is None or not project.has(IMPORTED_BY):
        return Taken(project.tree)
    name, known = str(settings[key]), names(project.code)
    if name in {*AS_NAIVE, *known}:
        return Taken(project.tree)
    refused: list[Remark] = []
    for found in islice(_known(name, project.places, project.source), _MOST):
        copying = project.copying(() if found.folder is None else (found.folder,))
        try:
            copied = copying.copy(f"from {found.module} import {found.cls}\n", [found.cls])
        except (SyntaxError, UsageError, OSError):
            continue
        if copied.missing:
            why = f"{found.place} has it, and cannot be imported here: {'; '.join(copied.missing)}"
            refused.append(Remark(key, name, "to do", why))
            continue
        text = _hook(name, found, copied.text.strip(), copying, project)
        files = {path: registered.not_again(content, known) for path, content in copying.files.items()}
        tree = project.with_hooks({f"{TARGET}.py": text, **files}, {TARGET: IMPORTED_BY})
        remarks = copied_remarks(key, name, found.place, f"{package}/{TARGET}.py", copied)
        return Taken(tree, [*remarks, *asking(key, name, found.cls, copying.files.values())])
    return Taken(project.tree, refused[:1])


def asking(key: str, name: str, cls: str, texts: Iterable[str]) -> list[Remark]:
    """Say what a copied class must be called with that only its own trainer hands over.

    Args:
        key, name: The setting that names it.
        cls: What it is called.
        texts: Where it may be defined.
    """
    nodes = [node for text in texts if f"class {cls}" in text for node in registered.tree_of(text).body]
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name == cls]
    call = next(filter(None, (_method(node, "__call__") for node in classes)), None)
    more = [given for given in registered.required_by(call) if given not in _CALLED_WITH] if call else []
    more = more if call is None or "data" in registered.required_by(call) else more[1:]
    why = f"{cls} is called with {', '.join(more)}, which only its own trainer hands over"
    return [Remark(key, name, "to do", why)] if more else []


def not_taken(project: Recipient) -> list[str]:
    """Return the settings that are arguments which the class of a run's manager does not take: verl passes them by."""
    name = next((project.settings[key] for key in KEYS if project.settings.get(key)), "naive")
    decorated = re.compile(rf"@register\(\s*[\"']{re.escape(str(name))}[\"']")
    text = next((text for text in project.code.values() if decorated.search(text)), "")
    taken = _arguments(text, decorated)
    given = [(key, found[1]) for key in project.settings if (found := _GIVEN.match(key))]
    # What it does not take it may still read, in the config.
    return [] if taken is None else [key for key, name in given if name not in taken and f'"{name}"' not in text]


def handed_over(project: Recipient, unknown: Iterable[str]) -> dict[str, str]:
    """Return the settings of no release that a run's copied manager is made with, and the keys that hand them over."""
    name = next((project.settings[key] for key in KEYS if project.settings.get(key)), "naive")
    below = f"{project.package}/custom/"
    texts = [text for path, text in project.code.items() if path.startswith(below) and "class " in text]
    decorated = re.compile(rf"@register\(\s*[\"']{re.escape(str(name))}[\"']")
    registers = next((text for text in texts if decorated.search(text)), "")
    found = _ARGUMENTS.search(project.code.get(f"{project.package}/settings/reward_keys.py", ""))
    if not registers or found is None:
        return {}
    nodes = [node for text in texts for node in registered.tree_of(text).body if isinstance(node, ast.ClassDef)]
    classes = {node.name: node for node in nodes}
    taken = set().union(*(_made_with(cls, classes) for cls in registered.registered_by(registers, decorated)))
    read = {key: match[1] for key in unknown if (match := _READ.fullmatch(key))}
    return {key: f"{found[1]}.{argument}" for key, argument in read.items() if argument in taken}


def _made_with(name: str, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    """Return the arguments that a class is made with, or the first of those it extends that names them."""
    for _ in range(5):
        node = classes.get(name)
        if node is None:
            break
        if (found := _arguments_of(node)) is not None:
            return found
        name = next((base.id for base in node.bases if isinstance(base, ast.Name)), "")
    return set()


def _arguments(text: str, decorated: re.Pattern[str]) -> set[str] | None:
    """Return what the class under a decorator is made with; None: anything, or it does not say."""
    names = registered.registered_by(text, decorated)
    nodes = ast.walk(registered.tree_of(text))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef) and node.name in names]
    return next((found for node in classes if (found := _arguments_of(node)) is not None), None)


def _arguments_of(node: ast.ClassDef) -> set[str] | None:
    """Return what a class is made with by its own definition; None: anything, or it does not say."""
    made = _method(node, "__init__")
    if made is None or made.args.kwarg is not None:
        return None
    return {argument.arg for argument in (*made.args.args, *made.args.kwonlyargs)}


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """Return the method that a class itself defines under a name."""
    return next((item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == name), None)


def adapted(
    name: str,
    place: str,
    cls: str,
    imports: str,
    scorer: str,
    handed: Mapping[str, str] = MappingProxyType({}),
    *,
    has_its_own: bool = False,
) -> str:
    """Return the text of the hook that registers a class of before there was a registry.

    Args:
        name: What it is registered as.
        place: The file that it is of.
        cls: The class.
        imports: Statements that import it, and the scorer.
        scorer: The function that scores where the config names none; "None": what the class or the project has.
        has_its_own: Whether the class itself has one, where it is given none.
        handed: What the run's program makes it with besides: expressions of `config` and `tokenizer`, by argument.
    """
    lines = [f'            "{argument}": lambda: {value},\n' for argument, value in handed.items()]
    table = _HANDED.format(lines="".join(lines)) if lines else ""
    default = scorer if scorer != "None" or has_its_own else "function"
    made = {"name": name, "place": place, "cls": cls, "imports": imports, "scorer": scorer, "default": default}
    return _ADAPTED.format(**made, handed=table, register=_of(_OF_BATCHES))


def handed_by_programs(texts: Iterable[str], cls: str) -> tuple[dict[str, str], list[str]]:
    """Return what programs make a reward manager with besides what verl does.

    Args:
        texts: Of the programs.
        cls: The class; one that is chosen under another name counts too.

    Returns:
        Expressions of the run's `config` and `tokenizer`, by argument, and the arguments that are of something else.
    """
    found: dict[str, str] = {}
    others: set[str] = set()
    for text in texts:
        tree = registered.tree_of(text)
        values = {
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        chosen = {cls, *(name for name, value in values.items() if isinstance(value, ast.Name) and value.id == cls)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {*chosen, "reward_manager_cls"}:
                for item in node.keywords:
                    if item.arg is not None and item.arg not in {*_BY_VERL, *found}:
                        value = _said(values.get(item.value.id) if isinstance(item.value, ast.Name) else item.value)
                        found.update({} if value is None else {item.arg: value})
                        others |= {item.arg} if value is None else set()
    return found, sorted(others - found.keys())


def _said(value: ast.expr | None) -> str | None:
    """Return an expression of nothing but the run's config and tokenizer; None: it is of something else."""
    if value is None:
        return None
    text = re.sub(r"\bself\.(config|tokenizer)\b", r"\1", ast.unparse(value))
    nodes = list(ast.walk(ast.parse(text, mode="eval")))
    plain = all(isinstance(node, _PLAIN_NODES) for node in nodes)
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    calls = [node.func for node in nodes if isinstance(node, ast.Call)]
    asked = all(isinstance(func, ast.Attribute) and func.attr == "get" for func in calls)
    return text if plain and asked and names <= {"config", "tokenizer"} else None


def _register(cls: str, copying: Copying, project: Recipient) -> str:
    """Return the lines that import what a copied class is registered by."""
    text = next((text for text in copying.files.values() if f"class {cls}" in text), "")
    scores_each = "def run_single(" in text and project.has(f"vendored/{_OF_RESPONSES[0].replace('.', '/')}")
    return _of(_OF_RESPONSES if scores_each else _OF_BATCHES)


def _of(registry: tuple[str, str]) -> str:
    projects, verls = registry
    return _REGISTER.format(projects=projects, verls=verls)


def _hook(name: str, found: _Manager, imports: str, copying: Copying, project: Recipient) -> str:
    """Return the text of the hook that registers a manager."""
    if found.is_registered:
        module = imports.split()[1]
        has_its_own = any("/registry.py" in path and "def register" in text for path, text in copying.files.items())
        more = f'\n{_register(found.cls, copying, project)}\nregister("{name}")({found.cls})\n' if has_its_own else ""
        return _PLAIN.format(name=name, place=found.place, module=module, cls=found.cls, registered=more)
    scorer = "None"
    for module, function in [*([found.scorer] if found.scorer else []), *((SCORERS, one) for one in _DEFAULT_SCORERS)]:
        try:
            copied = copying.copy(f"from {module} import {function}\n", [function])
        except (SyntaxError, UsageError, OSError):
            copying.undo()
            continue
        if not copied.missing:
            imports, scorer = f"{imports}\n{copied.text.strip()}", function
            break
        copying.undo()
    imports = "\n".join(sorted(imports.splitlines()))
    return adapted(name, found.place, found.cls, imports, scorer)


def _known(name: str, places: Places, source: Source) -> Iterator[_Manager]:
    """Find the classes that are registered under a name, then those that a program chooses where it is given."""
    decorated = re.compile(rf"@register\(\s*[\"']{re.escape(name)}[\"']")
    compared = re.compile(rf"==\s*[\"']{re.escape(name)}[\"']")
    texts = [*_of_checkout(places), *_of_release(source)]
    for place, text, folder in texts:
        if decorated.search(text):
            classes = registered.registered_by(text, decorated)
            if classes:
                module, base = _module(place, folder)
                yield _Manager(classes[0], module, place, base, is_registered=True)
    for place, text, folder in texts:
        if "main" in Path(place).name and compared.search(text):
            chosen = _chosen(registered.tree_of(text), name)
            if chosen is not None:
                module, base = _module(place, folder)
                origin = _origin(registered.tree_of(text), chosen, module, base)
                if origin is not None:
                    yield _Manager(chosen, origin, place, base, is_registered=False, scorer=_scorer(text, module))


_Text = tuple[str, str, Path | None]


def _of_checkout(places: Places) -> Iterator[_Text]:
    for place, text in registered.python_files(places):
        yield place, text, places.root


def _of_release(source: Source) -> Iterator[_Text]:
    for path in sorted(source.files):
        if path.endswith(".py") and "reward" in path:
            yield path, source.read(path), None


def _module(place: str, root: Path | None) -> tuple[str, Path | None]:
    """Return the name of the module that a file is, and the folder that it is imported from; None: of the release."""
    parts = Path(place).with_suffix("").parts
    if root is None:
        return ".".join(parts), None
    folder = (root / place).parent
    while (folder / "__init__.py").is_file() and folder != root:
        folder = folder.parent
    return ".".join(Path(place).with_suffix("").parts[len(folder.relative_to(root).parts) :]), folder


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


def _origin(tree: ast.Module, name: str, module: str, folder: Path | None) -> str | None:
    """Return the module that defines what is imported under a name, followed through packages that hand it on."""
    for _ in range(5):
        if any(isinstance(node, ast.ClassDef) and node.name == name for node in tree.body):
            return module
        found = next(
            (
                absolute(node, module, is_package=False)
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and any((item.asname or item.name) == name for item in node.names)
            ),
            None,
        )
        if found is None or folder is None:
            return found
        path = folder / found.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if not file.is_file():
            return found
        module = f"{found}.__init__" if path.is_dir() else found
        tree = registered.tree_of(file)
    return None


def _scorer(text: str, module: str) -> tuple[str, str] | None:
    """Return what a program hands to `run_ppo` as the function that scores: its module and name."""
    tree = registered.tree_of(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "run_ppo":
            given = [*node.args[1:2], *(item.value for item in node.keywords if item.arg == "compute_score")]
            for item in given:
                for place in ast.walk(tree):
                    if isinstance(place, ast.ImportFrom) and isinstance(item, ast.Name):
                        for alias in place.names:
                            if (alias.asname or alias.name) == item.id:
                                return absolute(place, module, is_package=False), alias.name
    return None
