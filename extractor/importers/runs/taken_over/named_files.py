"""The Python files that a run's config names, among the hooks of its project."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from extractor.importers.runs.files import Places, own_call
from extractor.importers.runs.files.copying import FOLDER
from extractor.importers.runs.files.needed import with_first
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over.manager_hooks import support
from extractor.importers.runs.taken_over.recipient import Recipient, Taken, copied_remarks
from extractor.pipeline.index import Module
from extractor.pipeline.source import Source
from extractor.values import limits, readers
from extractor.values.errors import UsageError


@dataclass(frozen=True)
class _Kind:
    """Something that a run's config names by the file that it is in, and the name that it has there.

    Its base class, in the package `of_verl`, has other methods from release to release: it has that of its own.
    It is made with the section `config` of the run's; "": with none.
    """

    section: str
    default: str | None
    target: str
    of_verl: str | None = None
    config: str = ""


_KINDS = (
    _Kind("custom_reward_function", "compute_score", "custom/verl_reward.py"),
    _Kind("data.custom_cls", None, "custom/verl_dataset.py", "verl.utils.dataset", "data"),
)


# How newer releases of verl may be told of a module or a file.
_OF_A_MODULE, _OF_A_FILE = "pkg://", "file://"


def function_text(places: Places, path: str, source: Source) -> str | None:
    """Return the text of a file that a run names: on disk, or one of verl's own; None where there is none."""
    path = _as_file(path)
    place = places.find_like(path)
    if place is not None:
        return readers.python_text(readers.read_bytes(place, limits.MAX_TEXT))
    own = path[path.find("verl/") :] if "verl/" in path else ""
    return source.read(own) if own in source.files else None


def _as_file(path: str) -> str:
    """Return the path of a file as verl loads it: a module's (`pkg://mine.rewards`) or a file's (`file://...`)."""
    if path.startswith(_OF_A_MODULE):
        return f"{path.removeprefix(_OF_A_MODULE).replace('.', '/')}.py"
    return path.removeprefix(_OF_A_FILE)


def take(project: Recipient, asked: Collection[str] = ()) -> Taken:
    """Copy the files that settings name; the settings name the copies then.

    Args:
        project: With the run's settings.
        asked: Settings that no release has, and that copies are to find in their config.
    """
    package, settings = project.package, project.settings
    texts: dict[str, str] = {}
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    copying = project.copying()
    for kind in _KINDS:
        key = next((name for name in settings if name.endswith(f"{kind.section}.path")), None)
        if key is None or not settings[key]:
            continue
        path, name = _as_file(str(settings[key])), settings.get(f"{key.removesuffix('.path')}.name", kind.default)
        if any(file.path == path for file in project.tree):
            continue  # what was copied before this names its own copy
        target = changed[key] = f"{package}/{kind.target}"
        try:
            text = function_text(project.places, path, project.source)
            own = kind.of_verl if project.source.release != project.release else None
            copied = (
                None
                if text is None
                else copying.copy(text, [name] if name else [], own, project.places.find_like(path))
            )
        except (SyntaxError, UsageError, OSError) as error:  # only Python gets into a project
            remarks.append(Remark(key, path, "to do", f"not copied: it is no Python ({_said(error)})"))
            continue
        if copied is None:
            remarks.append(Remark(key, path, "to do", f"not found: put it at {target}, or say --cwd"))
            continue
        texts[kind.target] = copied.text
        if kind.config and name and own_call.among(asked, own_call.settings_read(copied.text, kind.config)):
            texts |= _told(copied.text, str(name), kind, package)
        if copied.left_out:
            names = ", ".join(copied.left_out)
            remarks.append(Remark(key, path, "changed", f"{target} goes without {names}: nothing here needs it"))
        if name and not _defines(copied.text, str(name)):
            remarks.append(Remark(key, path, "to do", f"it has no {name}, which the run names: define it in {target}"))
        remarks += [Remark(key, path, "to do", f"{target} cannot be imported: {why}") for why in copied.missing]
        remarks += copied_remarks(key, path, "the run's checkout", target, copied)
    return Taken(project.with_hooks({**copying.files, **texts}, {}), remarks, changed)


def read_of(project: Recipient, said: Collection[str]) -> set[str]:
    """Return those of a run's settings that a class which it names by its file reads of its config."""
    kind = next(kind for kind in _KINDS if kind.config)
    path = project.settings.get(f"{kind.section}.path")
    try:
        text = None if not path else function_text(project.places, str(path), project.source)
        return own_call.among(said, own_call.settings_read(text or "", kind.config))
    except (SyntaxError, UsageError, OSError):
        return set()


def _told(text: str, name: str, kind: _Kind, package: str) -> dict[str, str]:
    """Return a copy whose class finds the run's own settings in its config, and the module that has them."""
    line = f"from {package}.custom.{FOLDER}.{own_call.OWN_SETTINGS} import told_of_all"
    text = f'{with_first(text, [line]).rstrip()}\n\n\ntold_of_all({name}, "{kind.config}")\n'
    return {kind.target: text, **support(text)}


def _defines(text: str, name: str) -> bool:
    """Tell whether a module has a name, as far as can be seen: a star may bring any."""
    module = Module("file", "file.py", text)
    return name in module.bindings or name in module.imports or bool(module.stars)


def _said(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error)
