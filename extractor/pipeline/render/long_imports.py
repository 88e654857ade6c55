"""Wrap imports that a long package name makes too long."""

import re

_LINE_LENGTH = 120  # as templates/base/pyproject.toml.jinja tells ruff
_IMPORT = re.compile(r"^( *)from ([\w.]+) import (\w[\w, ]*)$", re.MULTILINE)


def wrap_imports(text: str) -> str:
    """Wrap long imports, one name per line, as ruff does."""

    def wrap(match: re.Match[str]) -> str:
        if len(match[0]) <= _LINE_LENGTH:
            return match[0]
        names = "".join(f"{match[1]}    {name.strip()},\n" for name in match[3].split(","))
        return f"{match[1]}from {match[2]} import (\n{names}{match[1]})"

    return _IMPORT.sub(wrap, text)
