"""The hook that registers a run's reward manager in a project: its text, and what its run's program makes it with."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from extractor.importers.runs import templates
from extractor.importers.runs.files import SCORERS, Copying
from extractor.importers.runs.files.copying import FOLDER
from extractor.importers.runs.files.own_call import OWN_SETTINGS
from extractor.importers.runs.taken_over import program_values, registered
from extractor.importers.runs.taken_over.manager_classes import Manager
from extractor.importers.runs.taken_over.recipient import Recipient
from extractor.values.errors import UsageError

# How a class falls back to a function of its own.
HAS_ITS_OWN = re.compile(r"self\.compute_score = compute_score or (\w+)")
# Where verl and its forks make managers.
PROGRAMS = ("verl/trainer/main_ppo.py", "verl/trainer/ppo/reward.py")
_DEFAULT_SCORERS = ("default_compute_score", "_default_compute_score")
_REGISTER = """\
try:
    from ..vendored.{projects} import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.{verls} import register
"""
# Where managers of batches are registered, and those of single responses: in a project, and in verl.
_OF_BATCHES = ("workers.reward_manager.registry", "workers.reward_manager.registry")
_OF_RESPONSES = ("workers.reward_loop.registry", "experimental.reward_loop.reward_manager.registry")
# The lines of a hook that hand over what the run's program does.
_HANDED = """\
        config, tokenizer = self._of_the_run, given.get("tokenizer")
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
_SECTION = re.compile(r"(?:self\.)?config\.(\w+(?:\.\w+)*)")
_BY_VERL = frozenset({"tokenizer", "num_examine", "compute_score", "reward_fn_key", "config"})


def adapted(
    name: str,
    place: str,
    cls: str,
    imports: str,
    scorer: str,
    handed: Mapping[str, str] = MappingProxyType({}),
    *,
    section: str = "",
    has_its_own: bool = False,
    has_overlong: bool = True,
) -> str:
    """Return the text of the hook that registers a class of before there was a registry.

    Args:
        name: What it is registered as.
        place: The file that it is of.
        cls: The class.
        imports: Statements that import it, and the scorer.
        scorer: The function that scores where the config names none; "None": what the class or the project has.
        handed: What the run's program makes it with besides: expressions of `config` and `tokenizer`, by argument.
        section: Of the config, that the program makes it with in place of the whole.
        has_its_own: Whether the class itself has one, where it is given none.
        has_overlong: Whether that program may hand over a penalty on long responses.
    """
    lines = [f'            "{argument}": lambda: {value},\n' for argument, value in handed.items()]
    table = _HANDED.format(lines="".join(lines)) if lines else ""
    default = scorer if scorer != "None" or has_its_own else "function"
    made = {"name": name, "place": place, "cls": cls, "imports": imports, "scorer": scorer, "default": default}
    modules = ["inspect", *(["os"] if "os." in table else [])]
    made["section"] = section
    made |= {"handed": table, "register": _of(_OF_BATCHES)}
    return templates.render("run_manager.py", **made, modules=modules, has_overlong=has_overlong)


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
    for tree in map(registered.tree_of, texts):
        values = program_values.Values(tree)
        for name, given, where in _handed(tree, _chosen(tree, cls)):
            if name not in {*_BY_VERL, *found}:
                value = program_values.said(given, values.where(where))
                found.update({} if value is None else {name: value})
                others |= {name} if value is None else set()
    return found, sorted(others - found.keys())


def _chosen(tree: ast.Module, cls: str) -> set[str]:
    """Return a class and the names that a program gives it."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and ast.unparse(node.value) == cls]
    return {cls, *(ast.unparse(target) for node in assigned for target in node.targets)}


def section_handed(texts: Iterable[str], cls: str) -> str:
    """Return the section of the config that programs make a class with as its config; "": the whole, or they do not."""
    for tree in map(registered.tree_of, texts):
        for name, given, _ in _handed(tree, _chosen(tree, cls)):
            if name == "config" and (found := _SECTION.fullmatch(ast.unparse(given))):
                return found[1]
    return ""


def hand_overlong(texts: Iterable[str], cls: str) -> bool:
    """Tell whether programs may make a class with a penalty on long responses: not where they make it without one."""
    calls = [node for text in texts for node in ast.walk(registered.tree_of(text)) if isinstance(node, ast.Call)]
    given = [{item.arg for item in call.keywords} for call in calls if ast.unparse(call.func) == cls]
    return not given or any(names & {None, "overlong_buffer_cfg"} for names in given)


def _handed(tree: ast.Module, classes: Collection[str]) -> Iterator[tuple[str, ast.expr, ast.AST]]:
    """Yield the arguments that a program makes classes with, by name or in a dictionary: `reward_kwargs["n"] = ...`.

    With each comes the call or the statement that it stands in.
    """
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [node for node in calls if ast.unparse(node.func) in {*classes, "reward_manager_cls"}]
    for call in calls:
        yield from ((item.arg, item.value, call) for item in call.keywords if item.arg is not None)
    tables = {ast.unparse(item.value) for call in calls for item in call.keywords if item.arg is None}
    for node in (item for item in ast.walk(tree) if isinstance(item, ast.Assign)):
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and ast.unparse(target.value) in tables:
            yield ast.unparse(target.slice).strip("'"), node.value, node


def _text_of(cls: str, copying: Copying) -> str:
    """Return the text of the copy that has a class."""
    return next((text for text in copying.files.values() if f"class {cls}" in text), "")


def _register(cls: str, copying: Copying, project: Recipient) -> str:
    """Return the lines that import what a copied class is registered by."""
    return _of(_OF_RESPONSES if "def run_single(" in _text_of(cls, copying) and scores_each(project) else _OF_BATCHES)


def scores_each(project: Recipient) -> bool:
    """Tell whether a project has managers that score one response at a time."""
    return project.has(f"vendored/{_OF_RESPONSES[0].replace('.', '/')}")


def _of(registry: tuple[str, str]) -> str:
    projects, verls = registry
    return _REGISTER.format(projects=projects, verls=verls)


def support(hook: str) -> dict[str, str]:
    """Return the module that a hook imports to hand over the run's own settings, by its path below the package."""
    return (
        {f"custom/{FOLDER}/{OWN_SETTINGS}.py": templates.render(f"{OWN_SETTINGS}.py")} if OWN_SETTINGS in hook else {}
    )


def _takes_config(text: str, cls: str) -> bool:
    """Tell whether a text has the class, and that is made with the whole config."""
    nodes = registered.tree_of(text).body if f"class {cls}" in text else []
    bodies = [item for node in nodes if isinstance(node, ast.ClassDef) and node.name == cls for item in node.body]
    made = [item.args for item in bodies if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    return any(item.arg == "config" for args in made for item in (*args.args, *args.kwonlyargs))


def hook_of(name: str, found: Manager, imports: str, copying: Copying, project: Recipient) -> str:
    """Return the text of the hook that registers a manager."""
    if found.is_registered:
        imports, more = f"from {imports.split()[1]} import {found.cls}", ""
        if any(_takes_config(text, found.cls) for text in copying.files.values()):
            imports += f"\nfrom .{FOLDER}.{OWN_SETTINGS} import told_of_all"
            more = f"\ntold_of_all({found.cls})\n"
        if any("/registry.py" in path and "def register" in text for path, text in copying.files.items()):
            more = f'\n{_register(found.cls, copying, project)}{more}\nregister("{name}")({found.cls})\n'
        made = {"name": name, "place": found.place, "imports": imports, "cls": found.cls, "registered": more}
        return templates.render("registered_manager.py", **made)
    scorer = "None"
    its_own = HAS_ITS_OWN.search(_text_of(found.cls, copying)) if found.scorer is None else None
    has_its_own = its_own is not None and its_own[1] not in _DEFAULT_SCORERS  # which may take other arguments
    defaults = () if has_its_own else _DEFAULT_SCORERS
    for module, function in [*([found.scorer] if found.scorer else []), *((SCORERS, one) for one in defaults)]:
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
    texts = [project.text(path) for path in PROGRAMS]
    handed, _ = handed_by_programs(texts, found.cls)
    section = section_handed(texts, found.cls)
    return adapted(name, found.place, found.cls, imports, scorer, handed, section=section, has_its_own=has_its_own)
