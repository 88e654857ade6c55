"""A training script on its way: its objects and scopes, and what the modules beside this do for each other."""

from __future__ import annotations

import ast
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from extractor.importers.runs.places import Places
from extractor.importers.runs.python.states import Event, State, Ways, plain_of
from extractor.importers.runs.python.values import (
    Computed,
    Items,
    Listed,
    Object,
    Option,
    Own,
    OwnClass,
    OwnModule,
    Ref,
    Scope,
    Stops,
    TooLong,
)

T = TypeVar("T")
# How many statements anything may be followed for.
_LEAST = 300


@dataclass
class Run(ABC):
    """A script on its way; `follower` has the whole of it.

    Attributes:
        tree: The script.
        path: Of the script.
        given: What its command line says.
        places: Where it may have been started from; None: nowhere.
        noted: Last parts of names; whatever ends so is noted when it is called.
        sought: Those of them that the script is followed for, the first before the others.
        words: The arguments of its command; None: it is brought without one.
        everywhere: Whether what is sought is also looked for where the script does not go by its defaults.
        opens: Whether a config that is not here has whatever is looked for in it, as verl's has.
    """

    tree: ast.Module
    path: Path
    given: Mapping[str, Any]
    places: Places | None
    noted: Sequence[str]
    sought: Sequence[Sequence[str]]
    words: Sequence[str] | None = None
    everywhere: bool = False
    opens: bool = False
    state: State = field(default_factory=lambda: State({}))
    files: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    scopes: dict[int, Scope] = field(default_factory=dict)  # of functions that were entered
    trees: dict[Path, tuple[ast.Module, str]] = field(default_factory=dict)
    options: dict[str, Option] = field(default_factory=dict)  # that it has declared so far
    commands: dict[str, dict[str, Option]] = field(default_factory=dict)  # that it has, with options of their own
    command_option: str = ""  # that says which of them is asked for
    parser_of: dict[Any, str] = field(default_factory=dict)  # of its parsers the commands
    made_by: dict[Any, tuple[Any, tuple[Any, ...], Items]] = field(default_factory=dict)  # of functions and instances
    top: Scope = field(init=False)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    wanted: dict[tuple[str, ...], tuple[set[str], dict[str, set[str]]]] = field(default_factory=dict)
    modules: dict[Path, OwnModule] = field(default_factory=dict)
    depth: int = 0
    steps: int = 0
    limit: int = 20_000  # of steps
    imported: int = 0
    config_folder: Any = None  # of what Hydra composes, as the script has said last
    unnamed: list[str] = field(default_factory=list)  # files of configs of which the path is not known, as text

    def __post_init__(self) -> None:
        frame = self.new(Items({"__name__": "__main__", "__file__": self.path.resolve().as_posix()}, is_frame=True))
        self.top = Scope((frame.number,), self.path)

    # What the modules beside this one do for each other

    @abstractmethod
    def ends(self, body: Iterable[ast.stmt], scope: Scope) -> Ways:
        """Follow statements; return the state that there is at the end of each way that they may take."""

    @abstractmethod
    def result_of(self, body: Iterable[ast.stmt], scope: Scope) -> tuple[Any, ...]:
        """Follow a function or a module; return what it gives, or nothing where it ends the script."""

    @abstractmethod
    def value_of(self, node: ast.expr, scope: Scope) -> Any:
        """Return what an expression is worth where the script has come to; its text where only the script knows."""

    @abstractmethod
    def looked_up(self, name: str, scope: Scope) -> Any:
        """Return what a name stands for."""

    @abstractmethod
    def attribute(self, owner: Any, name: str, text: str) -> Any:
        """Return an attribute of a value; text where only the script knows."""

    @abstractmethod
    def bind(self, target: ast.expr, value: Any, scope: Scope, node: ast.expr | None = None) -> None:
        """Give a value to what stands left of an assignment."""

    @abstractmethod
    def call(self, node: ast.Call, scope: Scope) -> Any:
        """Return what a call gives."""

    @abstractmethod
    def enter(self, function: Own, given: Sequence[Any], named: Items, text: str) -> Any:
        """Return what a function of the script's gives, which is followed; text where only the script knows."""

    @abstractmethod
    def fields(self, kind: OwnClass) -> Items:
        """Return the fields of a dataclass, with their defaults."""

    @abstractmethod
    def base_of(self, kind: OwnClass) -> str | None:
        """Return the class of a library's that one of the script's comes from; None: it comes from none."""

    @abstractmethod
    def iterated(self, value: Any) -> list[Any] | None:
        """Return what a loop over a value goes over; None where that is not known."""

    # Objects

    def new(self, made: Object) -> Ref:
        """Return a new object."""
        number = next(self._numbers)
        self.state.objects[number] = made
        return Ref(number)

    def opened(self, found: Items, key: Any) -> Any:
        """Return what is under a key of a config that is not here: another one."""
        if key not in found.items:
            found.items[key] = self.new(Items(maker=found.maker, is_open=True, is_whole=False))
        return found.items[key]

    def names_in(self, path: Path) -> dict[Any, str]:
        """Return what the functions and classes are called at the top of a file that was followed."""
        number = self.top.frames[0] if path == self.path else self.modules[path].frame
        named = self.state.frame(number).items.items() if number in self.state.objects else ()
        return {value: name for name, value in named if isinstance(value, (Own, OwnClass))}

    def entered(self, value: Any, maker: str = "") -> Any:
        """Return what a config file has as the script's own objects.

        Args:
            value: As Python has it.
            maker: What makes objects of its dicts; "": nothing.
        """
        if isinstance(value, dict):
            return self.new(Items({key: self.entered(item, maker) for key, item in value.items()}, maker=maker))
        if isinstance(value, list):
            return self.new(Listed([self.entered(item, maker) for item in value]))
        if isinstance(value, (str, int, float, bool, type(None))):
            return value
        return Computed(str(value))

    def in_a_share(self, follow: Callable[[], T]) -> tuple[T, ...]:
        """Follow something as long as half of what is left allows; return what comes of it, or nothing.

        Raises:
            TooLong: nothing is left.
        """
        whole = self.limit
        self.limit = min(whole, self.steps + max(_LEAST, (whole - self.steps) // 2))
        try:
            return (follow(),)
        except TooLong:
            if self.steps >= whole:
                raise
            return ()
        finally:
            self.limit = whole

    def items_of(self, ref: Ref) -> Items:
        """Return the dict, or the names, that an object is."""
        found = self.state.of(ref)
        assert isinstance(found, Items)
        return found

    def copied(self, value: Any, known: dict[Any, Ref] | None = None) -> Any:
        """Return a copy of an object, with copies of what is in it.

        Args:
            value: The object.
            known: What has a copy already.
        """
        found, known = self.state.of(value), {} if known is None else known
        if found is None or value in known:
            return known.get(value, value)
        made = found.copy()
        known[value] = self.new(made)
        if isinstance(made, Items):
            made.items = {key: self.copied(item, known) for key, item in made.items.items()}
        elif isinstance(made, Listed):
            made.items = [self.copied(item, known) for item in made.items]
        return known[value]

    def plain(self, value: Any, node: ast.expr | None = None) -> Any:
        """Return a value as Python has it; `Computed` where it is not known."""
        return plain_of(value, self.state, node)

    def value_in(self, node: ast.expr, tree: ast.Module | None = None, functions: Sequence[ast.AST] = ()) -> Any:
        """Return what an expression is worth in the end, as Python has it.

        Args:
            node: The expression.
            tree: The module that it stands in; None: the script.
            functions: Those that it stands in, from the outermost.
        """
        found = [self.scopes[id(item)] for item in functions if id(item) in self.scopes]
        modules = [file for file, (other, _) in self.trees.items() if other is tree]
        top = Scope((self.modules[modules[0]].frame,), modules[0]) if modules else self.top
        try:
            return self.plain(self.value_of(node, found[-1] if found else top), node)
        except (Stops, TooLong):
            return Computed(ast.unparse(node))
