# vextract:template
"""Which tests there are in a source text, and whether anything can be tested by it at all."""

import ast
import re
from collections.abc import Collection, Sequence

from . import names
from .comparisons import RUNNERS
from .errors import TestsError

FORMS = (
    "a test is check(candidate) with its entry_point, test_...() functions, a class with test_... methods, or "
    "statements that assert"
)
# What pytest would write files for.
_WRITING = re.compile(r"\b(tmp_path|tmp_path_factory|tmpdir|caplog)\b")


def cases_of(module: str, entry_point: str | None) -> list[tuple[str, str]]:
    """Return the tests in a module, as they stand there.

    Each is ("check", name): a function that is given what is tested; ("function", name); ("pytest", name): it has
    parameters that pytest fills in; (class, method); or ("module", ""): the statements of the module, once.
    """
    if not module:
        return []
    try:
        statements = ast.parse(module).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [("module", "")]
    found: list[tuple[str, str]] = []
    for node in filter(_counts, statements):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name == "check" and node.args.args:
                found.append(("check", node.name))
            elif node.name.startswith("test") or node.name == "check":
                found.append((_kind(node, entry_point), node.name))
        elif isinstance(node, ast.ClassDef):
            parts = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            found += [(node.name, part.name) for part in filter(_counts, parts) if part.name.startswith("test")]
    run = set(filter(None, map(_called, statements)))  # the module runs its tests itself
    if entry_point is None or not any(kind == "check" for kind, _ in found):
        found = [(kind, name) for kind, name in found if name not in run]
    return found or [("module", "")]


def check(setup: str, asserts: Sequence[str], module: str, entry_point: str | None) -> set[str]:
    """Check that a program can pass tests, and that not every program does.

    Args:
        setup, asserts, module, entry_point: the tests, as `judge.Tests` has them.

    Returns:
        The modules that must be there for them.

    Raises:
        TestsError: it cannot, or each does.
    """
    for what, source in (("setup", setup), *(("assert", text) for text in asserts), ("test", module)):
        _check_syntax(what, source)
    if entry_point is not None:
        _check_syntax("entry_point", entry_point, "eval")
    for text in asserts:
        if not _may_fail(ast.parse(text).body):
            raise TestsError(f"a test asserts nothing: {_short(text)}", "write: assert f(1) == 2")
    found = cases_of(module, entry_point)
    if any(kind == "check" for kind, _ in found) and entry_point is None:
        raise TestsError(
            "the tests have check(candidate), and no entry_point says what that is", "name it: entry_point"
        )
    if writing := _WRITING.search(module):
        raise TestsError(
            f"the tests write files, by {writing[0]}, and nothing does in the sandbox",
            "leave these rows out, or name a service: reward.sandbox_fusion.url",
        )
    if found == [("module", "")] and not _may_fail(ast.parse(module).body):
        raise TestsError(f"nothing is tested by {_short(module)}", FORMS)
    needed = names.resolve((setup, *asserts, module), entry_point).modules
    return {name.partition(".")[0] for name in needed} | {"pytest" for kind, _ in found if kind == "pytest"}


def _kind(node: ast.FunctionDef | ast.AsyncFunctionDef, entry_point: str | None) -> str:
    required = node.args.args[: len(node.args.args) - len(node.args.defaults)]
    if not required:
        return "function"
    is_given = len(required) == 1 and entry_point is not None and not node.decorator_list
    return "check" if is_given else "pytest"


def _counts(node: ast.stmt) -> bool:
    """Tell whether a test is run, and must pass: not where it is marked otherwise."""
    marks = [mark.func if isinstance(mark, ast.Call) else mark for mark in getattr(node, "decorator_list", ())]
    return not any(ast.unparse(mark).rpartition(".")[2] in ("skip", "expectedFailure", "xfail") for mark in marks)


def _called(node: ast.stmt) -> str | None:
    """Return the name of the function that a statement calls; None if it is no call by a name."""
    call = node.value if isinstance(node, ast.Expr) else None
    return call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None


def _may_fail(statements: Collection[ast.stmt]) -> bool:
    """Tell whether statements assert anything, or call what may: not whether they only define, import and print."""
    run = [node for node in statements if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    for node in (part for statement in run for part in ast.walk(statement)):
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            name = ast.unparse(node.value.func)
            if name != "print" and f"{name}(" not in RUNNERS:
                return True
    return False


def _check_syntax(what: str, source: str, mode: str = "exec") -> None:
    try:
        compile(source, what, mode, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TestsError(f"the tests' {what} is not Python: {error}: {_short(source)}", FORMS) from None


def _short(text: str) -> str:
    return repr(text if len(text) < 80 else text[:77] + "...")
