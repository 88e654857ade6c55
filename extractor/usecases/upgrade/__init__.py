"""Upgrade a project, and merge the owner's edits."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from extractor import __version__
from extractor.pipeline import apply, merge, source
from extractor.pipeline.generate import Generated, complete
from extractor.pipeline.merge import Labels
from extractor.pipeline.plan import Action, Plan, Reason, Verdict
from extractor.project import base
from extractor.project import lock as lock_module
from extractor.project.lock import Lock
from extractor.project.side_files import BESIDE_SUFFIX, ORPHANED
from extractor.usecases.changes.changeset import OwnerKey
from extractor.usecases.changes.config_keys import find_gone_keys, read_config, select_config
from extractor.usecases.emitted_files import make_lock
from extractor.usecases.kept_methods import generate_with_methods, read_owner_demands
from extractor.usecases.owner_code import (
    OwnerCode,
    find_owner_files,
    list_imported,
    map_removed_to_importers,
    read_owner_code,
)
from extractor.usecases.upgrade.broken_owner_code import OwnerCodeProblem, find_broken_owner_code
from extractor.usecases.upgrade.choices import UpgradeRequest, choose_options
from extractor.usecases.upgrade.former_features import find_former_features
from extractor.usecases.upgrade.layout import follow_moved_code, relocate
from extractor.usecases.upgrade.moved_files import Successor, find_moved_files
from extractor.usecases.upgrade.settings import (
    CarriedSettings,
    MovedSetting,
    find_unread_keys,
    rename_own_settings,
)
from extractor.usecases.upgrade.uncommitted import list_uncommitted
from extractor.usecases.upgrade.verdicts import (
    FileOnDisk,
    UpgradeInputs,
    carry_settings,
    plan_upgrade,
    read_files_on_disk,
)
from extractor.values import readers, releases
from extractor.values.config_files import FOLDER, is_config
from extractor.values.errors import CheckFailed, MissingRoot, UsageError
from extractor.values.manifest import OWN_MANIFEST, Manifest, edit_roots, list_own_roots, read_own_manifest
from extractor.values.options import Options
from extractor.values.renamed_config_keys import KeyRenames
from extractor.values.tree import FileKind, Tree, is_marked

_REQUIREMENTS = ("requirements.lock", "pyproject.toml")

__all__ = ["Upgrade", "explain_uncommitted", "name_sides", "prepare", "write"]


@dataclass(frozen=True)
class Upgrade:
    """An upgrade that is worked out and not yet done.

    Attributes:
        old, new: The locks before and after.
        plan: The verdicts.
        seen: What they were made from, by path.
        generated: The new tree, and what it was made from.
        code: The owner's code before it.
        labels: What the two sides are called.
        changes_anything: False where the project is what it would become.
        settings: What becomes of the owner's settings, where that is more than a merge of lines.
        stale: Where config files of the owner's set or name keys that no longer exist, or that nothing reads any more.
        uncommitted: Managed files with changes that Git does not have yet.
        git_error: Why Git does not say which these are; empty where it does.
        used_features: Features that every project had before -> the owner's file that uses them.
        unused_features: The others of these.
        problems: What to change in the owner's code.
    """

    old: Lock
    new: Lock
    plan: Plan
    seen: Mapping[str, bytes | None] = field(repr=False)
    generated: Generated = field(repr=False)
    code: tuple[OwnerCode, ...] = field(repr=False)
    labels: Labels
    changes_anything: bool
    settings: CarriedSettings
    stale: tuple[OwnerKey, ...]
    uncommitted: tuple[str, ...]
    git_error: str = ""
    used_features: Mapping[str, str] = field(default_factory=dict)
    unused_features: tuple[str, ...] = ()
    problems: tuple[OwnerCodeProblem, ...] = ()

    @property
    def changes_requirements(self) -> bool:
        """Tell whether the project has to be set up again."""
        after = self.plan.writes()
        return any(path in after and after[path] != self.seen.get(path) for path in _REQUIREMENTS)

    @property
    def counts(self) -> dict[str, int]:
        """Return verdict -> how many files have it."""
        verdicts = sorted(Verdict, key=lambda verdict: verdict is Verdict.KEEP)
        return {verdict.value: len(self.plan.paths(verdict)) for verdict in verdicts}

    @property
    def left_places(self) -> list[Action]:
        """Return what is done at the former places of moved files."""
        return [item for item in self.plan.actions if (item.verdict, item.reason) == (Verdict.DELETE, Reason.MOVED)]

    @property
    def title(self) -> str:
        """Return what it is called: "verl 0.5.0 -> verl 0.6.1"."""
        return f"{self.labels.base} -> {self.labels.theirs}"


def prepare(project: Path, request: UpgradeRequest, *, origin: Path | None = None, offline: bool = False) -> Upgrade:
    """Work out an upgrade; writes nothing.

    Args:
        origin, offline: As for `open_source`.

    Raises:
        UsageError: the options are unknown or contradict each other; git is needed and missing.
        CheckFailed: the base is not intact, the package is not there, or a file has unresolved conflicts.
        SourceError: verl is not available.
    """
    # What was emitted, and the options asked for.
    old = lock_module.read(project)
    emitted = base.read(project, old)
    own_manifest = read_own_manifest(project / OWN_MANIFEST)
    options, manifest, (used_features, unused_features) = _choose(project, old, emitted, request, own_manifest)
    # Generate the new files.
    verl = source.open_source(manifest.pin, origin, offline=offline)
    code = tuple(read_owner_code(project, old, emitted))
    generated = _generate(project, options, verl, manifest, code, old)
    tree, new, options = generated.tree, make_lock(generated), generated.options
    # Look at the project on disk.
    on_disk = read_files_on_disk(project, {file.path for file in old.files} | {file.path for file in tree})
    _check_resolved(project, on_disk, emitted)
    parked, own, plain = _read_parked_and_config(project, old, tree)
    # Decide on each file: those that vextract manages, then vextract.toml and the owner's config files.
    importers = map_removed_to_importers(project, old, code, {file.path for file in tree})
    renamed = KeyRenames(old.options.verl, options.verl)
    plan, inputs = _plan_managed(old, emitted, on_disk, parked, importers, generated, renamed)
    own_config, moved = rename_own_settings(plain, emitted, tree, renamed)
    plan = _add_owner_files(plan, own_manifest, options.manifest, own_config, moved)
    # Collect what the report says besides.
    uncommitted, git_error = list_uncommitted(project, old, emitted, on_disk | own, own_config)
    config = _read_config_after(project, plan)
    return Upgrade(
        old=old,
        new=new,
        plan=plan,
        seen={path: item.data for path, item in (on_disk | own | parked).items()},
        generated=generated,
        code=code,
        labels=inputs.labels,
        changes_anything=old != new or any(action.verdict is not Verdict.KEEP for action in plan.actions),
        settings=replace(inputs.settings, moved=(*inputs.settings.moved, *moved)),
        stale=(
            *find_gone_keys(config, select_config(emitted), select_config(tree), renamed),
            *find_unread_keys(config, generated),
        ),
        uncommitted=uncommitted,
        git_error=git_error,
        used_features=used_features,
        unused_features=unused_features,
        problems=find_broken_owner_code(code, importers, emitted, on_disk, generated, plan, inputs.labels.theirs),
    )


def _choose(
    project: Path, old: Lock, emitted: Mapping[str, bytes], request: UpgradeRequest, own_manifest: str
) -> tuple[Options, Manifest, tuple[dict[str, str], tuple[str, ...]]]:
    """Return the options after the upgrade, with the former features in use."""
    package = f"{old.options.package}/"
    if not (project / package).is_dir() and any(file.path.startswith(package) for file in old.files):
        raise CheckFailed(
            f"{package}, the project's package by its vextract.lock, is not there",
            hint="give the directory that name again; or have its files anew, by `vextract sync --removed`",
        )
    options, manifest = choose_options(old.options, request)
    options = replace(options, manifest=edit_roots(own_manifest, request.roots, request.dropped_roots))
    former_features = find_former_features(project, old, emitted, options, manifest)
    used = set(former_features[0]) - set(request.dropped)
    options = complete(replace(options, features=tuple(sorted({*options.features, *used}))), manifest)
    return options, manifest, former_features


def _generate(
    project: Path, options: Options, verl: source.Source, manifest: Manifest, code: tuple[OwnerCode, ...], old: Lock
) -> Generated:
    """Generate what the owner's code needs; name who imports what is gone.

    A file that is gone and still imported becomes the owner's, so its own imports are needed too.
    """
    try:
        generated = generate_with_methods(options, verl, manifest, read_owner_demands(code, old))
        if users := map_removed_to_importers(project, old, code, {file.path for file in generated.tree}):
            there = (path for path in users if (project / path).is_file())
            code = (*code, *(OwnerCode(path, readers.read_text(project / path)) for path in there))
            generated = generate_with_methods(options, verl, manifest, read_owner_demands(code, old))
        return generated
    except MissingRoot as error:
        wanted = {error.symbol, f"{error.symbol.partition(':')[0]}:*"}
        using = [item.path for item in code if wanted & set(list_imported((item,), old))]
        error.details = tuple(f"{path} imports it" for path in using)
        if error.symbol in list_own_roots(old.options.manifest):
            dropped = f"`vextract remove {error.symbol}`, and its file stays, as yours, where your code imports it"
            error.hint = f"{error.hint if error.is_elsewhere else dropped}; or keep the release"
        raise


def _read_parked_and_config(
    project: Path, old: Lock, tree: Tree
) -> tuple[dict[str, FileOnDisk], dict[str, FileOnDisk], dict[str, bytes]]:
    """Return what is parked, the owner's config files, and their readable bytes."""
    below = readers.list_files_below(project / ORPHANED)
    parked = read_files_on_disk(project, {path.relative_to(project).as_posix() for path in below})
    config_files = {path for path in find_owner_files(project, old) if is_config(path)} - {file.path for file in tree}
    own = read_files_on_disk(project, {*config_files, OWN_MANIFEST})
    plain = {path: data for path in config_files if own[path].plain and (data := own[path].data) is not None}
    return parked, own, plain


def _add_owner_files(
    plan: Plan, before: str, after: str, own_config: Mapping[str, bytes], moved: Iterable[MovedSetting]
) -> Plan:
    """Add verdicts on `vextract.toml` and the owner's config files."""
    actions = list(plan.actions)
    if before != after:
        verdict, reason = (Verdict.MERGE, Reason.ASKED) if before else (Verdict.ADD, Reason.NEW)
        actions.append(Action(OWN_MANIFEST, verdict, FileKind.HOOK, reason, after.encode()))
    for path, data in own_config.items():
        note = f"{sum(item.file == path for item in moved)} of yours"
        actions.append(Action(path, Verdict.MERGE, FileKind.HOOK, Reason.RENAMED, data, note=note))
    return Plan(tuple(sorted(actions, key=lambda action: action.path)))


def _plan_managed(
    old: Lock,
    emitted: Mapping[str, bytes],
    on_disk: Mapping[str, FileOnDisk],
    parked: Mapping[str, FileOnDisk],
    importers: Mapping[str, str],
    new: Generated,
    renamed: KeyRenames,
) -> tuple[Plan, UpgradeInputs]:
    """Decide on the files that vextract manages, in today's layout."""
    layout = relocate(old, emitted, on_disk, {file.path for file in new.tree})
    layout = follow_moved_code(layout, new.tree, new.options.package)
    before = releases.load(old.options.verl) if old.options.verl in releases.list_supported() else None
    successors = find_moved_files(layout.lock, before, new)
    successors |= {path: Successor(places, same=False) for path, places in layout.carried.items()}
    inputs = UpgradeInputs(
        lock=layout.lock,
        base=layout.base,
        new=new.tree,
        disk=layout.disk,
        successors=successors,
        labels=name_sides(old.options, new.options, old.vextract),
        parked={path: item.data or b"" for path, item in parked.items()},
        settings=carry_settings(layout.base, layout.disk, new.tree, renamed),
        importers=importers,
        deletable=is_marked,
    )
    return layout.placed(plan_upgrade(inputs)), inputs


def _read_config_after(project: Path, plan: Plan) -> dict[str, str]:
    """Return config files as they will be, without those in conflict."""
    config = read_config(project / FOLDER)
    config |= {path: data.decode(errors="replace") for path, data in plan.writes().items() if is_config(path)}
    left = {*plan.removals(), *plan.paths(Verdict.CONFLICT)}
    return {path: text for path, text in config.items() if path not in left}


def write(project: Path, upgrade: Upgrade) -> None:
    """Do an upgrade that was worked out; see `apply.upgrade`.

    Raises:
        CheckFailed: a file cannot be written, or was changed in the meantime.
    """
    apply.upgrade(
        project,
        upgrade.plan,
        upgrade.seen,
        lock_data=lock_module.dump(upgrade.new),
        base_data=base.dump(base.collect_from_tree(upgrade.generated.tree)),
        title=upgrade.title,
    )


def name_sides(old: Options, new: Options, vextract: str) -> Labels:
    """Name the two sides of a merge so that they differ."""
    before, after = f"verl {old.verl}", f"verl {new.verl}"
    if before == after:
        came, gone = (", ".join(sorted({*one.features} - {*other.features})) for one, other in ((new, old), (old, new)))
        sides = [
            (f"engine {old.engine}", f"engine {new.engine}"),
            (f"algorithm {old.algorithm}", f"algorithm {new.algorithm}"),
            (f"with {gone}" if gone else f"without {came}", f"with {came}" if came else f"without {gone}"),
            *[(f"{OWN_MANIFEST} before", f"{OWN_MANIFEST} now")] * (old.manifest != new.manifest),
        ]
        other_vextract = (f"vextract {vextract}", f"vextract {__version__}")
        updated = other_vextract if vextract != __version__ else ("as emitted", "as emitted now")
        differences = [side for side in sides if side[0] != side[1]] or [updated]
        before += f" ({', '.join(was for was, _ in differences)})"
        after += f" ({', '.join(now for _, now in differences)})"
    return Labels(f"yours, on {before}", before, after)


def _check_resolved(project: Path, on_disk: Mapping[str, FileOnDisk], emitted: Mapping[str, bytes]) -> None:
    for path, side in on_disk.items():
        was = emitted.get(path)
        if was is None or side.data is None or side.data == was:
            continue
        line = merge.find_first_conflict(side.data, was)
        if line:
            raise CheckFailed(
                f"{path}:{line}: a marker of an earlier conflict is left",
                hint="edit the file and remove the markers, then upgrade",
            )
    for path in sorted(on_disk):
        if os.path.lexists(project / f"{path}{BESIDE_SUFFIX}"):
            raise CheckFailed(
                f"{path}{BESIDE_SUFFIX} is left from an earlier conflict",
                hint=f"take from it what you need for {path} and remove it, then upgrade",
            )


def explain_uncommitted(upgrade: Upgrade) -> UsageError | None:
    """Return the error for changes that Git does not have, or may not have."""
    if upgrade.git_error:
        return UsageError(
            f"Git does not say whether all changes are committed: {upgrade.git_error}",
            hint="`git status` in the project says what to do about it; or pass --allow-dirty",
        )
    if upgrade.uncommitted:
        first, rest = upgrade.uncommitted[0], len(upgrade.uncommitted) - 1
        more = f" and {rest} more" if rest else ""
        return UsageError(
            f"{first}{more}: changed and not committed",
            hint="commit first, so that you can tell the upgrade's changes from yours; or pass --allow-dirty",
        )
    return None
