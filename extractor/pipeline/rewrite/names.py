"""Resolve a module's names to definitions and list their uses."""

import ast
from collections.abc import Iterable

from extractor.pipeline.rewrite.scopes import Scope, Use, Walk


class Names:
    """The names of one module.

    Attributes:
        text: The module's text.
        tree: The parsed module.
        module: Its outermost scope.
        imports: Every import statement in source order.
        exported: The strings of `__all__`, as far as they are literal.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        walk = Walk()
        walk.run(self.tree)
        self.module = walk.module
        self.imports = tuple(walk.imports)
        self.exported = frozenset(find_exported_names(self.tree.body))
        self._uses: dict[tuple[Scope, str], list[Use]] = {}
        self._unbound: list[Use] = []
        for use in walk.uses:
            owners = list(_list_owners(use.chain[0], use.scope))
            for owner in owners:
                self._uses.setdefault((owner, use.chain[0]), []).append(use)
            if not owners:
                self._unbound.append(use)

    def uses(self, scope: Scope, name: str) -> list[Use]:
        """Return the reads of the name that `scope` binds."""
        return self._uses.get((scope, name), [])

    def adopt(self, name: str) -> None:
        """Count `name` as bound by the module, for a star import."""
        self.module.bound.add(name)
        mine = [use for use in self._unbound if use.chain[0] == name]
        self._uses.setdefault((self.module, name), []).extend(mine)
        self._unbound = [use for use in self._unbound if use.chain[0] != name]

    def unbound(self) -> list[Use]:
        """Return the reads of names that nothing in the module binds."""
        return self._unbound


def find_exported_names(body: Iterable[ast.stmt]) -> list[str]:
    """Return the strings inside every assignment or addition to `__all__`."""
    names: list[str] = []
    for node in body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(target, ast.Name) or target.id != "__all__":
            continue
        value = getattr(node, "value", None)
        if value is not None:
            names += [
                item.value for item in ast.walk(value) if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
    return names


def _list_owners(name: str, scope: Scope) -> Iterable[Scope]:
    """Return the scopes whose binding a read of `name` may mean."""
    current: Scope | None = scope
    while current is not None:
        declared = current.shared.get(name)
        if declared == "global":
            while current.parent is not None:
                current = current.parent
            if name in current.bound:
                yield current
            return
        if declared is None and name in current.bound and (current.kind != "class" or current is scope):
            yield current
            if current.kind != "class":
                return
        current = current.parent
