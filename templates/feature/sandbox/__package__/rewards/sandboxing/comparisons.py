# vextract:template
"""Comparisons that hold because nothing is compared, and what tests get in their place.

NaN makes every order false, so that `not abs(f(x) - 1) > tolerance` holds, and NumPy finds an empty array equal to any
number. So each comparison of a test is computed here, and so are differences where there may be arrays.
"""

import ast
import collections
import contextlib
import functools
import importlib
import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import names

# Functions of NumPy that stretch an empty array over any number, and find it equal, beside those of two arrays.
OF_NUMPY = {
    "numpy": ("allclose", "array_equiv", "isclose"),
    "numpy.testing": (
        "assert_allclose",
        "assert_almost_equal",
        "assert_array_almost_equal",
        "assert_array_equal",
        "assert_array_less",
        "assert_equal",
    ),
}
CONTAINERS = (str, bytes, list, tuple, dict, set, frozenset, range, collections.deque)
ORDERS = {"Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    **ORDERS,
    **{"Eq": operator.eq, "NotEq": operator.ne, "Is": operator.is_, "IsNot": operator.is_not},
    **{"In": lambda item, items: item in items, "NotIn": lambda item, items: item not in items},
}
RUNNERS = ("unittest.main(", "pytest.main(")
COMPARE, SUBTRACT, CALL, SOURCE = "__compare__", "__subtract__", "__call__", "__source__"
# What looks at the frame that calls it.
OF_FRAMES = ("dir", "eval", "globals", "locals", "super", "vars")


class Guarded(ast.NodeTransformer):
    """Has a test compute its comparisons here, and find the program where it looks for it."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Replace `a < b` by a call."""
        self.generic_visit(node)
        kinds = [type(kind).__name__ for kind in node.ops]
        if not {"Eq", "NotEq", *ORDERS}.intersection(kinds):
            return node
        names_of_kinds = ast.Tuple([ast.Constant(kind) for kind in kinds], ast.Load())
        return _call(node, COMPARE, [names_of_kinds, node.left, *node.comparators])

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Replace `a - b` by a call."""
        self.generic_visit(node)
        return _call(node, SUBTRACT, [node.left, node.right]) if isinstance(node.op, ast.Sub) else node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """Leave out what would run the tests: `unittest.main()`."""
        if isinstance(node.value, ast.Call) and any(runner in ast.unparse(node.value) for runner in RUNNERS):
            return ast.copy_location(ast.Pass(), node)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Have what a function makes of an empty answer known as one: `sorted(f(x))`."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in OF_FRAMES:
            return node
        call = ast.Call(ast.Name(CALL, ast.Load()), [node.func, *node.args], node.keywords)
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _visit_comprehension(self, node: Any) -> ast.expr:
        """Have `[g(v) for v in f(x)]` known as an empty answer where `f(x)` is one."""
        self.generic_visit(node)
        if any(isinstance(part, ast.NamedExpr | ast.Await | ast.Yield) for part in ast.walk(node)):
            return node
        if node.generators[0].is_async:
            return node
        source, node.generators[0].iter = node.generators[0].iter, ast.Name(SOURCE, ast.Load())
        arguments = ast.arguments([], [ast.arg(SOURCE)], None, [], [], None, [])
        return _call(node, CALL, [ast.Lambda(arguments, node), source])

    visit_ListComp = visit_SetComp = visit_GeneratorExp = _visit_comprehension

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt:
        """Import the program from where it is: `from .solution import f`, `from src.solution import f`."""
        if node.module and (node.level or names.is_program(node.module)):
            node.module, node.level = node.module.rpartition(".")[2], 0
        elif node.level:
            return ast.copy_location(ast.Import(node.names), node)
        return node


def compare(kinds: tuple[str, ...], *values: Any) -> Any:
    """Do what a comparison does.

    Args:
        kinds: the operators of it, as `ast` calls them.
        values: what they stand between.

    Raises:
        AssertionError: an order of NaN, or a comparison of an empty array with what is not empty.
    """
    result: Any = True
    for kind, first, second in zip(kinds, values, values[1:], strict=False):
        if kind in ORDERS and (_is_nan(first) or _is_nan(second)):
            raise AssertionError("NaN is neither smaller nor larger than anything")
        if kind in ORDERS or kind in ("Eq", "NotEq"):
            _refuse_empty(first, second)
        result = COMPARISONS[kind](first, second)
        if len(kinds) > 1 and not result:
            break
    return result


def subtract(first: Any, second: Any) -> Any:
    """Do what `-` does; raises AssertionError of an empty array and what is not empty."""
    _refuse_empty(first, second)
    return first - second


def pairs(is_empty_answer: Callable[[Any], bool], *iterables: Any, strict: bool = False) -> Iterator[tuple[Any, ...]]:
    """Do what `zip` does, but for an answer that is empty where another of `iterables` is not.

    Of `all(a == b for a, b in zip(answer, expected))` nothing would be compared.

    Args:
        is_empty_answer: tells, of one of `iterables` that has no items, whether the program has answered it.

    Raises:
        AssertionError: an answer is empty, and something else is not.
    """
    iterators = [iter(each) for each in iterables]
    first = [list(itertools.islice(each, 1)) for each in iterators]
    for each, item in zip(iterables, first, strict=True):
        if not item and any(first) and is_empty_answer(each):
            raise AssertionError("an empty answer is compared with what is not empty")
    whole = [itertools.chain(item, rest) for item, rest in zip(first, iterators, strict=True)]
    return zip(*whole, strict=strict)


def holds_nothing(value: Any) -> bool:
    """Tell whether a value is an empty container or array."""
    if type(value).__name__ == "ndarray":
        return bool(value.size == 0)
    return type(value) in CONTAINERS and not value


def builtins_for_tests(empty: dict[int, Any], kind: type) -> dict[str, Any]:
    """Return what tests get in place of Python's own.

    Args:
        empty: the empty answers so far, by identity; it grows.
        kind: of answers that can be iterated over and are not data.
    """

    def is_empty_answer(value: Any) -> bool:
        return type(value) is kind or id(value) in empty

    def call(function: Any, *values: Any, **options: Any) -> Any:
        result = function(*values, **options)
        if holds_nothing(result) or isinstance(result, Iterator):
            if any(map(is_empty_answer, (*values, getattr(function, "__self__", None)))):
                empty[id(result)] = result
        return result

    checked = functools.partial(pairs, is_empty_answer)
    return {
        "zip": checked,
        "map": lambda function, *items: itertools.starmap(function, checked(*items)),
        "max": functools.partial(_extreme, max),
        "min": functools.partial(_extreme, min),
        COMPARE: compare,
        SUBTRACT: subtract,
        CALL: call,
    }


def guard_numpy() -> None:
    """Let NumPy's comparisons refuse an empty array beside one that is not. Nothing happens where there is no NumPy."""
    for module, functions in OF_NUMPY.items():
        with contextlib.suppress(ImportError):
            found = importlib.import_module(module)
            of_two = [n for n, f in vars(found).items() if type(f).__name__ == "ufunc" and f.nin == 2]
            for name in {*functions, *of_two}:
                setattr(found, name, _OfTheSameEmptiness(getattr(found, name)))


class _OfTheSameEmptiness:
    """A function of two arrays, both of which are empty or neither."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *values: Any, **options: Any) -> Any:
        first, second, *_ = *values, *options.values(), 1, 1
        _refuse_empty(first, second, is_array=True)
        return self._function(*values, **options)

    def __getattr__(self, name: str) -> Any:  # ufuncs have `reduce` and others
        return getattr(self._function, name)


def _call(node: ast.expr, name: str, arguments: list[ast.expr]) -> ast.expr:
    call = ast.Call(ast.Name(name, ast.Load()), arguments, [])
    return ast.fix_missing_locations(ast.copy_location(call, node))


def _extreme(function: Callable[..., Any], *values: Any, **options: Any) -> Any:
    items = list(values[0]) if len(values) == 1 else list(values)
    if any(_is_nan(item) for item in items):
        raise AssertionError("NaN is neither smaller nor larger than anything")
    return function(items, **options)


def _is_nan(value: Any) -> bool:
    """Tell whether a value is a number that is none, or an array with one."""
    if isinstance(value, float):
        return value != value
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic) and value.dtype.kind in "fc":
        return bool(numpy.isnan(value).any())
    return False


def _refuse_empty(first: Any, second: Any, is_array: bool = False) -> None:
    numpy = sys.modules.get("numpy")
    if numpy is None or not (is_array or isinstance(first, numpy.ndarray) or isinstance(second, numpy.ndarray)):
        return
    with contextlib.suppress(TypeError, ValueError):  # what is not an array is left to the comparison
        if (numpy.size(first) == 0) != (numpy.size(second) == 0):
            raise AssertionError("an empty array is compared with what is not empty")
