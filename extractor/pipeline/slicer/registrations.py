"""Keep what a kept registry holds."""

from extractor.pipeline.slicer.definitions import Definitions
from extractor.pipeline.slicer.follow import Follower
from extractor.pipeline.slicer.members import Members
from extractor.pipeline.slicer.state import Found


class Registrations:
    """Keeps registered functions and classes, and the imports that register them.

    Args:
        found: What was found so far.
        follower: Follows what is registered.
        definitions: Finds where decorators lead.
        members: Says which attributes of a class are read.
    """

    def __init__(self, found: Found, follower: Follower, definitions: Definitions, members: Members) -> None:
        self._found = found
        self._follower = follower
        self._definitions = definitions
        self._members = members
        self._registrants: set[tuple[str, str, str]] = set()

    def keep_registrants(self) -> bool:
        """Keep registrants of kept modules whose registry is read."""
        before = len(self._found.edges)
        for name in sorted(self._found.kept):
            module = self._found.index[name]
            for statement in module.statements:
                for chain in module.decorators(statement.index):
                    registry = self._definitions.define(name, chain[0])
                    if registry.kind != "local":
                        continue
                    kept = self._read_containers(registry.module, registry.name)
                    if kept:
                        for bound in statement.binds:
                            found = self._definitions.define(name, bound)
                            if found.kind == "local":
                                origin = f"{registry.module}:{kept[0]}"
                                self._follower.follow_symbol(name, bound, origin, "registers", statement.line)
                                self._registrants.add((name, bound, registry.module))
        return len(self._found.edges) != before or bool(self._found.pending)

    def _read_containers(self, module: str, decorator: str) -> list[str]:
        """Return the registries that something else reads, sorted."""
        registering = self._found.index[module].registering
        storing = {f"{module}:{name}" for name in registering}
        found = []
        for container in sorted(registering.get(decorator, ())):
            holder, _, attribute = container.partition(".")
            readers = self._found.users.get(f"{module}:{container}", set()) - storing
            if readers or (attribute and self._members.is_read(f"{module}:{holder}", attribute)):
                found.append(holder)
        return found

    def keep_triggers(self) -> bool:
        """Keep the imports whose only purpose is that a registration runs."""
        changed = False
        for module, _, registry in sorted(self._registrants):
            if module == registry:
                continue
            parts = module.split(".")
            packages = [".".join(parts[:length]) for length in range(1, len(parts))]
            for holder in sorted({*packages, *self._found.kept}):
                if holder not in self._found.index or holder == module:
                    continue
                for item in self._found.index[holder].imports.values():
                    if not f"{module}.".startswith(f"{item.module}."):
                        continue
                    found = self._definitions.define(holder, item.local)
                    if found.module == module and item.local not in self._found.reexports.get(holder, ()):
                        if found.kind == "local" and f"{module}:{found.name}" not in self._found.edges:
                            continue
                        if holder in packages or item.name is None:
                            self._found.touch(holder, f"registration in {module}")
                            self._found.reexport(holder, item.local)
                            changed = True
        return changed
