"""The hook that registers a run's reward manager in a project: its text, and what its run's program makes it with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from extractor.usecases.fromrun import templates
from extractor.usecases.fromrun.files import SCORERS, Copying
from extractor.usecases.fromrun.taken_over import registered
from extractor.usecases.fromrun.taken_over.manager_classes import Manager
from extractor.usecases.fromrun.taken_over.recipient import Recipient
from extractor.values.errors import UsageError

# How a class falls back to a function of its own.
HAS_ITS_OWN = re.compile(r"self\.compute_score = compute_score or ")
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
    return templates.render("run_manager.py", **made, handed=table, register=_of(_OF_BATCHES))


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


def hook_of(name: str, found: Manager, imports: str, copying: Copying, project: Recipient) -> str:
    """Return the text of the hook that registers a manager."""
    if found.is_registered:
        module = imports.split()[1]
        has_its_own = any("/registry.py" in path and "def register" in text for path, text in copying.files.items())
        more = f'\n{_register(found.cls, copying, project)}\nregister("{name}")({found.cls})\n' if has_its_own else ""
        return templates.render(
            "registered_manager.py", name=name, place=found.place, module=module, cls=found.cls, registered=more
        )
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
