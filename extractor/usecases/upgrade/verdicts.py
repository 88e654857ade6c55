"""Decide the verdict of each file of an upgrade."""

import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from extractor.pipeline import merge
from extractor.pipeline.merge import Labels
from extractor.pipeline.merge.files import is_layout, merge_file
from extractor.pipeline.plan import Action, Plan, Reason, Verdict
from extractor.pipeline.render import PRESETS
from extractor.project.lock import Lock, LockedFile
from extractor.project.side_files import BESIDE_SUFFIX, NOTE_SUFFIX, ORPHANED
from extractor.usecases import diff
from extractor.usecases.upgrade.moved_files import Successor
from extractor.usecases.upgrade.settings import CarriedSettings, carry
from extractor.values import readers
from extractor.values.config_files import is_config
from extractor.values.tree import File, FileKind, Tree

Files = tuple[tuple[str, bytes], ...]
_REGISTERED = re.compile(rb"""@register_(?:adv_est|policy_loss)\(\s*(?:\w+\.)?["']?(\w+)""")
_UNEDITED = (Reason.NEW, Reason.UNCHANGED, Reason.CHANGED)


@dataclass(frozen=True)
class FileOnDisk:
    """Holds what lies at a path of the project.

    Attributes:
        data: The bytes; None where they cannot be read as a file's.
        plain: False for a link, a directory and the like, which no upgrade replaces.
    """

    data: bytes | None
    plain: bool = True


@dataclass(frozen=True)
class UpgradeInputs:
    """Everything that the verdicts depend on.

    Attributes:
        lock: The project's lock.
        base: Bytes of the last generation by path, without hooks.
        new: The newly generated tree.
        disk: Files of the project at the paths of both; a missing path means no file.
        successors: Path of a file that is emitted no longer -> what has taken its part.
        labels: What markers and notes call the sides.
        parked: What lies below `orphaned/`, by path.
        settings: The owner's settings that are carried by key instead of by line.
        importers: Vendored file that is emitted no longer -> a file of the owner's that imports it.
        deletable: Tells from path and bytes whether vextract wrote a file: a lock from elsewhere may list others.
    """

    lock: Lock
    base: Mapping[str, bytes]
    new: Tree
    disk: Mapping[str, FileOnDisk]
    successors: Mapping[str, Successor]
    labels: Labels
    parked: Mapping[str, bytes] = field(default_factory=dict)
    settings: CarriedSettings = field(default_factory=CarriedSettings)
    importers: Mapping[str, str] = field(default_factory=dict)
    deletable: Callable[[str, bytes], bool] = lambda path, data: True


def read_files_on_disk(project: Path, paths: AbstractSet[str]) -> dict[str, FileOnDisk]:
    """Read what lies at these paths.

    Raises:
        CheckFailed: a file cannot be read.
    """
    files = {}
    for name in sorted(paths):
        path = project / name
        plain = not path.is_symlink()
        try:
            files[name] = FileOnDisk(readers.read_bytes(path), plain)
        except OSError as error:
            if plain and isinstance(error, (FileNotFoundError, NotADirectoryError)):
                continue
            if plain and not isinstance(error, readers.NotAFile):
                raise diff.explain_unreadable(name, error) from None
            files[name] = FileOnDisk(None, plain=False)
    return files


def carry_settings(
    emitted: Mapping[str, bytes], disk: Mapping[str, FileOnDisk], tree: Tree, renamed: Callable[[str], str | None]
) -> CarriedSettings:
    """Carry the owner's settings in a project's config files.

    Args:
        emitted, disk, tree: As `base`, `disk` and `new` of `UpgradeInputs`.
        renamed: New names of config keys; None for one that keeps its name.
    """
    new = {file.path: file.data for file in tree if is_config(file.path)}
    base = {path: data for path, data in emitted.items() if is_config(path)}
    plain = {path: file.data for path, file in disk.items() if file.plain and file.data is not None}
    ours = {path: data for path, data in plain.items() if data != base.get(path, data)}
    free = {path for path in new if (path in plain if path in base else path not in disk)}
    return carry(base, ours, new, renamed, free)


def plan_upgrade(inputs: UpgradeInputs) -> Plan:
    """Decide on every file of both trees; write nothing."""
    new = {file.path: file for file in inputs.new}
    old = {file.path: file for file in inputs.lock.files}
    actions: dict[str, Action] = {}
    # Edits that move go first: they decide what is written where they arrive.
    for path in sorted(set(old) - set(new)):
        for action in _decide_gone(old[path], inputs, new, actions):
            actions[action.path] = action
    for path, file in sorted(new.items()):
        if path not in actions:
            actions[path] = _decide_staying(file, old.get(path), inputs, actions)
    for action in [item for parked in sorted(inputs.parked) for item in _merge_returned(parked, inputs, actions)]:
        actions[action.path] = action
    actions.update({action.path: action for action in _withdraw_presets(inputs, new, actions)})
    return Plan(tuple(actions[path] for path in sorted(actions)))


def _withdraw_presets(
    inputs: UpgradeInputs, new: Mapping[str, File], actions: Mapping[str, Action]
) -> Iterator[Action]:
    """Remove unedited presets whose estimator or loss the owner deleted."""
    kept = set[str]()
    for path, action in actions.items():
        there = inputs.disk.get(path)
        kept |= _list_registered(action.data if action.data is not None else there.data if there is not None else None)
    lost = set[str]().union(*(_list_registered(file.data) for file in new.values())) - kept
    for path, file in new.items() if lost else ():
        chosen = re.search(rf"(?m)^ *(?:adv_estimator|loss_mode): ({'|'.join(sorted(lost))})$", file.data.decode())
        if path.startswith(PRESETS) and chosen and actions[path].reason in _UNEDITED:
            verdict = Verdict.DELETE if path in inputs.disk else Verdict.KEEP
            note = f"you have deleted {chosen[1]}, which it chooses"
            yield Action(path, verdict, file.kind, Reason.REMOVED, note=note)


def _list_registered(data: bytes | None) -> set[str]:
    """Return the names of the estimators and losses that code registers."""
    return {name.decode().lower() for name in _REGISTERED.findall(data or b"")}


def _merge_returned(parked: str, inputs: UpgradeInputs, actions: Mapping[str, Action]) -> list[Action]:
    """Merge a parked file's edits into the file that returned."""
    path, note = parked.removeprefix(f"{ORPHANED}/"), parked + NOTE_SUFFIX
    added, ours = actions.get(path), inputs.parked[parked]
    if added is None or added.verdict is not Verdict.ADD or added.data is None or note not in inputs.parked:
        return []
    base = diff.undo_unified(ours, inputs.parked[note])
    merged = _merge_texts(path, base, ours, added.data, inputs.labels) if base is not None else None
    if merged is None or merged.conflicts:
        return [replace(added, note=f"your edits are in {parked}; they cannot be merged automatically")]
    gone = [Action(name, Verdict.DELETE, added.kind, Reason.CARRIED, note=f"back in {path}") for name in (parked, note)]
    back = replace(added, verdict=Verdict.MERGE, reason=Reason.CARRIED, data=merged.data, note=f"edits of {parked}")
    return [back, *gone]


def _decide_gone(
    locked: LockedFile, inputs: UpgradeInputs, new: Mapping[str, File], decided: Mapping[str, Action]
) -> list[Action]:
    """Decide on a file that is emitted no longer."""
    path, kind, here = locked.path, locked.kind, inputs.disk.get(locked.path)
    if here is None:
        return [Action(path, Verdict.KEEP, kind, Reason.REMOVED)]
    if kind is FileKind.HOOK or not here.plain or here.data is None:
        return [Action(path, Verdict.KEEP, kind, Reason.OWNED, note="no longer part of the project: yours to remove")]
    base, ours = inputs.base[path], here.data
    if path in inputs.importers:
        note = f"{inputs.labels.theirs} has it no longer, and {inputs.importers[path]} imports it: yours now"
        return [Action(path, Verdict.KEEP, kind, Reason.OWNED, note=note)]
    if is_layout(path, base, ours) and inputs.deletable(path, ours):
        return [Action(path, Verdict.DELETE, kind, Reason.GONE)]
    if inputs.settings.ours.get(path) == base:
        return [Action(path, Verdict.DELETE, kind, Reason.CARRIED, note="your settings are in other files")]
    place = inputs.successors.get(path)
    come = [new[name] for name in place.paths if name in new] if place is not None else []
    successor = come[0] if place is not None and place.same and come else None
    if successor is not None and successor.path not in decided and _is_untouched(successor, inputs):
        merged = _merge_texts(successor.path, base, ours, successor.data, inputs.labels)
        if merged is not None and not merged.conflicts:
            return [
                Action(path, Verdict.DELETE, kind, Reason.CARRIED, note=f"your edits are in {successor.path}"),
                Action(
                    successor.path, Verdict.MERGE, successor.kind, Reason.CARRIED, merged.data, f"your edits of {path}"
                ),
            ]
    places = ", ".join(file.path for file in come)
    lines = [
        f"{path} with your edits. {inputs.labels.base} had this file, {inputs.labels.theirs} does not.",
        f"Its code came from upstream's {locked.upstream_path}."
        if locked.upstream_path
        else "It came from a template.",
        f"Its part is now in {places}, but your edits cannot be merged automatically."
        if come
        else "No file is known to replace it.",
        "Move by hand what you still need, then delete this note and the file beside it.",
    ]
    parked, files = _park(path, base, ours, lines, inputs, decided)
    note = f"your version is {parked}{f'; its part is now in {places}' if come else ''}"
    return [Action(path, Verdict.ORPHAN, kind, Reason.GONE, note=note, side_files=files)]


def _park(
    path: str, base: bytes, ours: bytes, lines: list[str], inputs: UpgradeInputs, decided: Mapping[str, Action]
) -> tuple[str, Files]:
    """Return an edited file's parking path, with its bytes and note."""
    taken = {*inputs.parked, *(name for action in decided.values() for name, _ in action.side_files)}
    parked = f"{ORPHANED}/{path}"
    number = 1
    while parked in taken or parked + NOTE_SUFFIX in taken:
        number += 1
        parked = f"{ORPHANED}/{path}.{number}"
    text = "\n".join((*lines, "", "Your edits were:", "", ""))
    return parked, ((parked, ours), (parked + NOTE_SUFFIX, text.encode() + diff.write_unified_diff(path, base, ours)))


def _is_untouched(file: File, inputs: UpgradeInputs) -> bool:
    """Tell whether nothing of the owner's is at a file's path."""
    if file.kind is FileKind.HOOK:
        return False
    here = inputs.disk.get(file.path)
    if here is None:
        # A file that its owner removed stays removed.
        return file.path not in inputs.base
    return here.plain and here.data in (file.data, inputs.base.get(file.path, file.data))


def _decide_staying(
    file: File, locked: LockedFile | None, inputs: UpgradeInputs, decided: Mapping[str, Action]
) -> Action:
    """Decide on a file that is emitted now."""
    path, kind, here = file.path, file.kind, inputs.disk.get(file.path)
    if kind is FileKind.HOOK:
        return _decide_hook(file, locked, here)
    base, theirs = inputs.base.get(path), inputs.settings.theirs.get(path, file.data)
    if here is None:
        if base is None:
            if theirs != file.data:
                return Action(path, Verdict.MERGE, kind, Reason.CARRIED, theirs, "with your settings")
            return Action(path, Verdict.ADD, kind, Reason.NEW, file.data)
        changed = f"it has changed in {inputs.labels.theirs}" if base != file.data else ""
        restore = "`vextract sync` brings it back" if kind is FileKind.VENDORED else ""
        return Action(path, Verdict.KEEP, kind, Reason.REMOVED, note="; ".join(filter(None, (changed, restore))))
    if here.data == theirs:
        return Action(path, Verdict.KEEP, kind, Reason.UNCHANGED if theirs == file.data else Reason.EDITED)
    ours = inputs.settings.ours.get(path, here.data)
    if base == theirs and ours == here.data:
        return Action(path, Verdict.KEEP, kind, Reason.EDITED)
    if base is not None and ours is not None and here.plain:
        if ours == base and theirs == file.data and ours == here.data:
            return Action(path, Verdict.UPDATE, kind, Reason.CHANGED, file.data)
        merged = _merge_texts(path, base, ours, theirs, inputs.labels)
        if merged is not None:
            note, beside = _list_lost(path, locked, inputs, decided)
            if merged.conflicts:
                places = "1 place" if merged.conflicts == 1 else f"{merged.conflicts} places"
                notes = "; ".join(filter(None, (f"{places} to resolve", note)))
                return Action(path, Verdict.CONFLICT, kind, Reason.BOTH, merged.data, notes, beside)
            if merged.data == here.data:
                return Action(path, Verdict.KEEP, kind, Reason.EDITED)
            return Action(path, Verdict.MERGE, kind, Reason.BOTH, merged.data, note, beside)
    beside_path = f"{path}{BESIDE_SUFFIX}"
    return Action(
        path,
        Verdict.CONFLICT,
        kind,
        Reason.IN_THE_WAY,
        note=f"the new one is {beside_path}",
        side_files=((beside_path, file.data),),
    )


def _list_lost(
    path: str, locked: LockedFile | None, inputs: UpgradeInputs, decided: Mapping[str, Action]
) -> tuple[str, Files]:
    """Return notes and parked settings that have no place any more."""
    lost = [item for item in inputs.settings.lost if item.file == path]
    ours = inputs.disk[path].data
    if not lost or locked is None or ours is None:
        return "", ()
    labels = inputs.labels
    lines = [
        f"{path} as you had it on {labels.base}. {labels.theirs} has no such settings:",
        *(f"  {item.key}: {item.value}" for item in lost),
        "Everything else you set was carried over. Delete this note and the file beside it once not needed.",
    ]
    parked, files = _park(path, inputs.base[path], ours, lines, inputs, decided)
    what = "a setting of yours has" if len(lost) == 1 else f"{len(lost)} settings of yours have"
    return f"{what} no place; your version is {parked}", files


def _decide_hook(file: File, locked: LockedFile | None, here: FileOnDisk | None) -> Action:
    if here is not None:
        changed = locked is not None and locked.kind is FileKind.HOOK and locked.sha256 != file.sha256
        note = "its example has changed; yours stays" if changed else ""
        return Action(file.path, Verdict.KEEP, file.kind, Reason.OWNED, note=note)
    if locked is not None:
        return Action(file.path, Verdict.KEEP, file.kind, Reason.REMOVED)
    return Action(file.path, Verdict.ADD, file.kind, Reason.NEW, file.data)


def _merge_texts(path: str, base: bytes, ours: bytes, theirs: bytes, labels: Labels) -> merge.Merged | None:
    """None where one of them is no text."""
    return merge_file(path, base, ours, theirs, labels) if merge.is_mergeable(base, ours, theirs) else None
