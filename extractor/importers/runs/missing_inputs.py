"""Report a run's models and data as found or missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import JUDGE_ENABLED
from extractor.importers.runs.places import RunFolders, is_on_the_hub
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values import readers

_TEMPLATE = "actor_rollout_ref.model.custom_chat_template"
_DATA = ("data.train_files", "data.val_files")
_JUDGES = ("reward.reward_model.model_path", "reward_model.model.path")
_POLICY, _CRITIC = "actor_rollout_ref.model.path", "critic.model.path"
_MODELS = (_POLICY, "actor_rollout_ref.model.lora_adapter_path", _CRITIC, *_JUDGES)
# What a person has to supply where it is not here, or not known.
SUPPLIED = (*_DATA, *_MODELS)
# A path from where the run is started, of anything but code.
_OF_THE_RUN = re.compile(r"[^/~$:][^$:]*/[^$:]*(?<!\.py)")


def list_models_and_data(
    settings: Mapping[str, Any],
    project: Mapping[str, Any],
    whole: Mapping[str, Any],
    stated: Collection[str],
    places: RunFolders,
) -> tuple[dict[str, Any], list[Remark]]:
    """List the models and data files: found (with path) or missing.

    Args:
        settings: The run's.
        project: The project's config before.
        whole: Both together.
        stated: The keys that the run itself sets.
        places: Where the run may have been started from.

    Returns:
        Settings in place of those that are there, and what a user should know.
    """
    changed, remarks = _read_chat_template(settings.get(_TEMPLATE), places)
    if not any(whole.get(key) for key in JUDGE_ENABLED):
        changed.update({key: project[key] for key in _JUDGES if key in settings and key in project})
    for key in SUPPLIED:
        if key in changed:
            continue
        if settings.get(key) == "":
            why = f"only known to a run of the script, or empty: python main.py {key}=..."
            remarks.append(Remark(key, "", "to do", why))
            continue
        at, missing = _locate_paths(settings.get(key), places, _is_model if key in _MODELS else readers.is_there)
        if at != settings.get(key):
            changed[key] = at
        if missing and key == _CRITIC and key not in stated and key in project:
            changed[key] = f"${{{_POLICY}}}"
            why = "the run does not say it, and verl's default is not here: the critic starts from the policy's model"
            remarks.append(Remark(key, ", ".join(missing), "changed", why))
        elif missing:
            why = f"not here: put it there, or python main.py {key}=..."
            remarks.append(Remark(key, ", ".join(missing), "to do", why))
    return changed, remarks


def list_files(settings: Mapping[str, Any], places: RunFolders) -> tuple[dict[str, Any], list[Remark]]:
    """Return absolute paths of other files that settings name, with remarks."""
    changed = {
        key: str(file)
        for key, value in settings.items()
        if isinstance(value, str) and _OF_THE_RUN.fullmatch(value) and key not in SUPPLIED
        if (file := places.find(value)) is not None
    }
    return changed, [Remark(key, settings[key], "changed", f"here it is {file}") for key, file in changed.items()]


def _read_chat_template(template: Any, places: RunFolders) -> tuple[dict[str, Any], list[Remark]]:
    """Replace a chat template's path by the file's text."""
    if not isinstance(template, str) or not template or "{" in template:
        return {}, []
    file = places.find(template)
    if file is None or not file.is_file():
        why = f"a file that is not here: set {_TEMPLATE} to its text; until then the tokenizer's own is used"
        return {_TEMPLATE: None}, [Remark(_TEMPLATE, template, "to do", why)]
    return {_TEMPLATE: readers.read_text(file)}, [Remark(_TEMPLATE, template, "changed", "the text of this file")]


def _is_model(path: Path) -> bool:
    return readers.is_there(path) and path.is_dir()


def _locate_paths(value: Any, places: RunFolders, is_there: Callable[[Path], bool]) -> tuple[Any, list[str]]:
    """Return absolute paths where files exist, and the missing paths."""
    if isinstance(value, list):
        found = [_locate_paths(item, places, is_there) for item in value]
        return [at for at, _ in found], [path for _, missing in found for path in missing]
    if not isinstance(value, str) or not value or "${" in value:
        return value, []
    path = Path(value)
    if path.is_absolute() or value.startswith(("~", "hdfs:", "s3:")):
        return value, [] if is_there(path.expanduser()) else [value]
    at = next((folder / path for folder in places.folders if is_there(folder / path)), None)
    if at is not None:
        return str(at), []
    return value, [] if is_on_the_hub(value) else [value]
