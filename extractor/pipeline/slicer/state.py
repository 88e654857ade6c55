"""The state of a search."""

from collections import deque
from dataclasses import dataclass, field

from extractor.pipeline.index import Index
from extractor.pipeline.slicer.slice import Edge, Stub, Substitute, Target
from extractor.values.manifest import Manifest


@dataclass(frozen=True)
class Part:
    """Names a statement or a class's method to follow.

    Attributes:
        module: Dotted name of the module.
        statement: Index of the statement.
        method: Position in the body of that class; None for the statement without its methods.
        origin: The symbol that it belongs to, "module:name" or "module:Class.method", or the effect that it has.
        holder: For a part of a class whose methods are chosen one by one, that class.
    """

    module: str
    statement: int
    method: int | None
    origin: str
    holder: str = ""


@dataclass
class Found:
    """The kept statements and how they were reached.

    Attributes:
        index, manifest: What is searched, and what is known about it.
        lenient: Collect imports of modules that the source does not ship, and go on.
        edges, replaced, stubs, effects, warnings, dead_imports: As in `Slice`.
        users: Symbol -> the parts that use it.
        kept: Module -> the statements that stay.
        substitutes, reexports: Module -> as in `KeptModule`.
        pending: Parts that nobody has looked at yet.
    """

    index: Index
    manifest: Manifest
    lenient: bool = False
    edges: dict[str, Edge] = field(default_factory=dict)
    replaced: dict[str, Target] = field(default_factory=dict)
    stubs: dict[str, Stub] = field(default_factory=dict)
    effects: set[str] = field(default_factory=set)
    warnings: set[str] = field(default_factory=set)
    dead_imports: set[tuple[str, str]] = field(default_factory=set)
    users: dict[str, set[str]] = field(default_factory=dict)
    kept: dict[str, set[int]] = field(default_factory=dict)
    substitutes: dict[str, set[Substitute]] = field(default_factory=dict)
    reexports: dict[str, set[str]] = field(default_factory=dict)
    pending: deque[Part] = field(default_factory=deque)

    def touch(self, module: str, origin: str) -> None:
        """Mark a module as partly kept; keep its effects too."""
        if module in self.kept:
            return
        self.kept[module] = set()
        found = self.index[module]
        if found.is_package and module not in self.manifest.keep_effects:
            return
        for statement in found.statements:
            own = statement.effect_on is not None and statement.effect_on in found.bindings
            if statement.effect and not own and not statement.binds:
                place = f"{found.path}:{statement.line}"
                if place not in self.manifest.drop_effects:
                    self.effects.add(place)
                    self.keep(module, statement.index, f"effect of {module}")

    def keep(self, module: str, statement: int, origin: str) -> None:
        """Keep a statement, and queue what it uses."""
        kept = self.kept[module]
        if statement not in kept:
            kept.add(statement)
            self.pending.append(Part(module, statement, None, origin))

    def reexport(self, module: str, name: str) -> None:
        """Note that a module must offer a name that it imports."""
        self.reexports.setdefault(module, set()).add(name)
