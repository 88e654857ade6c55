"""A copied file as a project has it, and what copies need besides themselves."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Copied:
    """A file of the run as the project has it.

    Attributes:
        text: With its imports redirected, without what cannot be had and nothing needs.
        missing: What it needs and cannot have, each with why.
        left_out: Definitions that were left out.
        packages: What it imports that a project does not require.
        absent: What it, or what it imports, may import in functions or on conditions and cannot have, each with why.
    """

    text: str = field(repr=False)
    missing: tuple[str, ...]
    left_out: tuple[str, ...]
    packages: tuple[str, ...]
    absent: tuple[str, ...] = ()


@dataclass
class Gathered:
    """What copies need besides themselves.

    Attributes:
        taken: Why a module cannot be had; None where it can.
        files: By path below the package.
        packages: That a project does not require.
        absent: What need not be had, and cannot be.
        parts: Modules of which only a part can be had, or is had without a package: the names it was asked for.
    """

    taken: dict[str, str | None] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    parts: dict[str, set[str]] = field(default_factory=dict)

    def copy(self) -> Gathered:
        """Return another that holds the same."""
        return Gathered(dict(self.taken), dict(self.files), set(self.packages), set(self.absent), dict(self.parts))
