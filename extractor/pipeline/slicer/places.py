"""Map upstream's names to their place in a project."""

from extractor.pipeline.slicer.definitions import Definition, Definitions
from extractor.pipeline.slicer.slice import NotKept, Target
from extractor.pipeline.slicer.state import Found
from extractor.values.modules import name_module


class Places:
    """Resolves imports as `Resolver` says.

    Args:
        found: What a finished search has found.
        definitions: Finds where names lead.
    """

    def __init__(self, found: Found, definitions: Definitions) -> None:
        self._found = found
        self._definitions = definitions

    def resolve(self, imported: str, name: str | None) -> Target:
        """Return where an upstream module or name is in the package.

        Raises:
            NotKept: it was not kept.
        """
        if name is None:
            return self._module(imported)
        return self._place_symbol(self._definitions.define(imported, name), f"{imported}:{name}")

    def _place_symbol(self, found: Definition, symbol: str) -> Target:
        """Return where a definition lives in the generated package."""
        if found.kind == "local" and f"{found.module}:{found.name}" in self._found.edges:
            return Target(self._place_path(found.module), found.name)
        if found.kind == "ours" and f"{found.module}:{found.name}" in self._found.replaced:
            assert found.target is not None
            return found.target
        if found.kind == "module":
            return self._module(found.module)
        if found.kind == "external" and found.name in self._found.reexports.get(found.module, ()):
            return Target(self._place_path(found.module), found.name)
        raise NotKept(symbol)

    def _module(self, module: str) -> Target:
        """Return where a module lives in the generated package."""
        if module not in self._found.kept:
            raise NotKept(module)
        return Target(self._place_path(module), None)

    def _place_path(self, module: str) -> str:
        return name_module(self._found.manifest.target_path(self._found.index[module].path))
