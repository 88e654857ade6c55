"""Compare config keys and find the owner's uses of removed keys."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from extractor.usecases.changes.changeset import DefaultChange, KeyChanges, LostKey, OwnerKey
from extractor.values import readers
from extractor.values.config_files import FOLDER, is_config
from extractor.values.configtree import compose, flatten
from extractor.values.configtree.settings import list_every_setting
from extractor.values.tree import Tree

MAIN = "ppo_trainer.yaml"
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*(?:\.\w+)*)\}")


def select_below_config(files: Mapping[str, str]) -> dict[str, str]:
    """Return files of a project by path below config/."""
    return {path.removeprefix(FOLDER): text for path, text in files.items()}


def select_emitted_config(emitted: Tree | Mapping[str, bytes]) -> dict[str, str]:
    """Map paths of a generated project's config files to their text."""
    files = emitted if isinstance(emitted, Mapping) else {file.path: file.data for file in emitted}
    return {path: data.decode() for path, data in files.items() if is_config(path)}


def select_config(emitted: Tree | Mapping[str, bytes]) -> dict[str, str]:
    """Return a generated project's config files by path below config/."""
    return select_below_config(select_emitted_config(emitted))


def collect_keys(files: Mapping[str, str]) -> set[str]:
    """Return all keys set by config files (paths below config/)."""
    return {item.key for item in list_every_setting(files, MAIN)}


def read_config(folder: Path) -> dict[str, str]:
    """Return the text of a directory's YAML files, by "config/..." path."""
    return {
        f"{FOLDER}{path.relative_to(folder).as_posix()}": readers.read_text(path)
        for path in readers.list_files_below(folder)
        if path.suffix in (".yaml", ".yml") and path.is_file()
    }


def _compose_defaults(files: Mapping[str, str]) -> dict[str, str]:
    """Map a composed config's keys to defaults in one line."""
    values = flatten(compose(files, MAIN).config) if MAIN in files else {}
    return {key: (value or '""') if isinstance(value, str) else json.dumps(value) for key, value in values.items()}


def compare_project_keys(
    old: Mapping[str, str], new: Mapping[str, str], renames: Callable[[str], str | None]
) -> KeyChanges:
    """Compare the generated configs of two projects, with all group options."""
    before, after = collect_keys(old), collect_keys(new)
    was, now = _compose_defaults(old), _compose_defaults(new)
    public = [key for key in sorted(was) if not key.rpartition(".")[2].startswith("_")]
    # Removed keys: those with a new name, and the outermost of the others.
    gone = before - after
    moved = {key: name for key in gone if (name := _find_existing(renames(key), after)) is not None}
    rest = [key for key in gone - moved.keys() if not any(other.startswith(f"{key}.") for other in moved)]
    lost = sorted((*_keep_outermost(moved), *_keep_outermost(rest)))
    return KeyChanges(
        gained=_keep_outermost(after - before),
        lost=tuple(LostKey(key, moved.get(key)) for key in lost),
        defaults=tuple(DefaultChange(key, was[key], now[key]) for key in public if now.get(key, was[key]) != was[key]),
    )


def find_gone_keys(
    owner: Mapping[str, str], old: Mapping[str, str], new: Mapping[str, str], renames: Callable[[str], str | None]
) -> tuple[OwnerKey, ...]:
    """Find uses of removed keys in the owner's config files.

    Args:
        owner: The owner's files by path, those below config/ as the project has them.
        old, new: The config files as they were and are emitted, by path below config/.
        renames: New names.

    Returns:
        Keys that the old release knew and the new one does not; a section that is gone stands for what is in it. Keys
        that neither knows are the owner's own.
    """
    before, after = collect_keys(old), collect_keys(new)
    uses: dict[tuple[str, int, str, bool], OwnerKey] = {}
    sections: dict[tuple[str, str], int] = {}
    for item in list_every_setting(select_below_config(owner), MAIN):
        file = f"{FOLDER}{item.file}" if f"{FOLDER}{item.file}" in owner else item.file
        if item.section:
            sections.setdefault((file, item.key), item.line)
        mentions = [(item.key, False), *((key, True) for key in _REFERENCE.findall(item.value))]
        for key, reference in mentions:
            parts = key.split(".")
            heads = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
            gone = [head for head in heads if head in before and head not in after]
            if not gone or (item.section and not reference and _find_existing(renames(gone[0]), after) is None):
                continue
            # A section stands for all that is in it, but where its keys went to several places.
            inner = heads[: heads.index(gone[0]) : -1]
            head = next((part for part in [gone[0], *inner] if _find_existing(renames(part), after)), gone[0])
            line = item.line if reference else sections.get((file, head), item.line)
            new_name = _find_existing(renames(head), after)
            uses.setdefault((file, line, head, reference), OwnerKey(file, line, head, new_name, reference))
    return tuple(sorted(uses.values(), key=lambda item: (item.file, item.line, item.key, item.reference)))


def _find_existing(name: str | None, known: Iterable[str]) -> str | None:
    return name if name is not None and name in known else None


def _keep_outermost(keys: Iterable[str]) -> tuple[str, ...]:
    """Drop private keys such as `_target_` and keys inside listed sections."""
    outermost: list[str] = []
    wanted = sorted(key for key in keys if not key.rpartition(".")[2].startswith("_"))
    listed = set(wanted)
    for key in wanted:
        parts = key.split(".")
        if not any(".".join(parts[:end]) in listed for end in range(1, len(parts))):
            outermost.append(key)
    return tuple(outermost)
