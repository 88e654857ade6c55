"""Decide for each import of a module: keep, prune or redirect."""

import ast
import builtins
from dataclasses import dataclass

from extractor.pipeline.rewrite.add_imports import find_home
from extractor.pipeline.rewrite.names import Names
from extractor.pipeline.rewrite.problems import CannotRewrite, find_upstream_line
from extractor.pipeline.rewrite.scopes import ImportSite, Scope, is_import_guard
from extractor.pipeline.slicer import KeptModule, NotKept, Resolver, Target
from extractor.values.modules import is_package, name_module, resolve_absolute


@dataclass(frozen=True)
class ImportLine:
    """One import statement to write.

    Attributes:
        module: Dotted module.
        names: (name, name it is bound to) of `from module import ...`; empty for `import module`.
        local: For `import module`: what follows `as`.
        unused: It is kept for its effect, or because others reach its names through this module.
    """

    module: str
    names: tuple[tuple[str, str], ...] = ()
    local: str | None = None
    unused: bool = False


@dataclass(frozen=True)
class ImportPlan:
    """Holds what to do with the imports of a module.

    Attributes:
        lines: By import statement: what takes its place. Statements that stay are not listed.
        chains: Attribute chains rooted in upstream's package that must be spelt differently.
        dead: Top-level statements that only existed to import names that nobody uses.
        redirected: True where an import now points into the generated package.
    """

    lines: dict[ast.stmt, tuple[ImportLine, ...]]
    chains: dict[tuple[str, ...], str]
    dead: frozenset[ast.stmt]
    redirected: bool


def plan_imports(names: Names, module: KeptModule, resolver: Resolver, package: str) -> ImportPlan:
    """Plan the imports of the half-rewritten `module`.

    Raises:
        CannotRewrite: kept code uses a name of verl that was not kept.
    """
    return _Planner(names, module, resolver, package).plan()


class _Planner:
    def __init__(self, names: Names, module: KeptModule, resolver: Resolver, package: str) -> None:
        self.text = names.text
        self.module = module
        self.resolver = resolver
        self.package = package
        self.names = names
        self.replaced = {substitute.name for substitute in module.substitutes}
        self.root = module.module.partition(".")[0]
        self.lines: dict[ast.stmt, tuple[ImportLine, ...]] = {}
        self.chains: dict[tuple[str, ...], str] = {}
        self.redirected = False
        self.seen: dict[str, str] = {}
        self.missing: list[tuple[str, int]] = []

    def plan(self) -> ImportPlan:
        dead = frozenset(filter(self._is_dead, self.names.tree.body))
        for site in self.names.imports:
            if self.names.tree.body[site.top] in dead:
                continue
            lines = self._import(site) if isinstance(site.node, ast.Import) else self._import_from(site, site.node)
            if lines is not None:
                self.lines[site.node] = lines
        if self.missing:
            listed = ", ".join(f"{name} (line {line})" for name, line in self.missing)
            raise CannotRewrite(
                self.module.upstream_path,
                self.missing[0][1],
                f"kept code uses names of verl that are not kept: {listed}",
                hint="cut the code that uses them with a feature or a replacement in the manifest, or make them roots",
            )
        return ImportPlan(self.lines, self.chains, dead, self.redirected)

    def _find_line(self, line: int) -> int:
        return find_upstream_line(self.module.source, self.text, line)

    def _note_missing(self, site: ImportSite, scope: Scope, local: str, shown: str) -> None:
        """Record a name that is read and not kept as missing."""
        if not self._is_read(scope, local) and scope.kind != "class":
            return
        uses = self.names.uses(scope, local)
        self.missing.append((shown, self._find_line(uses[0].line if uses else site.node.lineno)))

    # import a.b

    def _import(self, site: ImportSite) -> tuple[ImportLine, ...] | None:
        assert isinstance(site.node, ast.Import)
        lines: list[ImportLine] = []
        changed = False
        for alias in site.node.names:
            made = self._import_alias(site, alias)
            changed = changed or made != [ImportLine(alias.name, local=alias.asname)]
            lines += made
        return tuple(lines) if changed else None

    def _import_alias(self, site: ImportSite, alias: ast.alias) -> list[ImportLine]:
        top = alias.name.partition(".")[0]
        local = alias.asname or top
        if top != self.root:
            if top == "ray":
                return self._plan_ray(site, local)
            if alias.asname is None and "." in alias.name:
                keep = self._is_submodule_used(site, alias.name)
            else:
                keep = self._is_used(site.scope, local)
            if keep or self._is_kept_unused(site):
                unused = self._is_idle(site.scope, local)
                return [ImportLine(alias.name, local=alias.asname, unused=unused)]
            return []
        if alias.asname is None:
            return self._resolve_chains(site)
        if not self._is_used(site.scope, local):
            return []
        target = self._resolve(alias.name, None)
        if target is None:
            self._note_missing(site, site.scope, local, alias.name)
            return []
        self.redirected = True
        unused = self._is_idle(site.scope, local)
        if target.name is None:
            return [ImportLine(f"{self.package}.{target.module}", local=local, unused=unused)]
        return [ImportLine(f"{self.package}.{target.module}", ((target.name, local),), unused=unused)]

    def _resolve_chains(self, site: ImportSite) -> list[ImportLine]:
        """Resolve `import verl.a.b` by the chains that are used."""
        lines: dict[str, ImportLine] = {}
        for use in self.names.uses(site.scope, self.root):
            found = self._resolve_chain(use.chain)
            if found is None:
                self.missing.append((".".join(use.chain), self._find_line(use.line)))
                continue
            length, target = found
            home = f"{self.package}.{target.module}"
            self.chains[use.chain[:length]] = home if target.name is None else f"{home}.{target.name}"
            lines.setdefault(home, ImportLine(home))
        self.redirected = self.redirected or bool(lines)
        return list(lines.values())

    def _resolve_chain(self, chain: tuple[str, ...]) -> tuple[int, Target] | None:
        for length in range(len(chain), 1, -1):
            dotted = ".".join(chain[: length - 1])
            target = self._resolve(dotted, chain[length - 1])
            if target is not None:
                return length, target
        return None

    # from a import b

    def _import_from(self, site: ImportSite, node: ast.ImportFrom) -> tuple[ImportLine, ...] | None:
        imported = resolve_absolute(node, self.module.module, is_package=is_package(self.module.upstream_path))
        top = imported.partition(".")[0]
        if imported == "__future__":
            return None
        if top != self.root:
            if top == "ray":
                for alias in node.names:
                    self._plan_ray(site, alias.asname or alias.name)
                return ()
            return self._plan_external(site, node, imported)
        pairs = [(alias.name, alias.asname or alias.name) for alias in node.names]
        if pairs == [("*", "*")]:
            pairs = [(name, name) for name in self._expand_star(imported)]
        found: dict[tuple[str, bool], list[tuple[str, str]]] = {}
        for name, local in pairs:
            if not self._is_used(site.scope, local):
                continue
            target = self._resolve(imported, name)
            if target is None:
                self._note_missing(site, site.scope, local, f"{imported}.{name}")
                continue
            home, leaf = find_home(self.package, target)
            if target.name == local and target.module == name_module(self.module.target_path):
                continue
            if not self._is_first(site, local, f"{home}.{leaf}"):
                continue
            unused = self._is_idle(site.scope, local)
            found.setdefault((home, unused), []).append((leaf, local))
        self.redirected = self.redirected or bool(found)
        return tuple(ImportLine(home, tuple(names), unused=unused) for (home, unused), names in found.items())

    def _is_first(self, site: ImportSite, local: str, meaning: str) -> bool:
        """Return False if an earlier import already binds this."""
        if site.nested:
            return True
        earlier = self.seen.get(local)
        self.seen[local] = meaning
        return earlier != meaning

    def _plan_external(self, site: ImportSite, node: ast.ImportFrom, imported: str) -> tuple[ImportLine, ...] | None:
        if node.names[0].name == "*":
            return None
        every = [(alias.name, alias.asname or alias.name) for alias in node.names]
        if imported.partition(".")[0] != self.package:
            every = [pair for pair in every if pair[1] not in self.replaced]
        kept = [pair for pair in every if self._is_used(site.scope, pair[1])]
        if not kept and self._is_kept_unused(site):
            kept = every
        kept = [pair for pair in kept if self._is_first(site, pair[1], f"{imported}.{pair[0]}")]
        unused = any(self._is_idle(site.scope, local) for _, local in kept)
        if len(kept) == len(node.names) and not unused:
            return None
        return (ImportLine(imported, tuple(kept), unused=unused),) if kept else ()

    def _expand_star(self, imported: str) -> list[str]:
        """Return the names that a star import must bind."""
        wanted = [use.chain[0] for use in self.names.unbound()]
        wanted += sorted(self.module.reexports) + sorted(self.names.exported)
        found = []
        for name in dict.fromkeys(wanted):
            if name in self.names.module.bound or hasattr(builtins, name):
                continue
            if self._resolve(imported, name) is not None:
                self.names.adopt(name)
                found.append(name)
        return sorted(found)

    # what needs a name

    def _is_used(self, scope: Scope, name: str) -> bool:
        """Tell whether the name is read, re-exported or in `__all__`."""
        if scope.kind == "class" or self.names.uses(scope, name):
            return True
        return scope is self.names.module and (name in self.names.exported or name in self.module.reexports)

    def _is_read(self, scope: Scope, name: str) -> bool:
        """Tell whether code reads the name or others import it."""
        return bool(self.names.uses(scope, name)) or (scope is self.names.module and name in self.module.reexports)

    def _is_idle(self, scope: Scope, name: str) -> bool:
        """Return True if the module itself does not need the name."""
        mentioned = scope is self.names.module and name in self.names.exported
        return not (scope.kind == "class" or self.names.uses(scope, name) or mentioned)

    def _is_dead(self, node: ast.stmt) -> bool:
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
            if any(self._is_used(self.names.module, name) for name in bound):
                return False
        return imports_something

    def _is_kept_unused(self, site: ImportSite) -> bool:
        """Return the imports outside verl that stay although nothing reads them."""
        if site.checked:
            return True
        line = self.names.text.splitlines()[site.node.lineno - 1] if site.scope is not self.names.module else ""
        return "noqa" in line

    def _is_submodule_used(self, site: ImportSite, dotted: str) -> bool:
        """Tell whether `import a.b` is needed, for `a.b` or for `a`."""
        parts = tuple(dotted.split("."))
        top = parts[0]
        if not self._is_used(site.scope, top):
            return False
        if any(use.chain[: len(parts)] == parts or len(use.chain) == 1 for use in self.names.uses(site.scope, top)):
            return True
        if top in self.names.exported or top in self.module.reexports:
            return True
        for other in self.names.imports:
            if other is site or other.scope is not site.scope or not isinstance(other.node, ast.Import):
                continue
            for alias in other.node.names:
                parent = dotted.startswith(alias.name + ".") or (alias.name != dotted and other.ordinal < site.ordinal)
                if alias.asname is None and alias.name.partition(".")[0] == top and parent:
                    return False
        return True

    # elsewhere

    def _resolve(self, imported: str, name: str | None) -> Target | None:
        try:
            return self.resolver.resolve_import(self.module.module, imported, name)
        except NotKept:
            return None

    def _plan_ray(self, site: ImportSite, local: str) -> list[ImportLine]:
        """Drop imports of Ray; refuse checks for its presence."""
        if site.checked:
            raise CannotRewrite(
                self.module.upstream_path,
                self._find_line(site.node.lineno),
                f"checks whether Ray can be imported (as `{local}`)",
                hint="replace the definition that needs the check in the manifest",
            )
        return []
