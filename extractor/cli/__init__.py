"""The command line. Only this package prints; the commands are modules of their own."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    from extractor.cli.app import run

    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))
