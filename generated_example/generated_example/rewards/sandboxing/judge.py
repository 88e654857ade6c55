# vextract:template base/__package__/rewards/sandboxing/judge.py
"""Evaluates tests against a candidate that it has only a channel to."""

import ast
import builtins
import contextlib
import functools
import importlib
import io
import json
import os
import re
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from . import comparisons, names
from .remote import CandidateGone, Connection, Remote

# The names that tests import a program under.
PROGRAM_MODULES = ("solution", "candidate", "main", "your_module", "your_code")


@dataclass(frozen=True)
class Tests:
    """Holds what a program is asked, and what it should answer.

    Attributes:
        setup: statements before the tests.
        entry_point: the name of the function or class that is tested; None: found in the tests.
        asserts: statements, each a test.
        module: source text with `check(candidate)`, `test_...()` or unittest's TestCase: each function is a test.
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

    sources = [tests.setup, *tests.asserts, tests.module]
    text = " ".join(sources)
    connection = Connection(requests, answers, limit, _special(f"{text} {tests.calls}".lower()))
    namespace = _namespace(connection)
    say(count=len(tests.asserts) + len(tests.calls) + _count(tests.module))
    try:
        if re.search(r"\b(np|numpy)\b", text):
            comparisons.guard_numpy()
        connection.begin()
        say(begun=True)
        _give_names(namespace, tests, sources, connection)
        for index, test in enumerate(_tests(tests, namespace, connection)):
            say(test=index, passed=_passes(test))
    except CandidateGone:
        pass


def _special(text: str) -> list[str]:
    """Return those of NaN and the infinities that the tests mention: with others, comparisons mean nothing."""
    nan = ["nan"] if re.search(r"(?<![a-z])(is)?nan(?![a-z])", text) else []
    return [*nan, "inf", "-inf"] if re.search(r"inf|\de\+?\d{3}", text) else nan


def _passes(test: Callable[[], Any]) -> bool:
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            test()
    except CandidateGone:
        raise
    except BaseException:  # SystemExit as well: only a test that runs to its end has passed
        return False
    return True


def _tests(tests: Tests, namespace: dict[str, Any], connection: Connection) -> Iterator[Callable[[], Any]]:
    setup_error = _executed(tests.setup, namespace)
    for source in tests.asserts:
        run = functools.partial(_run_statement, source, namespace)
        yield functools.partial(_fail, setup_error) if setup_error else run
    for name, arguments, expected in tests.calls:
        yield functools.partial(_call, connection, name, arguments, expected)
    if tests.module:
        error = setup_error or _executed(tests.module, namespace)
        for kind, name in _functions(tests.module):
            run = functools.partial(_run, kind, name, namespace, tests, connection)
            yield functools.partial(_fail, error) if error else run


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


def _fail(error: BaseException) -> None:
    raise error


def _compiled(source: str) -> types.CodeType:
    return compile(source, "test", "exec", dont_inherit=True, optimize=0)


def _functions(module: str) -> list[tuple[str, str]]:
    """Return the tests in a module, as they stand there: ("check", name), ("function", name) or (class, method)."""
    try:
        statements = ast.parse(module).body
    except (SyntaxError, ValueError, RecursionError):
        return [("check", "check")] if module else []
    found = []
    for node in statements:
        if isinstance(node, ast.FunctionDef) and node.name == "check":
            found.append(("check", "check"))
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            found.append(("function", node.name))
        elif isinstance(node, ast.ClassDef):
            methods = [part.name for part in node.body if isinstance(part, ast.FunctionDef)]
            found += [(node.name, name) for name in methods if name.startswith("test")]
    return found or ([("module", "")] if module else [])


def _count(module: str) -> int:
    return len(_functions(module))


def _run(kind: str, name: str, namespace: dict[str, Any], tests: Tests, connection: Connection) -> None:
    if kind == "module":  # its statements are the test, and have been run
        return
    if kind == "check":
        if tests.entry_point is None:
            raise ValueError("a test with check(candidate) needs its entry_point")
        namespace[name](connection.get(tests.entry_point))
    elif kind == "function":
        namespace[name]()
    elif hasattr(namespace[kind], "debug"):  # a TestCase
        namespace[kind].setUpClass()
        namespace[kind](name).debug()  # raises what failed
    else:
        getattr(namespace[kind](), name)()


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
    """Return lists in place of tuples, which JSON does not have."""
    if isinstance(value, list | tuple):
        return [_lists(item) for item in value]
    return {key: _lists(item) for key, item in value.items()} if isinstance(value, dict) else value


def _namespace(connection: Connection) -> dict[str, Any]:
    """Return where tests run: they cannot run what a candidate returns as source text, or compare it with nothing."""
    own = dict(vars(builtins))
    own.update(comparisons.builtins_for_tests(connection.empty, Remote))
    own["eval"] = lambda source, *places: ast.literal_eval(source)
    own["exec"] = own["compile"] = own["input"] = own["breakpoint"] = None
    return {"__name__": "tests", "__builtins__": own}


def _give_names(namespace: dict[str, Any], tests: Tests, sources: list[str], connection: Connection) -> None:
    program, modules, library = names.of_program(sources, tests.entry_point)
    for name in sorted(modules):
        with contextlib.suppress(ImportError):
            namespace[name] = importlib.import_module(names.SHORT.get(name, name))
    for name in sorted(library):
        namespace[name] = getattr(importlib.import_module(names.LIBRARY[name]), name)
    for name in sorted(program):
        namespace["__builtins__"].pop(name, None)  # not Python's own, if the program has none
        with contextlib.suppress(Exception):  # not defined: NameError where it is used
            namespace[name] = connection.get(name)
    for name in PROGRAM_MODULES:
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
