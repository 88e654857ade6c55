"""Define the commands, each a function of its name; only this package prints.

Modules with options do without `from __future__ import annotations`: typer reads the annotations at every start, and
would compile each of them from its text. Names that only type checkers import are quoted there.
"""

import gc
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    # Short-lived, and full of syntax trees that live as long as it does: a collector would only look at them in vain.
    gc.disable()
    from extractor.cli.app import run
    from extractor.values import limits

    sys.setrecursionlimit(max(sys.getrecursionlimit(), limits.PYTHON_FRAMES))

    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))
