"""Wrap imports that a long package name makes too long."""

import re
from textwrap import indent

from extractor.pipeline.index.syntax import LINE_LENGTH, write_import

_IMPORT = re.compile(r"^( *)from ([\w.]+) import (\w[\w, ]*)$", re.MULTILINE)


def wrap_imports(text: str) -> str:
    """Wrap long imports, one name per line, as ruff does."""

    def wrap(match: re.Match[str]) -> str:
        names = [name.strip() for name in match[3].split(",")]
        return indent(write_import(f"from {match[2]}", names, LINE_LENGTH - len(match[1])), match[1])

    return _IMPORT.sub(wrap, text)
