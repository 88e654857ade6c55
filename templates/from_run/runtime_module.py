# vextract:hook  yours: written once, never touched by an upgrade
"""Modules made of text: what the run's own files use of pyext, which cannot be installed since Python 3.11."""

from types import ModuleType


class RuntimeModule:
    """The class of that name."""

    @staticmethod
    def from_string(name: str, docstring: str, *texts: str) -> ModuleType:
        """Return a module in which texts have been run, in order."""
        made = ModuleType(name, docstring)
        for text in texts:
            exec(compile(text, name, "exec"), made.__dict__)
        return made
