# vextract:template
"""Evaluates tests against a candidate that it has only a channel to."""

import ast
import builtins
import contextlib
import functools
import importlib
import inspect
import io
import itertools
import json
import os
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import cases, comparisons, names, values
from .remote import CandidateGone, Connection, Remote
from .with_pytest import run_pytest


@dataclass(frozen=True)
class Tests:
    """Holds what a program is asked, and what it should answer.

    Attributes:
        setup: statements before the tests.
        entry_point: the function or class that is tested, a name or as "Solution().f"; None: found in the tests.
        asserts: statements, each a test.
        module: source text with tests, see `cases`.
        calls: [name, arguments, expected] of each call; a method of `Solution` if the program has one.
    """

    setup: str = ""
    entry_point: str | None = None
    asserts: list[str] = field(default_factory=list)
    module: str = ""
    calls: list[tuple[str, list[Any], Any]] = field(default_factory=list)


def run(tests: Tests, requests: int, answers: int, limit: int, verdicts: int) -> None:
    """Evaluate tests one by one, and write a line for each as soon as it is known.

    Args:
        tests: what to evaluate.
        requests, answers: descriptors of the channel to the candidate.
        limit: of an answer, in bytes.
        verdicts: a descriptor that nothing else writes to, for the lines: {"count": n}, {"begun": true}, then
            {"test": index, "passed": truth value}.
    """

    def say(**line: Any) -> None:
        os.write(verdicts, json.dumps(line).encode() + b"\n")

    sources = (tests.setup, *tests.asserts, tests.module)
    text = " ".join(sources)
    connection = Connection(requests, answers, limit, _special(f"{text} {tests.calls}".lower()), _exact(text))
    found = cases.cases_of(tests.module, tests.entry_point)
    meant = names.resolve(sources, tests.entry_point)
    space = _namespace(connection, "__main__" if found == [("module", "")] else "tests")
    first = len(tests.asserts) + len(tests.calls)
    say(count=first + len(found))
    try:
        if re.search(r"\b(np|numpy)\b", text) or any(place.startswith("numpy") for place, _ in meant.library.values()):
            comparisons.guard_numpy()
        connection.begin()
        say(begun=True)
        _give_names(vars(space), meant, connection)
        setup_error = _executed(tests.setup, vars(space))
        for index, test in enumerate(_tests(tests, vars(space), setup_error, connection)):
            say(test=index, passed=_passes(test))
        if not tests.module:
            return
        error = setup_error or _executed(tests.module, vars(space)) or _set_up(space)
        runs_pytest = "pytest" in meant.modules and all(kind not in ("check", "module") for kind, _ in found)
        if error is None and (runs_pytest or any(kind == "pytest" for kind, _ in found)):
            numbers = itertools.count(first)
            count, tell = lambda n: say(count=first + n), lambda passed: say(test=next(numbers), passed=passed)
            with contextlib.redirect_stdout(io.StringIO()):
                run_pytest(space, connection, count, tell)
            return
        for index, (kind, name) in enumerate(found, first):
            run = functools.partial(_run, kind, name, vars(space), tests, connection)
            say(test=index, passed=_passes(functools.partial(_fail, error) if error else run))
    except CandidateGone:
        pass


def _special(text: str) -> list[str]:
    """Return those of NaN and the infinities that the tests mention: with others, comparisons mean nothing."""
    nan = ["nan"] if re.search(r"(?<![a-z])(is)?nan(?![a-z])", text) else []
    return [*nan, "inf", "-inf"] if re.search(r"inf|\de\+?\d{3}", text) else nan


def _exact(text: str) -> list[str]:
    """Return the kinds of answers that tests distinguish from plain ones, `values.KINDS`: those that they mention."""
    kinds = [kind for kind in values.KINDS if re.search(rf"\b{kind}\b", text)]
    arrays = re.search(r"\b(np|numpy|array|ndarray)\b|\.(tolist|shape|dtype|ndim|all|any)\b", text)
    return [*kinds, "ndarray"] if arrays else kinds


def _passes(test: Callable[[], Any]) -> bool:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            test()
    except CandidateGone:
        raise
    except BaseException:  # SystemExit as well: only a test that runs to its end has passed
        return False
    return True


def _tests(
    tests: Tests, namespace: dict[str, Any], setup_error: BaseException | None, connection: Connection
) -> Iterator[Callable[[], Any]]:
    for source in tests.asserts:
        run = functools.partial(_run_statement, source, namespace)
        yield functools.partial(_fail, setup_error) if setup_error else run
    for name, arguments, expected in tests.calls:
        yield functools.partial(_call, connection, name, arguments, expected)


def _run_statement(source: str, namespace: dict[str, Any]) -> None:
    exec(_compiled(source), namespace)


def _executed(source: str, namespace: dict[str, Any]) -> BaseException | None:
    try:
        exec(_compiled(source), namespace)
    except CandidateGone:
        raise
    except BaseException as error:
        return error
    return None


def _set_up(module: types.ModuleType) -> BaseException | None:
    for name in ("setUpModule", "setup_module"):
        if name in vars(module):
            return _executed(f"{name}()", vars(module))
    return None


def _fail(error: BaseException) -> None:
    raise error


def _compiled(source: str) -> types.CodeType:
    tree = comparisons.Guarded().visit(ast.parse(source))
    return compile(ast.fix_missing_locations(tree), "test", "exec", dont_inherit=True, optimize=0)


def _run(kind: str, name: str, namespace: dict[str, Any], tests: Tests, connection: Connection) -> None:
    if kind == "module":  # its statements are the test, and have been run
        return
    if kind == "check":
        root = str(tests.entry_point)
        function = connection.get(root) if root.isidentifier() else eval(_compiled_expression(root), namespace)
        _finish(namespace[name](function))
    elif kind == "function":
        _finish(namespace[name]())
    elif hasattr(namespace[kind], "debug"):  # a TestCase
        namespace[kind].setUpClass()
        namespace[kind](name).debug()  # raises what failed
    else:
        case = namespace[kind]()
        for prepare in (getattr(case, part, None) for part in ("setup_class", "setup_method", "setUp")):
            if prepare is not None:
                prepare(*[None] * len(inspect.signature(prepare).parameters))
        _finish(getattr(case, name)())


def _compiled_expression(source: str) -> types.CodeType:
    return compile(source, "entry_point", "eval", dont_inherit=True)


def _finish(result: Any) -> None:
    """Run what an `async` test has returned."""
    if inspect.iscoroutine(result):
        import asyncio

        asyncio.run(result)


def _call(connection: Connection, name: str, arguments: list[Any], expected: Any) -> None:
    try:
        function = getattr(connection.get("Solution")(), name)
    except NameError:
        function = connection.get(name)
    result, expected = _lists(function(*arguments)), _lists(expected)
    # Some data sets have every result in a list.
    wrapped = type(expected) is list and len(expected) == 1 and result == expected[0]
    assert result == expected or wrapped


def _lists(value: Any) -> Any:
    """Return lists in place of tuples and arrays, which JSON does not have."""
    value = value.tolist() if hasattr(type(value), "tolist") else value
    if isinstance(value, list | tuple):
        return [_lists(item) for item in value]
    return {key: _lists(item) for key, item in value.items()} if isinstance(value, dict) else value


def _namespace(connection: Connection, name: str) -> types.ModuleType:
    """Return where tests run: they cannot run what a candidate returns as source text, or compare it with nothing."""
    own = dict(vars(builtins))
    own.update(comparisons.builtins_for_tests(connection.empty, Remote))
    own["eval"] = lambda source, *places: ast.literal_eval(source)
    own["exec"] = own["compile"] = own["input"] = own["breakpoint"] = None
    module = types.ModuleType(name)
    vars(module)["__builtins__"] = own
    return module


def _give_names(namespace: dict[str, Any], meant: names.Names, connection: Connection) -> None:
    for name, (place, attribute) in sorted(meant.library.items()):
        with contextlib.suppress(ImportError, AttributeError):
            module = importlib.import_module(place)
            namespace[name] = getattr(module, attribute) if attribute else module
    defined = {}
    for name in sorted(meant.program):
        with contextlib.suppress(Exception):  # not defined: NameError where it is used
            defined[name] = connection.get(name)
    for name in meant.program - set(defined):
        if name not in meant.either or not defined:
            namespace["__builtins__"].pop(name, None)  # not Python's own, if the program has none
        elif library := names.LIBRARY.get(name):
            with contextlib.suppress(ImportError, AttributeError):
                namespace[name] = getattr(importlib.import_module(library), name)
    namespace.update(defined)
    for name in names.PROGRAM_MODULES:
        sys.modules[name] = _program_module(name, connection)


def _program_module(name: str, connection: Connection) -> types.ModuleType:
    """Return a module whose names are the program's, for tests that import it."""

    def find(attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        try:
            return connection.get(attribute)
        except NameError as error:
            raise AttributeError(str(error)) from None

    module = types.ModuleType(name)
    vars(module)["__getattr__"] = find
    return module
