"""What the names of a training script stand for as it goes: values, and objects that can change."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# How long a text or a list may get.
LONGEST = 100_000
# How deep sections of a config may lie in each other.
DEEPEST = 30


class Computed(str):
    """The text of an expression that only the script knows the value of."""


class Either(Computed):
    """One thing or another, by what only the script knows.

    Attributes:
        parts: The two.
    """

    parts: tuple[Any, ...] = ()

    @classmethod
    def of(cls, text: str, *parts: Any) -> Either:
        """Return one of some values.

        Args:
            text: How it is shown.
            parts: The values.
        """
        found = cls(text)
        found.parts = parts
        return found


class Unsaid(Computed):
    """An option that the command line may say, and does not: None to the script."""


class Opened(str):
    """The path of a file that is open."""


class FilePath(str):
    """A path, as `pathlib` has them: its text."""


class Anything:
    """Has whatever is looked for in it: the names that a config of TRL's takes."""

    def __contains__(self, item: object) -> bool:
        return True


@dataclass(frozen=True)
class Ref:
    """An object of the script's: its number among those that there are."""

    number: int


@dataclass(frozen=True)
class Outside:
    """Something of Python's or of a library's, by its dotted name."""

    name: str


@dataclass(frozen=True)
class Scope:
    """Where names are looked up: the numbers of frames, from the innermost; and the file.

    Attributes:
        frames: The last is the module's.
        path: Of the file.
    """

    frames: tuple[int, ...]
    path: Any

    def inner(self, frame: int) -> Scope:
        """Return the scope of something in it."""
        return Scope((frame, *self.frames), self.path)


@dataclass(frozen=True)
class Own:
    """A function of the script's, perhaps a method of an object."""

    node: Function
    scope: Scope
    owner: Any = None


@dataclass(frozen=True)
class OwnClass:
    """A class of the script's: its bases and the frame of its body."""

    node: ast.ClassDef
    bases: tuple[Any, ...]
    frame: int
    scope: Scope


@dataclass(frozen=True)
class OwnModule:
    """A module of the script's own: the frame of what it defines."""

    frame: int
    name: str


@dataclass(frozen=True)
class Method:
    """A method of a value or an object that is none of the script's."""

    owner: Any
    name: str


@dataclass
class Items:
    """A dict, or the names of a frame.

    Attributes:
        items: By key.
        nodes: The expressions that they are from, as far as they are from one.
        is_frame: Whether it holds names: those that are given under a condition alone are used under it alone.
        is_whole: Whether it holds all that there is.
        doubtful: Those of the keys that something else may have been put under.
        maker: What makes an object of it whose attributes are the items, by name; "": it is a dict.
        is_open: Whether it has whatever else is looked for in it, as a config that is not here.
        origin: Of a config that is not here: how a command names it.
        unread: What was put into a config and is not known, as text.
    """

    items: dict[Any, Any] = field(default_factory=dict)
    nodes: dict[Any, ast.expr] = field(default_factory=dict)
    is_frame: bool = False
    is_whole: bool = True
    doubtful: frozenset[Any] = frozenset()
    maker: str = ""
    is_open: bool = False
    origin: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def copy(self) -> Items:
        """Return another one of the same."""
        return replace(self, items=dict(self.items), nodes=dict(self.nodes))

    def put(self, key: Any, value: Any, node: ast.expr | None = None) -> None:
        """Put a value under a key."""
        self.items[key] = value
        self.nodes.pop(key, None)
        if node is not None:
            self.nodes[key] = node
        self.doubtful -= {key}

    def pour(self, other: Object | None) -> None:
        """Put in what is in another dict; nobody knows what in one that is not known."""
        if not isinstance(other, Items) or not other.is_whole:
            self.doubtful |= self.items.keys()
            self.is_whole = False
        if isinstance(other, Items):
            for key, value in other.items.items():
                self.put(key, value, other.nodes.get(key))
            self.doubtful |= other.doubtful

    def get(self, key: Any) -> Any:
        """Return what is under a key.

        Raises:
            LookupError: there is nothing, or only the script knows what.
        """
        if key in self.doubtful:
            raise LookupError(key)
        return self.items[key]


@dataclass
class Listed:
    """A list or a set; not whole where only the script knows what is in it.

    Attributes:
        items: In order; of one that is not whole the first ones, perhaps.
        is_whole: Whether it holds all that there is.
        depends: The condition on which more is in it, as text; "": not known.
    """

    items: list[Any] = field(default_factory=list)
    is_whole: bool = True
    depends: str = ""

    def copy(self) -> Listed:
        """Return another one of the same."""
        return Listed([*self.items], self.is_whole, self.depends)

    def extend(self, more: Sequence[Any] | None) -> None:
        """Add items, unless it gets too long; None: nobody knows which."""
        is_known = more is not None and len(more) + len(self.items) <= LONGEST
        self.items += [*(more or ())] if is_known else []
        self.is_whole = self.is_whole and is_known


@dataclass
class Made:
    """What a call of a class or a function gives that the script has from elsewhere, or an instance of its classes.

    Attributes:
        of: The dotted name of what is called.
        given: Arguments by position.
        named: Arguments by name.
        node: The call.
        kind: The script's class; None: a library's.
        owner: Of a method: whose.
        is_parsed: Whether it is filled from the command line.
        defaults: What the script's class has for what is not said.
    """

    of: str
    given: tuple[Any, ...]
    named: Items
    node: ast.expr
    kind: OwnClass | None = None
    owner: Any = None
    attributes: Items = field(default_factory=Items)
    is_parsed: bool = False
    defaults: Items = field(default_factory=Items)

    def copy(self) -> Made:
        """Return another one of the same."""
        return replace(self, named=self.named.copy(), attributes=self.attributes.copy())


Object: TypeAlias = Items | Listed | Made


@dataclass(frozen=True)
class Option:
    """An option of a script's.

    Attributes:
        default: Where the command line does not say it.
        kind: What makes a value of its text: a name, or a function of the script's; None: nothing.
        flags: By which a command says it, none where it does so by its place; None: it cannot.
        offs: Flags that say the opposite.
        action: What becomes of what follows, as argparse calls it.
        nargs: How many words follow, as argparse takes it.
        const: What it is where none follows.
    """

    default: Any
    kind: Any = None
    flags: tuple[str, ...] | None = None
    offs: tuple[str, ...] = ()
    action: str = "store"
    nargs: Any = None
    const: Any = None


class Start(Items):
    """No arguments: those of a function that nothing in a script calls, which has its defaults."""


class Stops(Exception):
    """A way of a script ends: by an error, or because it has ended."""


class TooLong(Exception):
    """A script is not followed any further."""
