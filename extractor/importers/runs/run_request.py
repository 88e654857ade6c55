"""Read a requested run and match it to a verl release."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from extractor.importers.config.release import ReleaseConfig
from extractor.importers.config.templates import read_table
from extractor.importers.runs import release_match
from extractor.importers.runs.experiment import choose_experiment
from extractor.importers.runs.imported_project import MatchedRun
from extractor.importers.runs.launch_reader import PRIME
from extractor.importers.runs.placeholders import make_readable, shown
from extractor.importers.runs.release_match import ReleaseMatch
from extractor.importers.runs.run import Run, flatten_settings
from extractor.importers.runs.run_reader import read_run
from extractor.pipeline.source import open_source
from extractor.values import releases
from extractor.values.configtree import flatten, nearest
from extractor.values.errors import UsageError
from extractor.values.manifest import Manifest

# Unknown settings that are listed, and the characters that are shown of each.
_MOST, _SHOWN = 20, 200
# Beyond these a script's variables come from itself or from --set: the same script gives the same project everywhere.
_ENVIRONMENT = ("HOME", "USER")
_KIND = "reward_model.rm_type"


@dataclass(frozen=True)
class RunRequest:
    """The command line's options about the run.

    Attributes:
        file: The run.
        variables: `VAR=VALUE`, for what the script takes from outside.
        config_dirs: Where its own configs are.
        run_verl: The release that it was written for; None: found out.
        started_in: The directory that it is started in; None: guessed by which of its paths exist.
        offline: Never download.
        keep_unknown: Put settings that no release has into a file of their own, rather than refuse the run.
    """

    file: Path
    variables: Sequence[str] = ()
    config_dirs: Sequence[Path] = ()
    run_verl: str | None = None
    started_in: Path | None = None
    offline: bool = False
    keep_unknown: bool = False

    def read(self, release: str, manifest: Manifest, engine: str | None, step: Callable[[str], None]) -> MatchedRun:
        """Read the run and match it to a release.

        Raises:
            UsageError: it cannot be read, or names keys that no release has.
        """
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        given = _parse_variables(self.variables)
        said = read_run(self.file, given, environment, tuple(self.config_dirs), self.started_in)
        _refuse_fork_settings(said, self.keep_unknown)
        run = release_match.add_earlier_defaults(said)
        best = self._match_release(run, frozenset(item.key for item in said.overrides), release, step)
        if best.unhandled and not self.keep_unknown:
            raise _explain_unknown_settings(self.file, best, len(run.overrides) + len(flatten(run.resolved or {})))
        unknown = {problem.override.key: shown(problem.override.value) for problem in best.unhandled}
        run = _rename_for_best(run, best)
        experiment = choose_experiment(run, best, manifest, engine, unknown)
        return MatchedRun(run, experiment, best.target, unknown, self.keep_unknown)

    def _match_release(
        self, run: Run, written: frozenset[str], release: str, step: Callable[[str], None]
    ) -> ReleaseMatch:
        """Match a run to the release that knows most keys.

        Args:
            run: Under verl's names.
            written: The keys that the run itself has: names that it was given tell nothing of its release.
            release: The project's.
            step: Told what is going on.
        """
        translated = {item.key for item in run.overrides}.difference(written)

        def fit(candidate: str) -> ReleaseMatch:
            step(f"reading verl {candidate}")
            return release_match.fit(
                run, ReleaseConfig.of(open_source(releases.load(candidate).pin, offline=self.offline))
            )

        def count_unknown(fit: ReleaseMatch) -> tuple[int, int]:
            unknown = [item for item in fit.unhandled if item.override.key not in translated]
            whole = flatten(run.defaults).keys() ^ flatten(fit.target.compose().config).keys() if run.is_whole else ()
            return len(unknown), len(whole)

        fits = []
        for candidate in self._list_candidates(run, release):
            fits.append(fit(candidate))
            if count_unknown(fits[-1]) == (0, 0):
                break
        best = min(fits, key=count_unknown)
        if not best.unhandled:
            return best
        others = [item.target for item in fits]
        if translated and all(item.release != release for item in others):  # whose names it is given
            others.append(fit(release).target)
        return release_match.fit(run, best.target, others)

    def _list_candidates(self, run: Run, release: str) -> list[str]:
        """Return the releases to try, the likeliest first."""
        if self.run_verl is not None:
            return [self.run_verl]
        likeliest = [release]
        if run.version is not None:
            # `0.6.0.dev` is what becomes 0.6.0.
            own = Version(run.version).release
            likeliest = [item for item in releases.list_supported() if Version(item).release >= own][:1] or likeliest
        elif release_match.explain_earlier(run) is not None:
            likeliest = [releases.list_supported()[0]]
        return list(dict.fromkeys([*likeliest, release, *reversed(releases.list_supported())]))


def _parse_variables(said: Sequence[str]) -> dict[str, str]:
    """Parse script variables from VAR=VALUE options."""
    wrong = next((item for item in said if not re.fullmatch(r"\w+=.*", item, re.DOTALL)), None)
    if wrong is not None:
        raise UsageError(f"--set {wrong}: not VAR=VALUE", hint="--set sets a variable of the script")
    return dict(item.split("=", 1) for item in said)


def _refuse_fork_settings(run: Run, keep_unknown: bool) -> None:
    """Refuse fork-specific settings that change learning.

    Raises:
        UsageError: the run has one.
    """
    said = flatten_settings(run)
    found = {_KIND: PRIME} if said.get(_KIND) == "prime" else {}
    for item in read_table("keys")["names_of_forks"]:
        key, value, is_on = item["key"], said.get(item["key"]), said.get(item["switch"], item["usual"])
        is_kept = keep_unknown and item["is_kept"]  # for code of the run's own
        if isinstance(value, (int, float)) and value > item["above"] and is_on is True and not is_kept:
            found = {key: f"say in its place: {item['instead']}"}
    for key, hint in found.items():
        message = f"{run.file}: {key}={said[key]}: no supported release of verl has this key, and it changes learning"
        raise UsageError(message, hint=hint)


def _rename_for_best(run: Run, best: ReleaseMatch) -> Run:
    """Return the run with the release's key names, noting renames."""
    if not best.overrides:
        return run
    pairs = zip(run.overrides, best.overrides, strict=True)
    other = dict.fromkeys(
        f"{old.key} as {new.key}" + (f"={new.value} (a share, not percent)" if old.value != new.value else "")
        for old, new in pairs
        if old.key != new.key
    )
    notes = (*run.notes, f"names of other versions of verl: {', '.join(other)}") if other else run.notes
    return replace(run, overrides=best.overrides, notes=notes)


def _explain_unknown_settings(file: Path, best: ReleaseMatch, count: int) -> UsageError:
    """Return the error for unknown settings; the run has `count` settings."""
    unknown = best.unhandled
    if len(unknown) == count > 1:
        return UsageError(
            f"{file}: none of its {len(unknown)} settings is one of verl's",
            hint="pass a run of verl's, of EasyR1's, or of TRL's GRPOTrainer",
        )
    keys = {problem.override.key for problem in unknown}
    lines = []
    for problem in unknown[:_MOST]:
        meant = nearest(best.config, problem.override.key, keys)
        near = f" (did you mean {meant}?)" if meant else ""
        lines.append(f"{make_readable(problem.override.text)[:_SHOWN]}: {problem.message}{near}")
    if len(unknown) > _MOST:
        lines.append(f"and {len(unknown) - _MOST} more")
    return UsageError(
        f"{file}: verl {best.target.release}, the release that fits best, does not know "
        f"{len(unknown)} of its settings:\n  " + "\n  ".join(lines),
        hint="correct them, name the release that it is for with --run-verl, or put them aside with --keep-unknown",
    )
