"""The types of a search and of its result."""

import ast
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from extractor.pipeline.index import Index
from extractor.values import readers
from extractor.values.manifest import Manifest


@dataclass(frozen=True)
class Target:
    """Says where an upstream name lives in the generated package.

    Attributes:
        module: Dotted module relative to the package ("vendored.algorithms.core_algos", "shims.stand_ins").
        name: The symbol in that module, or None where the module itself is meant.
    """

    module: str
    name: str | None


@dataclass(frozen=True)
class Substitute:
    """Describes a definition of a kept module replaced by our import.

    Attributes:
        statement: Index into `ast.parse(source).body` of the definition that is replaced.
        name: The name that the definition binds and that the import must bind.
        target: What is imported instead.
    """

    statement: int
    name: str
    target: Target


@dataclass(frozen=True)
class Stub:
    """A symbol of a missing feature; calling it raises.

    Attributes:
        name: The name that the stub binds.
        symbol: The upstream symbol, "module:name".
        feature: The feature that would bring it.
    """

    name: str
    symbol: str
    feature: str


@dataclass(frozen=True, order=True)
class Edge:
    """Why a symbol is in the slice.

    Attributes:
        symbol: The symbol, "module:name", or a method of one, "module:Class.method".
        origin: What pulled it in: another symbol, a method, "role NAME" for a root, or "the project's own code".
        how: "root", "uses", "imports lazily", "registers", "effect" or "triggers"; for a method also "names" (uses
            its name), "holds" (of a class: others may call it), "is overridden by" or "asks for".
        line: Line in the origin's module, 0 for a root.
    """

    symbol: str
    origin: str
    how: str
    line: int


class Resolver(Protocol):
    """Says where the names of import statements went."""

    def resolve_import(self, importer: str, imported: str, name: str | None) -> Target | None:
        """Resolve `import imported` (name is None) or `from imported import name`.

        Args:
            importer: Dotted upstream module that holds the statement ("verl.workers.actor.dp_actor").
            imported: Absolute dotted module ("verl.utils.device"), relative imports already made absolute.
            name: The imported name, or None for `import imported`.

        Returns:
            The target in the generated package; None where the name is not of verl (keep the import as it is).

        Raises:
            NotKept: the name is of verl but was not kept: fine for an import that nothing kept uses.
        """
        ...


class NotKept(LookupError):
    """An upstream name that is not part of the slice."""


@dataclass(frozen=True)
class KeptModule:
    """One upstream module of which at least one symbol stays.

    Attributes:
        module: Dotted upstream name ("verl.trainer.ppo.core_algos").
        upstream_path: Path in verl's source tree ("verl/trainer/ppo/core_algos.py").
        upstream_sha256: Hex digest of the upstream file.
        target_path: Path in the package ("vendored/algorithms/core_algos.py").
        source: The upstream text.
        kept: Indices into `ast.parse(source).body` of
            one line) of statements that stay. Import statements are always listed; the rewrite prunes unused names.
        substitutes: Definitions that give way to an import of ours.
        reexports: Imported names that must stay although this module does not use them (others reach them through it).
        fixes: Ids of the manifest's named fixes that apply to this module, sorted.
        dropped: Classes of which methods go: the class's index into that body, and theirs into the body of the class.
        parsed: `ast.parse(source).body`, for whoever would otherwise parse the text again; empty: not at hand.
    """

    module: str
    upstream_path: str
    upstream_sha256: str
    target_path: str
    source: str
    kept: tuple[int, ...]
    substitutes: tuple[Substitute, ...] = ()
    reexports: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    dropped: tuple[tuple[int, tuple[int, ...]], ...] = ()
    parsed: tuple[ast.stmt, ...] = field(default=(), compare=False, repr=False)

    @property
    def body(self) -> Sequence[ast.stmt]:
        """Return the statements that indices count."""
        return self.parsed or readers.parse_python(self.source).body


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
class SearchState:
    """The kept statements and how they were reached.

    Attributes:
        index, manifest: What is searched, and what is known about it.
        edges, replaced, stubs, effects, warnings: As in `Slice`.
        used_by: Symbol -> the parts that use it.
        kept: Module -> the statements that stay.
        substitutes, reexports: Module -> as in `KeptModule`.
        pending: Parts that nobody has looked at yet.
    """

    index: Index
    manifest: Manifest
    edges: dict[str, Edge] = field(default_factory=dict)
    replaced: dict[str, Target] = field(default_factory=dict)
    stubs: dict[str, Stub] = field(default_factory=dict)
    effects: set[str] = field(default_factory=set)
    warnings: set[str] = field(default_factory=set)
    used_by: dict[str, set[str]] = field(default_factory=dict)
    kept: dict[str, set[int]] = field(default_factory=dict)
    substitutes: dict[str, set[Substitute]] = field(default_factory=dict)
    reexports: dict[str, set[str]] = field(default_factory=dict)
    pending: deque[Part] = field(default_factory=deque)

    def keep_module(self, module: str) -> None:
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
