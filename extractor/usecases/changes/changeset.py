"""The types of a comparison of two releases."""

from dataclasses import dataclass, field
from difflib import unified_diff
from enum import Enum

from extractor.values.errors import UsageError
from extractor.values.nearest import find_nearest


class ChangeKind(str, Enum):
    """Says how a symbol differs, the gravest that applies."""

    UNCHANGED = "unchanged"
    WORDING = "wording"
    BODY = "body"
    SIGNATURE = "signature"
    GONE = "gone"
    NEW = "new"


@dataclass(frozen=True)
class Place:
    """A symbol in one release.

    Attributes:
        symbol: "verl.trainer.ppo.core_algos:agg_loss".
        kind: "function", "class" or "value" (an assignment, or a definition inside `if` or `try`).
        upstream_path: The file of verl that holds it.
        path: The file in the package that holds it.
        line: First line in upstream's file, decorators included.
        text: Upstream's text.
    """

    symbol: str
    kind: str
    upstream_path: str
    path: str
    line: int
    text: str = field(repr=False)

    @property
    def name(self) -> str:
        """Return the symbol without its module."""
        return self.symbol.partition(":")[2]


@dataclass(frozen=True)
class SymbolChange:
    """One vendored symbol in both releases.

    Attributes:
        change: How it differs.
        old: The symbol in the old release; None where it is new.
        new: The symbol in the new release; None where it is gone.
        details: What differs, one short sentence each: parameters, members, or for a gone symbol why.
        computing: What may compute other numbers: the symbol's name, or "Class.member".
    """

    change: ChangeKind
    old: Place | None
    new: Place | None
    details: tuple[str, ...] = ()
    computing: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """Return the symbol's place in the new release, else the old."""
        place = self.new or self.old
        assert place is not None
        return place

    @property
    def names(self) -> set[str]:
        """Return the symbol's names, symbol ids and paths in both releases."""
        places = [place for place in (self.old, self.new) if place is not None]
        return {name for place in places for name in (place.symbol, place.name, place.upstream_path, place.path)}

    def diff(self, old_release: str, new_release: str) -> str:
        """Return a unified diff of the symbol's text between both releases."""
        if self.old is None or self.new is None:
            return ""
        lines = unified_diff(
            self.old.text.splitlines(keepends=True),
            self.new.text.splitlines(keepends=True),
            f"verl-{old_release}/{self.old.upstream_path} {self.old.name}",
            f"verl-{new_release}/{self.new.upstream_path} {self.new.name}",
        )
        return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


@dataclass(frozen=True)
class LostKey:
    """Records a removed config key and its new name, if known."""

    key: str
    renamed_to: str | None


@dataclass(frozen=True)
class DefaultChange:
    """A config key whose default is another one, both as YAML."""

    key: str
    old: str
    new: str


@dataclass(frozen=True)
class KeyChanges:
    """The keys of one config tree.

    Attributes:
        gained: Keys that only the new one has, sorted; a new section stands for all that is in it.
        lost: Keys that only the old one has.
        defaults: Keys of both whose default changed.
    """

    gained: tuple[str, ...]
    lost: tuple[LostKey, ...]
    defaults: tuple[DefaultChange, ...]


@dataclass(frozen=True)
class OwnerKey:
    """Records a use of a removed or unread key in the owner's config.

    Attributes:
        file: The owner's file.
        line: Line in it.
        key: The whole dotted key.
        renamed_to: Its new name, where one is known.
        reference: True for an interpolation, `${old.key}`; False where the file sets the key.
        unread: True where the key is there, and nothing reads its value.
    """

    file: str
    line: int
    key: str
    renamed_to: str | None
    reference: bool = False
    unread: bool = False

    @property
    def problem(self) -> str:
        """Say what is wrong with it, and its new name."""
        if self.unread:
            return f"nothing reads this value of {self.key} any more"
        what = f"refers to {self.key}, which" if self.reference else self.key
        return f"{what} no longer exists{f'; now {self.renamed_to}' if self.renamed_to else ''}"


@dataclass(frozen=True)
class Changes:
    """Holds what changed in the code that a project vendors.

    Attributes:
        old, new: Releases.
        symbols: Every vendored symbol of either release, by file and in upstream's order.
        project_keys: Keys of the project's own config.
    """

    old: str
    new: str
    symbols: tuple[SymbolChange, ...]
    project_keys: KeyChanges

    def named(self, names: tuple[str, ...]) -> tuple[SymbolChange, ...]:
        """Return the symbols of these names or files; all without names.

        Raises:
            UsageError: nothing is called that.
        """
        known = {name for item in self.symbols for name in item.names}
        for name in names:
            if name not in known:
                near = find_nearest(name, known)
                hint = f"did you mean `{near[0]}`?" if near else f"run `vextract changes {self.old} {self.new}` for all"
                raise UsageError(f"neither release's project vendors anything called {name!r}", hint=hint)
        return tuple(item for item in self.symbols if not names or item.names & set(names))

    def counts(self) -> dict[ChangeKind, int]:
        """Count how many symbols there are of each kind of change."""
        return {change: sum(item.change is change for item in self.symbols) for change in ChangeKind}
