# vextract:template
"""A Python interpreter that keeps its state between pieces of code, in a process that is isolated."""

import ast
import builtins
import json
import os
import sys
import traceback
from typing import Any

from . import candidate, channel, isolation, supervisor
from .limits import Limits

START = "import sys; sys.path.insert(0, {!r}); from sandboxing import session; sys.path.pop(0); session.main()"
# Descriptors of the isolated process besides the standard ones: pieces of code, and the word that one has been run.
SOURCES, DONE = 3, 4
LIMIT = 1 << 24


def main() -> None:
    """Isolate a process, as the first message says, and end with the process at the other end of standard input."""
    sources, output, report = map(int, sys.argv[1:])
    said = json.loads(channel.receive(sources, LIMIT))
    held, limits = isolation.Isolation(**said["isolation"]), Limits(**said["limits"])
    if os.fork() == 0:
        descriptors = {0: os.open("/dev/null", os.O_RDONLY), 1: output, 2: output, SOURCES: sources, DONE: report}
        supervisor._keep(serve, descriptors, report, held, isolation.users()[0], limits)
    for descriptor in (sources, output, report):
        os.close(descriptor)
    os.read(0, 1)


def serve() -> int:
    """Run pieces of code until there are no more, or one exits; return the exit code."""
    sys.argv, module = [""], type(sys)("__main__")
    sys.modules["__main__"], process = module, os.getpid()
    vars(builtins).update(exit=sys.exit, quit=sys.exit)  # which come with packages, and those may be left out
    try:
        while True:
            code = _run(channel.receive(SOURCES, LIMIT).decode(), vars(module))
            sys.stdout.flush()
            sys.stderr.flush()
            if os.getpid() != process:  # what the code has forked
                os._exit(code or 0)
            if code is not None:
                return code
            os.write(DONE, b"\n")
    except channel.ChannelClosed:
        return 0


def _run(source: str, namespace: dict[str, Any]) -> int | None:
    """Run code, and show what its last expression is, as Python's prompt does; return an exit code if it exits."""
    try:
        tree = ast.parse(source, "<code>")
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, "<code>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            sys.displayhook(eval(compile(ast.Expression(last.value), "<code>", "eval"), namespace))
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except MemoryError:
        return candidate.OUT_OF_MEMORY
    except BaseException as error:
        frames = None if isinstance(error, SyntaxError) else error.__traceback__
        traceback.print_exception(type(error), error, frames and frames.tb_next)
    return None
