"""How much of each manifest scripts/draft.py writes by itself, told by the release before it alone."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from extractor.pipeline.source import open_source
from extractor.usecases.draft import fit
from extractor.values import releases
from extractor.values.manifest import combine
from scripts.draft import difference, draft


@dataclass(frozen=True)
class Record:
    """A draft against the manifest that was written for the release.

    Attributes:
        release, follows: The two releases.
        inferred: Statements that both have.
        by_hand: Statements that only the real one has.
        taken_back: Statements that only the draft has.
        todo: Remarks on which a person has to decide.
    """

    release: str
    follows: str
    inferred: tuple[str, ...]
    by_hand: tuple[str, ...]
    taken_back: tuple[str, ...]
    todo: int

    @property
    def share(self) -> float:
        """Say how much of the real one was inferred."""
        return len(self.inferred) / max(len(self.inferred) + len(self.by_hand), 1)


def run() -> bool:
    """Print a row per release that follows another one, and what had to be done by hand."""
    print("| verl | after | inferred | by hand | taken back | share inferred | TODO |")
    print("|---|---|---|---|---|---|---|")
    records = [record(release) for release in releases.list_supported()[1:]]
    for item in records:
        print(
            f"| {item.release} | {item.follows} | {len(item.inferred)} | {len(item.by_hand)} | {len(item.taken_back)} "
            f"| {item.share:.0%} | {item.todo} |"
        )
    for item in records:
        print(f"\n### {item.release}")
        for title, lines in (("by hand", item.by_hand), ("taken back", item.taken_back)):
            for line in lines:
                print(f"- {title}: {line}")
    return True


def record(release: str) -> Record:
    """Draft a release from the one before it, and compare with its manifest."""
    known = releases.list_supported()
    follows = known[known.index(release) - 1]
    print(f"drafting {release} after {follows}", file=sys.stderr)
    real = releases.load(release)
    old, new = open_source(releases.load(follows).pin), open_source(real.pin)
    made = draft(fit(follows, old, new))
    before = releases.merge_predecessors(follows)
    drafted = set(statements(before, combine(before, made.stated)))
    written = set(statements(before, releases.merge_predecessors(release)))
    return Record(
        release,
        follows,
        tuple(sorted(drafted & written)),
        tuple(sorted(written - drafted)),
        tuple(sorted(drafted - written)),
        len(made.todo),
    )


def statements(before: dict[str, Any], whole: dict[str, Any]) -> Iterator[str]:
    """List what a manifest states beyond the one before it, a line for each thing said, in any order."""
    for line in _leaves(difference(before, whole), ""):
        # These are the same in every manifest.
        if not line.startswith(("follows", "schema")):
            yield line


def _named(entry: dict[str, Any]) -> str:
    engine = f" ({entry['engine']})" if "engine" in entry else ""
    return f"{entry.get('id') or entry.get('symbol')}{engine}"


def _leaves(value: object, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for part in value:
            # A fix or a replacement is one statement.
            yield f"{path}: {_named(part)}" if isinstance(part, dict) else f"{path}: {part}"
    else:
        yield f"{path}: {value}"
