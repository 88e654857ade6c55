"""Which release a copy of verl is nearest to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from extractor.importers.adopt.findings import Copy, Score
from extractor.importers.adopt.upstream_names import decoded, with_upstream_names
from extractor.pipeline.source import Source


def scores(copy: Copy, sources: Mapping[str, Source]) -> tuple[Score, ...]:
    """Score every release, the nearest first; of equals the newer one (`sources` are in order of release)."""
    theirs = {
        path: _counted(with_upstream_names(decoded(data) or "", copy.prefixes))
        for path, data in copy.files.items()
        if path.endswith(".py")
    }
    total = sum(sum(lines.values()) for lines in theirs.values())
    found = []
    for release, source in sources.items():
        common = size = identical = edited = missing = 0
        for path, data in source.files.items():
            if not path.endswith(".py"):
                continue
            ours = theirs.get(path)
            if ours is None:
                missing += 1
                continue
            lines = _counted(decoded(data) or "")
            size += sum(lines.values())
            if lines == ours:
                identical += 1
                common += sum(lines.values())
            else:
                edited += 1
                common += sum((lines & ours).values())
        found.append(Score(release, 2 * common / max(total + size, 1), identical, edited, missing))
    found.reverse()
    return tuple(sorted(found, key=lambda score: -score.similarity))


def _counted(text: str) -> Counter[str]:
    return Counter(line for line in map(str.rstrip, text.split("\n")) if line)
