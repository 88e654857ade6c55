"""What verl's scorers of code, and their copies in forks, use of pyext, which cannot be installed since Python 3.11."""

from __future__ import annotations

from extractor.importers.runs import templates

PACKAGE, NAME = "pyext", "RuntimeModule"
# What it needs of Python that is gone.
FORMER = "inspect.getargspec"
# The module that copies import instead.
MODULE = "runtime_module"


def text() -> str:
    """Return the text of the module."""
    return templates.render(f"{MODULE}.py")
