"""Compare config keys, and find the owner's uses of keys that are gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from extractor.pipeline.generate import Generated
from extractor.pipeline.source import Source
from extractor.usecases.changes.changeset import DefaultChange, KeyChanges, LostKey, OwnerKey
from extractor.values import readers
from extractor.values.config_files import FOLDER, is_config
from extractor.values.configtree.settings import Setting, Unreadable, compose, every_setting
from extractor.values.errors import SourceError, UsageError
from extractor.values.renames import Renames

MAIN = "ppo_trainer.yaml"
_UPSTREAM = "verl/trainer/config/"
_READ = re.compile(r"\.([A-Za-z_]\w*)|[\"']([A-Za-z_]\w*)[\"']")
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*(?:\.\w+)*)\}")


def below_config(files: Mapping[str, str]) -> dict[str, str]:
    """Return files of a project by path below config/."""
    return {path.removeprefix(FOLDER): text for path, text in files.items()}


def project_config(generated: Generated) -> dict[str, str]:
    """Return the config files of a project as it is emitted, by path below config/."""
    return below_config({file.path: file.data.decode() for file in generated.tree if is_config(file.path)})


def read_config(folder: Path) -> dict[str, str]:
    """Return the YAML files below a directory, by path as a project has them ("config/ppo_trainer.yaml").

    Raises:
        UsageError: there is no such directory.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such directory", hint="pass a directory of YAML files, such as PROJECT/config")
    return {
        f"{FOLDER}{path.relative_to(folder).as_posix()}": readers.read_text(path)
        for path in readers.files_below(folder)
        if path.suffix in (".yaml", ".yml") and path.is_file()
    }


def upstream_config(source: Source) -> dict[str, Setting]:
    """Return upstream's own trainer config, composed.

    Raises:
        SourceError: a file of it is no YAML.
    """
    files = {
        path.removeprefix(_UPSTREAM): source.read(path)
        for path in source.files
        if path.startswith(_UPSTREAM) and path.endswith(".yaml")
    }
    try:
        return compose(files, MAIN) if MAIN in files else {}
    except Unreadable as error:
        raise SourceError(
            f"{_UPSTREAM}{error}", hint="check that the source is an unmodified release of verl"
        ) from None


def last_setting(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Return a mapping, key -> the setting that has the last word."""
    return {item.key: item for item in settings}


def compare_project_keys(
    old: Mapping[str, str], new: Mapping[str, str], renames: Callable[[str], str | None]
) -> KeyChanges:
    """Compare the configs of two projects, as they are emitted: all options of each group."""
    before, after = last_setting(every_setting(old, MAIN)), last_setting(every_setting(new, MAIN))
    composed = [compose(files, MAIN) if MAIN in files else {} for files in (old, new)]
    return KeyChanges(
        gained=_outermost(key for key in after if key not in before),
        lost=_lost(set(before) - set(after), after, renames),
        defaults=_defaults(*composed),
    )


def compare_upstream_keys(
    old: Generated,
    new: Generated,
    before: Mapping[str, Setting],
    after: Mapping[str, Setting],
    renames: Renames,
) -> KeyChanges:
    """Compare upstream's configs, as far as the projects use their keys.

    A key concerns a project where the project's own config has it, or where the section that it stands in is one of the
    project's and its name occurs in the project's code as an attribute or a string.
    """
    old_use, new_use = _Use(old), _Use(new)
    lost = [key for key in before if key not in after]
    gained = [key for key in after if key not in before]
    defaults = _defaults(before, after)
    my_lost = [key for key in lost if old_use(key)]
    my_gained = [key for key in gained if new_use(key)]
    my_defaults = tuple(item for item in defaults if new_use(item.key))
    return KeyChanges(
        gained=_outermost(my_gained),
        lost=_lost(my_lost, after, renames),
        defaults=my_defaults,
        others=len(lost) + len(gained) + len(defaults) - len(my_lost) - len(my_gained) - len(my_defaults),
    )


class _Use:
    """Says which of upstream's keys a project uses."""

    def __init__(self, generated: Generated) -> None:
        settings = last_setting(every_setting(project_config(generated), MAIN))
        self._keys = set(settings)
        self._sections = {key for key, item in settings.items() if item.section}
        self._names: set[str] = set()
        for file in generated.tree:
            if file.path.endswith(".py"):
                for attribute, string in _READ.findall(file.data.decode()):
                    self._names.add(attribute or string)

    def __call__(self, key: str) -> bool:
        parent, _, name = key.rpartition(".")
        if name.startswith("_"):
            return False
        return key in self._keys or (parent in self._sections and name in self._names)


def gone_in(
    owner: Mapping[str, str],
    old_known: set[str],
    new_known: set[str],
    new_project: set[str],
    old_project: set[str],
    renames: Callable[[str], str | None],
) -> tuple[OwnerKey, ...]:
    """Return where the owner's config files speak of keys that no longer exist.

    Args:
        owner: The owner's files by path, those below config/ as the project has them.
        old_known: Every key of the old release, the project's and upstream's.
        new_known: The same of the new release.
        new_project: The keys of the new project's own config.
        old_project: The keys of the old project's own config.
        renames: New names.

    Returns:
        Keys that the old release knew and the new one does not; a section that is gone stands for what is in it. Keys
        that neither knows are the owner's own.
    """

    def gone(key: str) -> str | None:
        parts = key.split(".")
        for end in range(1, len(parts) + 1):
            head = ".".join(parts[:end])
            if head in old_project and head not in new_project:
                return head
            if head in old_known and head not in new_known:
                return head
        return None

    found: dict[tuple[str, int, str, bool], OwnerKey] = {}
    known = new_known | new_project
    sections: dict[tuple[str, str], int] = {}
    for item in every_setting(below_config(owner), MAIN):
        file = _original(item.file, owner)
        if item.section:
            sections.setdefault((file, item.key), item.line)
        mentions = [(item.key, False), *((key, True) for key in _REFERENCE.findall(item.value))]
        for key, reference in mentions:
            head = gone(key)
            if head is None:
                continue
            if item.section and not reference and _existing(renames(head), known) is None:
                continue
            # A section stands for all that is in it, but where its keys went to several places.
            inner = [".".join(key.split(".")[:end]) for end in range(key.count(".") + 1, head.count("."), -1)]
            head = next((part for part in [head, *inner] if _existing(renames(part), known)), head)
            new_name = _existing(renames(head), known)
            line = item.line if reference else sections.get((file, head), item.line)
            found.setdefault((file, line, head, reference), OwnerKey(file, line, head, new_name, reference))
    return tuple(sorted(found.values(), key=lambda item: (item.file, item.line, item.key, item.reference)))


def _original(path: str, owner: Mapping[str, str]) -> str:
    return f"{FOLDER}{path}" if f"{FOLDER}{path}" in owner else path


def _lost(keys: Iterable[str], known: Iterable[str], renames: Callable[[str], str | None]) -> tuple[LostKey, ...]:
    """Keys that are gone, sorted; a section stands for all that is in it, but where its keys went to several places."""
    gone, present = set(keys), set(known)

    def one(key: str) -> list[LostKey]:
        inside = [other for other in gone if other.startswith(f"{key}.")]
        new = _existing(renames(key), present)
        if new is not None or not any(_existing(renames(other), present) for other in inside):
            return [LostKey(key, new)]
        return [item for other in _outermost(inside) for item in one(other)]

    return tuple(item for key in _outermost(gone) for item in one(key))


def _existing(name: str | None, known: Iterable[str]) -> str | None:
    return name if name is not None and name in known else None


def _outermost(keys: Iterable[str]) -> tuple[str, ...]:
    """Leave out keys that stand in a section that is listed itself, and `_target_` and the like."""
    found: list[str] = []
    wanted = sorted(key for key in keys if not key.rpartition(".")[2].startswith("_"))
    listed = set(wanted)
    for key in wanted:
        parts = key.split(".")
        if not any(".".join(parts[:end]) in listed for end in range(1, len(parts))):
            found.append(key)
    return tuple(found)


def _defaults(before: Mapping[str, Setting], after: Mapping[str, Setting]) -> tuple[DefaultChange, ...]:
    return tuple(
        DefaultChange(key, item.value, after[key].value)
        for key, item in before.items()
        if key in after
        and item.value != after[key].value
        and not (item.section or after[key].section)
        and not key.rpartition(".")[2].startswith("_")
    )
