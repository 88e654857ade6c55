# vextract:template
"""Which names of a test stand for what the program defines.

A test that compares with a function which the program may define as well would let the program decide: `isclose`, say,
or `sorted`. So what each name means is known from the tests alone, before anything is known of the program. Where tests
say what they test (`entry_point`, `from solution import f`, `solution.f`), nothing else is the program's. Else it is
the names that neither the tests, nor Python, nor a library that tests use define.
"""

import ast
import bisect
import builtins
import collections
import contextlib
import functools
import heapq
import importlib
import itertools
import json
import math
import operator
import random
import re
import statistics
import string
import symtable
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType

# The names that tests import a program under.
PROGRAM_MODULES = (
    *("solution", "candidate", "main", "your_module", "your_code"),
    *("submission", "program", "code_under_test", "user_code", "my_solution", "your_solution", "solutions"),
)
# Names of libraries that many a program gives to a function of its own.
ORDINARY = {"compress", "count", "cycle", "repeat", "merge"}
# What tests use without importing it, and where it is from.
NAMED = {
    "bisect": "",
    "collections": "",
    "contextlib": "redirect_stdout suppress",
    "copy": "deepcopy",
    "datetime": "date datetime timedelta",
    "decimal": "Decimal",
    "fractions": "Fraction",
    "io": "StringIO",
    "json": "dumps loads",
    "numpy": "allclose array array_equal array_equiv asarray ndarray",
    "numpy.testing": "assert_allclose assert_almost_equal assert_approx_equal assert_array_almost_equal"
    " assert_array_equal assert_array_less assert_equal assert_raises",
    "operator": "attrgetter itemgetter methodcaller",
    "pandas": "DataFrame Series",
    "pandas.testing": "assert_frame_equal assert_series_equal",
    "pytest": "approx fixture mark param raises",
    "random": "randint randrange uniform",
    "re": "findall finditer fullmatch",
    "textwrap": "dedent",
    "typing": "Any Callable Dict Iterable List Optional Set Tuple Union",
    "unittest": "TestCase",
    "unittest.mock": "MagicMock Mock patch",
}
WHOLE = (math, collections, itertools, functools, statistics, string, heapq, bisect)
SHORT = {"np": "numpy", "npt": "numpy.testing", "pd": "pandas"}
INSTALLED = ("numpy", "pandas", "pytest", "scipy", "sympy", "torch")


def _public(module: ModuleType) -> list[str]:
    return list(getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")])


def _table(*modules: ModuleType) -> dict[str, str]:
    return {name: module.__name__ for module in reversed(modules) for name in _public(module)}


LIBRARY = {name: place for name, place in _table(*WHOLE).items() if name not in ORDINARY}
LIBRARY |= {name: place for place, names in NAMED.items() for name in names.split()}
# What is a library's only where tests say what they test.
VERBS = {
    **_table(operator, random, re, json),
    **{name: place for name, place in _table(*WHOLE).items()},
    "copy": "copy",
}
BUILTINS = frozenset(vars(builtins))


@dataclass(frozen=True)
class Names:
    """Says what the names mean that tests use and do not define.

    Attributes:
        program: these stand for what the program defines.
        either: those of them that Python or a library has as well: theirs, where the program defines only others.
        library: name -> (module, name in it; "": the module itself).
        modules: what the tests import and need, without what is the program's.
    """

    program: frozenset[str]
    either: frozenset[str]
    library: dict[str, tuple[str, str]]
    modules: frozenset[str]


@functools.lru_cache(maxsize=256)
def resolve(sources: tuple[str, ...], entry_point: str | None) -> Names:
    """Find out what the names of tests mean.

    Args:
        sources: the tests and what is run before them.
        entry_point: what is tested, if that is known: a name, or an expression as "Solution().f".
    """
    trees = [tree for source in sources if (tree := _parsed(source)) is not None]
    nodes = [node for _, tree in trees for node in ast.walk(tree)]
    imports = list(_imports(nodes))
    starred = [module for module, name in imports if name == "*" and not is_program(module)]
    free = set().union(*(_free(source) for source, _ in trees)) if trees else set()
    free -= set().union(*(_defined(source) for source, _ in trees)) if trees else set()
    free -= {name for module in starred for name in _starred(module)}
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    dotted = {n.value.id for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
    modules = {*sys.stdlib_module_names, *SHORT, *INSTALLED} & ((free & dotted) - called - BUILTINS)
    says = entry_point is not None or any(is_program(module) and name != "*" for module, name in imports)
    table = {**VERBS, **LIBRARY} if says else LIBRARY
    known = {name for name in free - modules - BUILTINS if name in table and _fits(table[name], name, name in called)}
    rest = {name for name in free - modules - known - BUILTINS if not name.startswith("__")}
    program, either = rest, _of_objects(nodes, rest) & known
    if says:
        program = rest if any(is_program(module) and name == "*" for module, name in imports) else set()
    elif not rest:  # tests that call nothing else are about these, though Python has them as well
        either = _innermost(nodes, free & called)
    either = set() if says else either
    program |= either
    if entry_point is not None:
        program |= {node.id for node in ast.walk(ast.parse(entry_point)) if isinstance(node, ast.Name)}
    library = {name: (SHORT.get(name, name), "") for name in modules - program}
    library |= {name: (table[name], name) for name in known - program}
    needed = {module for module, _ in imports if not is_program(module)} | {place for place, _ in library.values()}
    return Names(frozenset(program), frozenset(either), library, frozenset(needed))


def tested(sources: Iterable[str], entry_point: str | None) -> str:
    """Return the name of what tests call, as far as they say; else ""."""
    given = tuple(sources)
    nodes = [node for source in given if (tree := _parsed(source)) for node in ast.walk(tree[1])]
    program = resolve(given, entry_point).program
    if entry_point is not None:
        return next(
            (node.attr for node in ast.walk(ast.parse(entry_point)) if isinstance(node, ast.Attribute)), entry_point
        )
    said = [name for module, name in _imports(nodes) if is_program(module) and name not in ("", "*")]
    aliases = {a.asname or a.name for n in nodes if isinstance(n, ast.Import) for a in n.names if is_program(a.name)}
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in program:
            said.append(node.func.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            said.append(node.attr)
    return said[0] if said else ""


def is_program(module: str) -> bool:
    """Tell whether tests mean the program by a module of this name, wherever they look for it."""
    first, last = module.partition(".")[0], module.rpartition(".")[2]
    return last in PROGRAM_MODULES and first not in sys.stdlib_module_names


def _imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """Return the modules that are imported, where that is not tried only, and the name of each in it; "": itself."""
    nodes = list(nodes)
    tried = {id(part) for node in nodes if isinstance(node, ast.Try) for part in ast.walk(node)}
    for node in nodes:
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found = [(node.module or alias.name, alias.name) for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("__import__", "importlib.import_module"):
            found = [(str(part.value), "") for part in node.args[:1] if isinstance(part, ast.Constant)]
        else:
            continue
        yield from [(module, name) for module, name in found if is_program(module) or id(node) not in tried]


def _starred(module: str) -> Collection[str]:
    """Return what `from module import *` defines, of a module that comes with Python."""
    if module.partition(".")[0] in sys.stdlib_module_names:
        with contextlib.suppress(Exception):
            return _public(importlib.import_module(module))
    return ()


def _fits(place: str, name: str, is_called: bool) -> bool:
    """Tell whether a library's name can be meant: what is called is not one of its constants."""
    return not is_called or place not in sys.modules or callable(getattr(sys.modules[place], name, len))


def _of_objects(nodes: list[ast.AST], classes: set[str]) -> set[str]:
    """Return the names that are called with an object of the program's, as `dist(Point(1, 2))`: no library knows it."""
    calls = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    made = {id(n) for n in calls if isinstance(n.func, ast.Name) and n.func.id in classes and n.func.id[0].isupper()}
    return {n.func.id for n in calls if isinstance(n.func, ast.Name) and any(id(part) in made for part in n.args)}


def _innermost(nodes: list[ast.AST], names: set[str]) -> set[str]:
    """Return the names that are called with no call of another in it: of `abs(round(2.5) - 3)`, `round` is tested.

    A type, as in `sum(range(3))`, makes an argument, unless nothing else is called.
    """
    names = {name for name in names if not isinstance(getattr(builtins, name, None), type)} or names
    calls = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names]
    return {
        call.func.id
        for call in calls
        if isinstance(call.func, ast.Name) and not any(node in calls for node in ast.walk(call) if node is not call)
    }


@functools.lru_cache(maxsize=256)
def _parsed(source: str) -> tuple[str, ast.Module] | None:
    try:
        return source, ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _tables(table: symtable.SymbolTable) -> Iterable[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _free(source: str) -> set[str]:
    names = set()
    for table in _tables(symtable.symtable(source, "test", "exec")):
        for symbol in table.get_symbols():
            is_outer = symbol.is_global() or table.get_type() == "module"
            if symbol.is_referenced() and is_outer and not symbol.is_local():
                names.add(symbol.get_name())
            elif table.get_type() == "module" and symbol.is_referenced() and not _binds(symbol):
                names.add(symbol.get_name())
    return names


def _defined(source: str) -> set[str]:
    return {symbol.get_name() for symbol in symtable.symtable(source, "test", "exec").get_symbols() if _binds(symbol)}


def _binds(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
