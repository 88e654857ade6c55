"""Functions that a training script hands over as it makes them: by `partial`, a factory, a closure, an object.

What they are made of is written at the end of the script's text, where it can be copied like what stands at its top.
"""

from __future__ import annotations

import ast
import builtins
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from extractor.importers.runs.definitions import free
from extractor.importers.runs.python.run import Run
from extractor.importers.runs.python.syntax import FUNCTIONS, called
from extractor.importers.runs.python.values import Computed
from extractor.values import readers

_PARSES = re.compile(r"parse_\w*args\w*|parse_known_args")
# What a function is not to do when its module is imported.
_RUNS = re.compile(r"from_pretrained|load_dataset|load_from_disk|get_peft_model|prepare\w*|train|login|init")
# Imports what no copy can have with it: its name is put together.
_IMPORTS = ("import_module", "__import__")
# The command line, word by word.
_ARGV = "sys.argv"
_CHANGES = ("append", "extend", "insert", "remove", "pop", "clear")
_DEEPEST = 20
_CLASSIFIES = "AutoModelForSequenceClassification.from_pretrained"

_Scope = tuple[ast.AST, ...]


@dataclass(frozen=True)
class Handed:
    """What a script hands over to score.

    Attributes:
        functions: Their names at the top of the text, in order.
        model: A model that scores, by its path, in their place.
        text: The script's, and what the functions are made of.
        is_open: Whether the one name may stand for a list of them, as a call or a dict gives it.
    """

    functions: tuple[str, ...] = ()
    model: str | None = None
    text: str = ""
    is_open: bool = False


class _Unknown(Exception):
    """Something is known only to the script as it runs."""


def handed(node: ast.expr, tree: ast.Module, text: str, run: Run) -> Handed:
    """Return what scores, as far as it can be written down; neither functions nor a model where it cannot.

    Args:
        node: What the trainer is given.
        tree: The script.
        text: Of the script.
        run: The script as it was followed.
    """
    writer = _Writer(tree, text, run)
    try:
        elements = [*writer.elements(node, writer.scope_of(node))]
        if any(isinstance(item, ast.Constant) and item.value is None for item, _ in elements):
            return Handed()
        models = [model for item, scope in elements if (model := writer.model(item, scope)) is not None]
        if models:
            return Handed(model=models[0]) if len(elements) == 1 else Handed()
        names = [writer.name(item, scope) for item, scope in elements]
    except (_Unknown, SyntaxError, RecursionError):
        return Handed()
    if not names or len(set(names)) < len(names):
        return Handed()
    is_open = len(elements) == 1 and writer.may_be_list(*elements[0])
    return Handed(tuple(names), None, writer.whole(), is_open)


def settled(names: Iterable[str], tree: ast.Module, text: str, run: Run) -> str | None:
    """Return a module's text with what some of its functions use as the command line makes it; None: nobody knows it.

    Args:
        names: Of functions and classes at its top.
        tree: The module.
        text: Of the module.
        run: The script as it was followed.
    """
    writer = _Writer(tree, text, run)
    try:
        for name in sorted(names):
            writer.name(ast.Name(name, ast.Load()), (tree,))
    except (_Unknown, SyntaxError, RecursionError):
        return None
    return writer.whole().rstrip("\n") + "\n"


class _Writer:
    def __init__(self, tree: ast.Module, text: str, run: Run) -> None:
        self._tree, self._text, self._run = tree, text, run
        self._top = dict(_bound(tree))
        self._scopes = dict(_scopes(tree, (tree,)))
        self._checked: set[str] = set()
        self._by_command: dict[str, Any] = {}  # of what stands at the top, what the command line makes it
        self._lines: dict[str, str] = {}  # by the name that each binds
        self._depth = 0

    def scope_of(self, node: ast.AST) -> _Scope:
        return self._scopes[node]

    def whole(self) -> str:
        """Return the script's text, its command line's options as they are known, and what was written."""
        lines = self._text.split("\n")
        bound = (node for nodes in self._top.values() for node in nodes)
        parsed = [node for node in bound if isinstance(node, ast.Assign) and _is_parsed(node)]
        for node in sorted(dict.fromkeys(parsed), key=lambda item: -item.lineno):
            lines[node.lineno - 1 : node.end_lineno] = [*filter(None, map(self._namespace, _targets(node)))]
        if self._by_command:
            tree = readers.python("\n".join(lines))
            for made in reversed(tree.body):
                names = _targets(made) if isinstance(made, ast.Assign) else []
                if len(names) == 1 and names[0] in self._by_command:
                    lines[made.lineno - 1 : made.end_lineno] = [f"{names[0]} = {self._by_command[names[0]]!r}"]
        return "\n".join([*lines, *(line for line in self._lines.values())]) + "\n"

    def _value_of(self, node: ast.expr) -> Any:
        """Return what an expression of the script's is worth in the end; `Computed` where that is not known."""
        return self._run.value_in(node, self._tree, self._scopes[node])

    def elements(self, node: ast.expr, scope: _Scope) -> Iterator[tuple[ast.expr, _Scope]]:
        """Yield the functions of a list, or of a name for one."""
        value, where = self._followed(node, scope)
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
            yield from (*self.elements(value.left, where), *self.elements(value.right, where))
        elif isinstance(value, (ast.List, ast.Tuple)):
            if isinstance(node, ast.Name) and self._is_changed(node.id):
                raise _Unknown
            for item in value.elts:
                if isinstance(item, ast.Starred):
                    yield from self.elements(item.value, where)
                else:
                    yield item, where
        else:
            yield node, scope

    def model(self, node: ast.expr, scope: _Scope) -> str | None:
        """Return the path of a model that is handed over, or loaded for that; None where it is something else."""
        value, _ = self._followed(node, scope)
        while (
            isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("to", "eval")
        ):
            value = value.func.value
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith(_CLASSIFIES):
            value = value.args[0] if value.args else value
        known = self._value_of(value)
        return known if isinstance(known, str) and not isinstance(known, Computed) else None

    def may_be_list(self, node: ast.expr, scope: _Scope) -> bool:
        """Tell whether a list may be what an expression gives."""
        value, where = self._followed(node, scope)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id != "partial":
            maker, _ = self._looked_up(value.func.id, where)
            return not isinstance(maker, ast.ClassDef)
        is_partial = isinstance(value, ast.Call) and called(value) == "partial"
        return isinstance(value, (ast.Call, ast.Subscript, ast.ListComp)) and not is_partial

    def name(self, node: ast.expr, scope: _Scope) -> str:
        """Return what a function is called at the top, and write down what it is made of."""
        if isinstance(node, ast.Name):
            self._need(node.id, scope)
            return node.id
        made = self._written(node, scope)
        first = node.args[0] if isinstance(node, ast.Call) and node.args and called(node) == "partial" else node
        stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", ast.unparse(getattr(first, "func", first)).rpartition(".")[2])
        name = stem.lower() if stem.isidentifier() else "reward"
        while name in self._top or name in self._lines:
            name += "_"
        self._lines[name] = f"{name} = {made}"
        return name

    def _followed(self, node: ast.expr, scope: _Scope) -> tuple[ast.expr, _Scope]:
        """Return what a name stands for, where that is an expression."""
        for _ in range(_DEEPEST):
            if not isinstance(node, ast.Name):
                break
            found, where = self._looked_up(node.id, scope)
            value = _value(found, node.id)
            if value is None:
                break
            node, scope = value, where
        return node, scope

    def _looked_up(self, name: str, scope: _Scope) -> tuple[ast.AST | None, _Scope]:
        """Return the statement that binds a name as a scope sees it; None for one of Python's, or an argument."""
        for depth in range(len(scope), 0, -1):
            place = scope[depth - 1]
            if isinstance(place, (*FUNCTIONS, ast.Lambda)) and name in _arguments(place):
                return place, scope[:depth]
            nodes = self._top.get(name, []) if place is self._tree else dict(_bound(place)).get(name, [])
            if len(nodes) > 1 and place is not self._tree:
                raise _Unknown
            if nodes:
                return nodes[-1], scope[:depth]
        if hasattr(builtins, name):
            return None, scope
        raise _Unknown

    def _need(self, name: str, scope: _Scope) -> None:
        """Write down what binds a name, unless it stands at the top already."""
        found, where = self._looked_up(name, scope)
        if found is None or name in self._lines:
            return
        if where == (self._tree,):
            self._check_top(name, found)
            return
        if name in self._top or self._depth > _DEEPEST:  # another one there is called so
            raise _Unknown
        self._depth += 1
        self._lines[name] = self._statement(name, found, where)
        self._lines[name] = self._lines.pop(name)  # after what it needs
        self._depth -= 1

    def _statement(self, name: str, found: ast.AST, scope: _Scope) -> str:
        self._lines[name] = ""
        if found in scope or _is_parsed(found):  # an argument, or what a command line says
            if not (options := self._namespace(name)):
                raise _Unknown
            return options
        if isinstance(found, (*FUNCTIONS, ast.ClassDef)):
            first = min([found.lineno, *(item.lineno for item in found.decorator_list)])
            text = textwrap.dedent("\n".join(self._text.split("\n")[first - 1 : found.end_lineno]))
            for used in sorted(free(text)):
                self._need(used, scope)
            return f"\n\n{text}\n"
        if isinstance(found, (ast.Import, ast.ImportFrom)):
            return ast.unparse(found)
        if (value := _value(found, name)) is not None:
            if isinstance(config := self._value_of(value), dict):  # what a config file has, which lies elsewhere
                return f"{name} = {config!r}"
            return f"{name} = {self._written(value, scope)}"
        raise _Unknown

    def _written(self, node: ast.expr, scope: _Scope) -> str:
        """Return an expression as it can stand at the top, with what is known in it as values."""
        if any(isinstance(part, ast.Call) and _RUNS.fullmatch(called(part)) for part in ast.walk(node)):
            raise _Unknown
        self._check_options(node, scope)
        for used in sorted(free(ast.unparse(node))):
            self._need(used, scope)
        return ast.unparse(node)

    def _check_top(self, name: str, found: ast.AST) -> None:
        """Refuse what stands at the top where its value is known only to the script as it runs."""
        calls = (part for part in ast.walk(found) if isinstance(part, ast.Call))
        if isinstance(found, FUNCTIONS) and any(called(call) in _IMPORTS for call in calls):
            raise _Unknown
        if isinstance(found, (*FUNCTIONS, ast.ClassDef)) and name not in self._checked:
            self._checked.add(name)
            for used in sorted(free(ast.unparse(found))):
                self._settle(used)
        if _is_parsed(found):
            if not self._namespace(name):
                raise _Unknown
        elif (value := _value(found, name)) is not None and name not in self._checked:
            self._checked.add(name)
            self._check_options(value, (self._tree,))
            for used in sorted(free(ast.unparse(value))):
                self._need(used, (self._tree,))

    def _settle(self, name: str) -> None:
        """Work out what stands at the top and comes from the command line, which a copy has not."""
        nodes = self._top.get(name, [])
        value = _value(nodes[-1], name) if nodes else None
        if value is None or name in self._checked or _is_parsed(nodes[-1]):
            return
        self._checked.add(name)
        used = free(ast.unparse(value))
        for other in sorted(used):
            self._settle(other)
        words = any(_is_argv(node) for other in used for node in self._top.get(other, []))
        parses = words or any(_PARSES.fullmatch(called(call)) for call in ast.walk(value) if isinstance(call, ast.Call))
        if parses or _ARGV in ast.unparse(value) or used & self._by_command.keys():
            known = self._value_of(value)
            if isinstance(known, Computed):
                raise _Unknown
            self._by_command[name] = known

    def _check_options(self, node: ast.expr, scope: _Scope) -> None:
        """Refuse an option of the command line that nobody has said, where it is read as the module is imported."""
        if _ARGV in ast.unparse(node):
            raise _Unknown
        for part in ast.walk(node):
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id not in _own(node):
                found, _ = self._looked_up(part.value.id, scope)
                is_option = found is not None and (found in scope or _is_parsed(found))
                if is_option and isinstance(self._value_of(part), Computed):
                    raise _Unknown

    def _namespace(self, name: str) -> str:
        """Return what stands for the options of a command line, as far as they are known; "" where none is."""
        nodes = [node for node in ast.walk(self._tree) if isinstance(node, ast.Attribute)]
        read = {node.attr: node for node in nodes if isinstance(node.value, ast.Name) and node.value.id == name}
        values = {attribute: self._value_of(node) for attribute, node in sorted(read.items())}
        known = {key: value for key, value in values.items() if not isinstance(value, Computed)}
        if not known:
            return ""
        if any(isinstance(value, dict) for value in known.values()):  # sections of a config
            return f"from omegaconf import OmegaConf\n\n{name} = OmegaConf.create({known!r})"
        given = ", ".join(f"{key}={value!r}" for key, value in known.items())
        return f"from types import SimpleNamespace\n\n{name} = SimpleNamespace({given})"

    def _is_changed(self, name: str) -> bool:
        """Tell whether something is added to a list after it was made."""
        calls = (node.func for node in ast.walk(self._tree) if isinstance(node, ast.Call))
        return any(
            isinstance(func, ast.Attribute) and func.attr in _CHANGES and ast.unparse(func.value) == name
            for func in calls
        )


def _is_argv(node: ast.AST) -> bool:
    """Tell whether a statement imports the words of the command line."""
    return isinstance(node, ast.ImportFrom) and node.module == "sys" and any(item.name == "argv" for item in node.names)


def _targets(node: ast.Assign) -> list[str]:
    """Return the names that an assignment gives."""
    parts = [part for target in node.targets for part in getattr(target, "elts", [target])]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _value(node: ast.AST | None, name: str) -> ast.expr | None:
    """Return what a statement gives to a name alone; None where it is another statement."""
    if isinstance(node, ast.Assign) and _targets(node) == [name] and not isinstance(node.targets[0], ast.Tuple):
        return node.value
    return node.value if isinstance(node, ast.AnnAssign) else None


def _is_parsed(node: ast.AST) -> bool:
    """Tell whether a statement gives names to what a command line says."""
    value = node.value if isinstance(node, ast.Assign) else None
    while isinstance(value, ast.Subscript):
        value = value.value
    return isinstance(value, ast.Call) and _PARSES.fullmatch(called(value)) is not None


def _is_launch(node: ast.AST) -> bool:
    """Tell whether a statement is what a module does as a program: its names are as good as a function's."""
    return isinstance(node, ast.If) and "__name__" in {
        item.id for item in ast.walk(node.test) if isinstance(item, ast.Name)
    }


def _scopes(node: ast.AST, scope: _Scope) -> Iterator[tuple[ast.AST, _Scope]]:
    """Yield each node with the functions that it is in, from the outermost."""
    for child in ast.iter_child_nodes(node):
        yield child, scope
        inner = (*scope, child) if isinstance(child, (*FUNCTIONS, ast.Lambda)) or _is_launch(child) else scope
        yield from _scopes(child, inner)


def _bound(place: ast.AST) -> Iterator[tuple[str, list[ast.AST]]]:
    """Yield the names that a module or a function binds itself, with the nodes that do."""
    found: dict[str, list[ast.AST]] = {}
    waiting = [*ast.iter_child_nodes(place)]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            found.setdefault(node.name, []).append(node)
            continue
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)) or _is_launch(
            node
        ):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                found.setdefault((alias.asname or alias.name).partition(".")[0], []).append(node)
        elif isinstance(node, ast.Assign):
            for name in _targets(node):
                found.setdefault(name, []).append(node)
            waiting.append(node.value)
            continue
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.setdefault(node.target.id, []).append(node)
            continue
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, []).append(node)
        waiting.extend(ast.iter_child_nodes(node))
    yield from found.items()


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    given = node.args
    more = [item for item in (given.vararg, given.kwarg) if item is not None]
    return {item.arg for item in (*given.posonlyargs, *given.args, *given.kwonlyargs, *more)}


def _own(node: ast.expr) -> set[str]:
    """Return the names that an expression binds for itself: of comprehensions, and arguments of lambdas."""
    stored = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return stored.union(*(_arguments(part) for part in ast.walk(node) if isinstance(part, ast.Lambda)))
