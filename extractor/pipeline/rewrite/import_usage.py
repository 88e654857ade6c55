"""Decide whether anything needs what an import binds."""

import ast
from collections.abc import Collection

from extractor.pipeline.rewrite.names import Names
from extractor.pipeline.rewrite.scopes import ImportSite, Scope, is_import_guard


class Usage:
    """The answers for one module.

    Args:
        names: Its names.
        reexports: Those that other modules reach through it.
    """

    def __init__(self, names: Names, reexports: Collection[str]) -> None:
        self._names = names
        self._reexports = reexports

    def used(self, scope: Scope, name: str) -> bool:
        """Tell whether the name is read, re-exported or in `__all__`."""
        if scope.kind == "class" or self._names.uses(scope, name):
            return True
        return scope is self._names.module and (name in self._names.exported or name in self._reexports)

    def read(self, scope: Scope, name: str) -> bool:
        """Tell whether code reads the name or others import it."""
        return bool(self._names.uses(scope, name)) or (scope is self._names.module and name in self._reexports)

    def idle(self, scope: Scope, name: str) -> bool:
        """Return True if the module itself does not need the name."""
        mentioned = scope is self._names.module and name in self._names.exported
        return not (scope.kind == "class" or self._names.uses(scope, name) or mentioned)

    def is_dead(self, node: ast.stmt) -> bool:
        """Return True for a guarded import whose names nobody uses."""
        if not isinstance(node, ast.Try) or not is_import_guard(node) or node.finalbody:
            return False
        inner = [*node.body, *node.orelse, *(part for handler in node.handlers for part in handler.body)]
        imports_something = False
        for statement in inner:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                imports_something = True
                if any(alias.name == "*" for alias in statement.names):
                    return False
                bound = [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
            elif isinstance(statement, ast.Assign):
                if not all(isinstance(target, ast.Name) for target in statement.targets):
                    return False
                if not isinstance(statement.value, ast.Constant):
                    return False
                bound = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            elif isinstance(statement, ast.Pass):
                bound = []
            else:
                return False
            if any(self.used(self._names.module, name) for name in bound):
                return False
        return imports_something

    def find_kept_unused(self, site: ImportSite) -> bool:
        """Return the imports outside verl that stay although nothing reads them."""
        if site.checked:
            return True
        line = self._names.text.splitlines()[site.node.lineno - 1] if site.scope is not self._names.module else ""
        return "noqa" in line

    def is_submodule_used(self, site: ImportSite, dotted: str) -> bool:
        """Tell whether `import a.b` is needed, for `a.b` or for `a`."""
        parts = tuple(dotted.split("."))
        top = parts[0]
        if not self.used(site.scope, top):
            return False
        if any(use.chain[: len(parts)] == parts or len(use.chain) == 1 for use in self._names.uses(site.scope, top)):
            return True
        if top in self._names.exported or top in self._reexports:
            return True
        for other in self._names.imports:
            if other is site or other.scope is not site.scope or not isinstance(other.node, ast.Import):
                continue
            for alias in other.node.names:
                parent = dotted.startswith(alias.name + ".") or (alias.name != dotted and other.ordinal < site.ordinal)
                if alias.asname is None and alias.name.partition(".")[0] == top and parent:
                    return False
        return True
