"""Recognise a copy of verl and its original release."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from extractor.importers.adopt.actor_losses import find_actor_loss
from extractor.importers.adopt.differences import Compared, compare
from extractor.importers.adopt.find_methods import LOSS, ForkMethod, find_methods
from extractor.importers.adopt.findings import Copy, Score
from extractor.importers.adopt.fork_code import ForkCode
from extractor.importers.adopt.locate import locate
from extractor.importers.adopt.method_hooks import has_loss_choice
from extractor.importers.python_text.segments import decode, restore_upstream_names
from extractor.pipeline.source import Source, open_source
from extractor.values import releases
from extractor.values.errors import SourceError, UsageError
from extractor.values.manifest import SourcePin

_LEAST = 0.1
# Copies that are nearest to the oldest supported release, and no nearer than so, may be of an older one.
_OLDER = 0.98
# Releases besides the nearest one whose text an edit may have been made in.
_BASES = 4
# Somebody's files that merely have the places and names of some of verl's are fewer than this share of its files.
_FEW_FILES = 0.1
_ALGORITHMS, _ACTOR = "verl/trainer/ppo/core_algos.py", "verl/workers/actor/dp_actor.py"


@dataclass(frozen=True)
class Recognised:
    """A copy of verl and the release it was made from.

    Attributes:
        copy: Where it lies.
        scores: How near it is to each release that could be read, the nearest first.
        source: The release that the project is of: the nearest, or the first later one that has losses to choose among.
        newer: Supported releases that are newer, oldest first.
        unread: Releases that could not be read, with the reason.
        older: How near it is to the release that it was made from, where that is too old for a project.
        bases: Other releases that it may have parts of, the nearest first.
        actors: Texts of upstream's actor.
    """

    copy: Copy
    scores: tuple[Score, ...]
    source: Source = field(repr=False)
    newer: tuple[str, ...]
    unread: tuple[str, ...]
    older: Score | None
    bases: tuple[Source, ...] = field(repr=False)
    actors: tuple[str, ...] = field(repr=False)

    @property
    def score(self) -> Score:
        """Return the score of the matched release."""
        return self.scores[0]

    @cached_property
    def compared(self) -> dict[str, Compared]:
        """Return the modules that differ from the release, by upstream's path."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler's remarks on upstream's code, such as invalid escapes
            return compare(self.copy, self.source, self.bases)

    @cached_property
    def code(self) -> ForkCode:
        """Return all modules of the fork."""
        files = self.source.files.items()
        return ForkCode(self.copy, "\n".join(decode(data) or "" for path, data in files if path.endswith(".yaml")))

    @cached_property
    def methods(self) -> list[ForkMethod]:
        """Return the estimators and losses that only the fork has."""
        return _find_all_methods(self.code, self.actors)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return doubts about the match: unread releases or few verl files."""
        score = self.score
        there = score.identical + score.edited
        if there >= _FEW_FILES * (there + score.missing):
            return self.unread
        files = "1 file" if there == 1 else f"{there} files"
        doubt = f"{self.copy.root} has {files} of verl's {there + score.missing}: is it your copy of verl?"
        return (*self.unread, doubt)


def recognise(
    directory: Path, release: str | None, *, offline: bool = False, say: Callable[[str], None] = lambda step: None
) -> Recognised:
    """Find the copy of verl in a directory, and its release.

    Raises:
        UsageError: there is no copy of verl in it.
        SourceError: no release could be read.
    """
    known = releases.list_supported()
    wanted = [releases.load(item).pin for item in ([release] if release is not None else known)]
    sources, unread = _read(wanted, offline, say)
    if not sources:
        raise unread[-1][1]
    say("looking for the copy")
    copy = locate(directory, sources)
    say("comparing it with the releases")
    found = _score_releases(copy, sources)
    nearest = found[0].release
    if found[0].similarity < _LEAST and release is None:
        raise UsageError(
            f"{copy.root}: too far from every supported release ({found[0].similarity:.0%} of verl {nearest})",
            hint="pass --verl RELEASE to compare it with that release anyway",
        )
    before: tuple[Score, ...] = ()
    if nearest == known[0] and found[0].similarity < _OLDER:
        older, more = _read(releases.list_older(), offline, say)
        unread += more
        before = tuple(score for score in _score_releases(copy, older) if score.similarity > found[0].similarity)
        sources |= older
    source = sources[nearest]
    actors = tuple(item.read(_ACTOR) for item in sources.values() if _ACTOR in item.files)
    if release is None:
        later = [sources[item] for item in known[known.index(nearest) :] if item in sources]
        with_losses = next((item for item in later if has_loss_choice([item.read(_ALGORITHMS)])), source)
        methods = _find_all_methods(ForkCode(copy), actors) if with_losses is not source else []
        if any(item.kind == LOSS for item in methods):
            source, nearest = with_losses, with_losses.release
    # What only other releases have is among the copy's own files.
    files = {path: data for path, data in copy.files.items() if path in source.files}
    others = {path: data for path, data in copy.files.items() if path not in source.files and path.endswith(".py")}
    return Recognised(
        copy=replace(copy, files=files, own=dict(sorted({**copy.own, **others}.items()))),
        scores=found,
        source=source,
        newer=known[known.index(nearest) + 1 :],
        unread=tuple(f"verl {item} was not compared: {error.message}" for item, error in unread),
        older=before[0] if before else None,
        bases=tuple(sources[score.release] for score in [*before, *found[1:]][:_BASES]),
        actors=actors,
    )


def _find_all_methods(code: ForkCode, actors: Iterable[str]) -> list[ForkMethod]:
    """Return the fork's methods; what its actor's loss calls is part of that."""
    found = find_methods(code)
    actor = find_actor_loss(code, actors, [item for item in found if item.kind == LOSS])
    if actor is None:
        return found
    text = actor.module.by_name[actor.function].core
    parts = [item for item in found if item.kind == LOSS and not item.registered and f"{item.function}(" in text]
    return [*(item for item in found if item not in parts and (item.kind, item.name) != (LOSS, actor.name)), actor]


def _read(
    pins: Iterable[SourcePin], offline: bool, say: Callable[[str], None]
) -> tuple[dict[str, Source], list[tuple[str, SourceError]]]:
    """Open releases; return the readable ones, and errors of the others."""
    sources, unread = {}, []
    for pin in pins:
        say(f"reading verl {pin.release}")
        try:
            sources[pin.release] = open_source(pin, offline=offline)
        except SourceError as error:
            unread.append((pin.release, error))
    return sources, unread


def _score_releases(copy: Copy, sources: Mapping[str, Source]) -> tuple[Score, ...]:
    """Score every release, nearest first; of equals the newer."""
    theirs = {
        path: _count_lines(restore_upstream_names(decode(data) or "", copy.prefixes))
        for path, data in copy.files.items()
        if path.endswith(".py")
    }
    total = sum(lines.total() for lines in theirs.values())
    found = []
    for release, source in sources.items():
        modules = {path: data for path, data in source.files.items() if path.endswith(".py")}
        pairs = [(_count_lines(decode(data) or ""), theirs[path]) for path, data in modules.items() if path in theirs]
        common = sum((lines & ours).total() for lines, ours in pairs)
        size = sum(lines.total() for lines, _ in pairs)
        identical = sum(lines == ours for lines, ours in pairs)
        similarity = 2 * common / max(total + size, 1)
        found.append(Score(release, similarity, identical, len(pairs) - identical, len(modules) - len(pairs)))
    found.reverse()
    return tuple(sorted(found, key=lambda score: -score.similarity))


def _count_lines(text: str) -> Counter[str]:
    return Counter(line for line in map(str.rstrip, text.split("\n")) if line)
