"""The types that the index is made of."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Import:
    """One name that an import statement binds.

    Attributes:
        local: The name bound in the importing scope.
        module: Absolute dotted module that is imported.
        name: The name taken from it; None for `import module`; "*" for a star import.
        line: Line of the statement.
        dotted: True for `import a.b` without `as`: `local` is then "a", and attribute chains lead on.
    """

    local: str
    module: str
    name: str | None
    line: int
    dotted: bool = False


@dataclass(frozen=True)
class Statement:
    """One top-level statement of a module.

    Attributes:
        index: Position in the module's body.
        line, end_line: First and last line, decorators included.
        binds: Names it defines at module level; of imported names only those that a compound statement binds in more
            than one way (`if a: from x import f` / `else: from y import f`).
        imports: Module-level imports inside it (those in `if` and `try` blocks included).
        effect: True where it does something besides binding names.
        effect_on: For an effect on a name of the same module (`logger.setLevel(...)`), that name.
        node: The parsed statement.
    """

    index: int
    line: int
    end_line: int
    binds: tuple[str, ...]
    imports: tuple[Import, ...]
    effect: bool
    effect_on: str | None
    node: ast.stmt


@dataclass(frozen=True)
class Method:
    """One function in the body of a top-level class.

    Attributes:
        name: Its name; a property and its setter are two methods of one name.
        position: Index into the class's body.
        line, end_line: First and last line, decorators included.
        node: The parsed definition.
    """

    name: str
    position: int
    line: int
    end_line: int
    node: ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class MemberNames:
    """Names by which code may reach a member of an object.

    Attributes:
        any: Read from any object, used as a keyword, or named in a string.
        own: Read from `self`, `cls` or `super()`, or in the class's body.
        put_together: Names built at run time, a star for each value: f"get_{x}" is "get_*".
    """

    any: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    put_together: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Uses:
    """Holds what a statement, or a method, takes from elsewhere.

    Attributes:
        names: Names that it reads from its module's namespace, each with the attribute chains read from it:
            {"verl_F": {("masked_mean",)}, "torch": {("nn", "Module"), ()}}; () stands for the bare name.
        imports: Imports made inside its functions.
        chains: Attribute chains on the names that those imports bind.
        words: Names by which it may reach members of objects.
    """

    names: Mapping[str, frozenset[tuple[str, ...]]]
    imports: tuple[Import, ...]
    chains: Mapping[str, frozenset[tuple[str, ...]]]
    words: MemberNames
