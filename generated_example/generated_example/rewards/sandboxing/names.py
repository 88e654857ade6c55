# vextract:template base/__package__/rewards/sandboxing/names.py
"""Which names of a test stand for what the program defines.

A test that compares with a function which the program may define as well would let the program decide: `isclose`, say,
or `sorted`. So a name is the program's only where nothing else can be meant by it.
"""

import ast
import builtins
import math
import symtable
import sys
from collections.abc import Iterable

# What tests use without importing it, and where it is from.
LIBRARY = {
    **{name: "math" for name in vars(math) if not name.startswith("_")},
    **dict.fromkeys(("Counter", "OrderedDict", "defaultdict", "deque", "namedtuple"), "collections"),
    **{"deepcopy": "copy", "Decimal": "decimal", "Fraction": "fractions", "reduce": "functools"},
    **dict.fromkeys(("List", "Dict", "Tuple", "Set", "Optional", "Any", "Union"), "typing"),
}
SHORT = {"np": "numpy", "pd": "pandas"}


def of_program(sources: Iterable[str], entry_point: str | None) -> tuple[set[str], set[str], set[str]]:
    """Sort the names that tests use and do not define.

    Args:
        sources: the tests and what is run before them.
        entry_point: the name of what is tested, if that is known: then nothing else is the program's.

    Returns:
        Names that stand for what the program defines; modules to import; names of LIBRARY.
    """
    trees = [tree for source in sources if (tree := _parsed(source)) is not None]
    free = set().union(*(_free(source) for source, _ in trees)) if trees else set()
    free -= set().union(*(_defined(source) for source, _ in trees)) if trees else set()
    nodes = [node for _, tree in trees for node in ast.walk(tree)]
    called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    dotted = {n.value.id for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}
    modules = {name for name in (free & dotted) - called if name in sys.stdlib_module_names or name in SHORT}
    known = free & set(LIBRARY)
    if entry_point is not None:
        return {entry_point}, modules - {entry_point}, known - {entry_point}
    program = free - modules - known - set(vars(builtins))
    if not program:  # tests that call nothing else are about these, though Python has them as well
        program = _innermost(nodes, free & called)
    return program, modules, known - program


def _innermost(nodes: list[ast.AST], names: set[str]) -> set[str]:
    """Return the names that are called with no call of another in it: of `abs(round(2.5) - 3)`, `round` is tested."""
    calls = [n for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in names]
    return {
        call.func.id
        for call in calls
        if isinstance(call.func, ast.Name) and not any(node in calls for node in ast.walk(call) if node is not call)
    }


def _parsed(source: str) -> tuple[str, ast.AST] | None:
    try:
        return source, ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # such a test fails when it is run


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
