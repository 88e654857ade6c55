"""The types of a check of a manifest."""

from dataclasses import dataclass
from enum import Enum


class Kind(str, Enum):
    """Says what no longer holds."""

    ROOT = "root"
    MODULE = "module"
    REPLACEMENT = "replacement"
    SIGNATURE = "signature"
    CUT = "cut"
    SWAP = "replaced"
    LAYOUT = "layout"
    FIX_MODULE = "module of a fix"
    FIX_EDIT = "edit of a fix"
    FIX_SWAP = "replaced by a fix"
    IMPORT = "import"
    REWRITE = "rewriting"


@dataclass(frozen=True)
class Suggestion:
    """A place in the source that may have taken something's part.

    Attributes:
        place: "module:name", a module, or a path.
        score: From 0 to 1: the share of the code that both have; None where there is nothing to compare.
        why: What the score is about.
    """

    place: str
    score: float | None
    why: str

    def __str__(self) -> str:
        return f"{self.place} ({self.why})"


@dataclass(frozen=True)
class Finding:
    """Something that the manifest says and that does not hold.

    Attributes:
        kind: What it is.
        where: The manifest's key: "roles.actor", "features.lora", "fixes.actor-autocast-dtype", "layout".
        subject: The symbol, module, path or pattern.
        problem: What is wrong with it, in a few words.
        suggestions: Where it may have gone, the best first.
        moved: The suggestion that is so good that it is taken.
        edit, count: For an edit of a fix, its number from 0, and how often it matches.
    """

    kind: Kind
    where: str
    subject: str
    problem: str
    suggestions: tuple[Suggestion, ...] = ()
    moved: str | None = None
    edit: int = 0
    count: int = 0

    def __str__(self) -> str:
        return f"{self.kind.value:22}  {self.where}: {self.subject} {self.problem}"
