"""Choose the options that a project has after an upgrade."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from extractor.pipeline.generate import complete, refuse_needed_features
from extractor.values import releases
from extractor.values.errors import UsageError
from extractor.values.manifest import Manifest
from extractor.values.options import Options


@dataclass(frozen=True)
class UpgradeRequest:
    """The options that the owner asks for; others stay.

    Attributes:
        release: Release of verl. None: the newest supported one, or the present one where other options change.
        engine, algorithm: As for a new project.
        added, dropped: Features.
        roots, no_roots: Symbols and files of verl to vendor besides, and to vendor no longer.
    """

    release: str | None = None
    engine: str | None = None
    algorithm: str | None = None
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    dropped_roots: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a path in place of a feature's name."""
        for name in (*self.added, *self.dropped):
            if "/" in name or name.startswith("."):
                raise UsageError(f"{name!r} is the name of no feature", hint=f"give the project by `--project {name}`")

    @classmethod
    def from_names(cls, added: Iterable[str] = (), dropped: Iterable[str] = ()) -> UpgradeRequest:
        """Build a request that adds or drops features and verl symbols."""
        (added, roots), (dropped, no_roots) = _sort_out(added), _sort_out(dropped)
        return cls(added=added, dropped=dropped, roots=roots, dropped_roots=no_roots)


def _sort_out(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Separate feature names from verl symbols and files."""
    names = tuple(names)
    roots = tuple(name for name in names if name.startswith(("verl.", "verl/", "verl:")))
    features = (name for name in names if name not in roots)
    return tuple(name if "/" in name else name.replace("-", "_") for name in features), roots


def find_gone(present: Options, manifest: Manifest) -> tuple[str, ...]:
    """Return the project's features that vextract no longer supports.

    Args:
        present: The project's options.
        manifest: The release after the upgrade.
    """
    there = [manifest] if manifest.release == present.verl else map(releases.load, releases.list_supported())
    known = {feature.name for release in there for feature in release.features}
    return tuple(name for name in present.features if name not in known)


def choose_options(present: Options, request: UpgradeRequest) -> tuple[Options, Manifest]:
    """Return the checked options after the upgrade, and their manifest.

    Raises:
        UsageError: they contradict each other, or the release does not offer them.
    """
    changes_options = replace(request, release=None) != UpgradeRequest()
    manifest = releases.load(request.release or (present.verl if changes_options else releases.find_default()))
    known = {feature.name for feature in manifest.features}
    for feature in request.added:
        if feature in request.dropped:
            raise UsageError(f"--with {feature} and --without {feature} contradict", hint="drop one of the two")
    engine, algorithm = request.engine or present.engine, request.algorithm or present.algorithm
    wanted = replace(present, verl=manifest.release, engine=engine, algorithm=algorithm)
    parts = [item for item in releases.load(present.verl).features if item.name in present.features]
    # What only the present release has for another feature goes without being asked for.
    gone = {*find_gone(present, manifest), *({name for item in parts for name in item.needs} - known)}
    for feature in sorted(set(present.features) - {*request.dropped, *request.added, *gone}):
        if feature not in known:
            raise UsageError(
                f"verl {manifest.release} has no feature {feature!r} here, and the project has it",
                hint=f"pass --without {feature}; edits to its files are kept as orphans",
            )
    for feature in request.dropped:
        if feature not in present.features:
            complete(replace(wanted, features=(feature,)), manifest, upgrading=True)
    features = tuple(sorted({*present.features, *request.added} - {*request.dropped, *gone}))
    options = complete(replace(wanted, features=features), manifest, upgrading=True)
    refuse_needed_features(request.dropped, options, manifest)
    return options, manifest
