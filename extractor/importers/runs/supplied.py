"""What a run's owner has to supply where it is not here: models, data, variables that are exported, a template."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from extractor.importers.runs.files import Places, is_on_the_hub
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.taken_over.recipient import Recipient
from extractor.values import readers

_TEMPLATE = "actor_rollout_ref.model.custom_chat_template"
_DATA, _DATASET_CLASS = ("data.train_files", "data.val_files"), "data.custom_cls.path"
_JUDGES = ("reward.reward_model.model_path", "reward_model.model.path")
_JUDGE_ENABLED = ("reward.reward_model.enable", "reward_model.enable")
_POLICY, _CRITIC = "actor_rollout_ref.model.path", "critic.model.path"
_MODELS = (
    _POLICY,
    "actor_rollout_ref.model.lora_adapter_path",
    _CRITIC,
    *_JUDGES,
)
# A reference to a variable of the environment, which has no default; and those that there are.
_OF_THE_ENVIRONMENT = re.compile(r"\$\{oc\.env:(\w+)\}")
_EVERYWHERE = {"HOME", "USER", "PWD", "PATH"}
# What a person has to supply where it is not here, or not known.
SUPPLIED = (*_DATA, *_MODELS)
# A path from where the run is started, of anything but code.
_OF_THE_RUN = re.compile(r"[^/~$:][^$:]*/[^$:]*(?<!\.py)")


def models_and_data(
    settings: Mapping[str, Any],
    project: Mapping[str, Any],
    whole: Mapping[str, Any],
    stated: Collection[str],
    places: Places,
) -> tuple[dict[str, Any], list[Remark]]:
    """Say which models and data are not here, and where those are that are.

    Args:
        settings: The run's.
        project: The project's config before.
        whole: Both together.
        stated: The keys that the run itself sets.
        places: Where the run may have been started from.

    Returns:
        Settings in place of those that are there, and what a user should know.
    """
    changed, remarks = _of_the_environment(settings)
    if not any(whole.get(key) for key in _JUDGE_ENABLED):
        changed.update({key: project[key] for key in _JUDGES if key in settings and key in project})
    for key in SUPPLIED:
        if key in changed:
            continue
        if settings.get(key) == "":
            remarks.append(
                Remark(key, "", "to do", f"only known to a run of the script, or empty: python main.py {key}=...")
            )
            continue
        at, missing = _located(settings.get(key), places, _is_model if key in _MODELS else readers.is_there)
        if key in _DATA and not settings.get(_DATASET_CLASS):  # a class of the run's own may read directories
            at, folders = _with_their_files(at)
            why = "the Parquet files of it: a project takes files"
            remarks += [Remark(key, folder, "changed", why) for folder in folders]
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


def files(settings: Mapping[str, Any], places: Places) -> tuple[dict[str, Any], list[Remark]]:
    """Say where the run's files are that its settings name, data and code aside: a project is started elsewhere.

    Args:
        settings: The run's.
        places: Where the run may have been started from.
    """
    changed = {
        key: str(file)
        for key, value in settings.items()
        if isinstance(value, str) and _OF_THE_RUN.fullmatch(value) and key not in SUPPLIED
        if (file := places.find(value)) is not None
    }
    return changed, [Remark(key, settings[key], "changed", f"here it is {file}") for key, file in changed.items()]


def _of_the_environment(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Remark]]:
    """Name the variables that settings are of; without one, a project starts all the same and says what it wants."""
    changed: dict[str, Any] = {}
    remarks: list[Remark] = []
    for key, value in settings.items():
        names = _OF_THE_ENVIRONMENT.findall(value) if isinstance(value, str) else []
        if names and not all(name in _EVERYWHERE for name in names):
            if key in SUPPLIED:
                changed[key] = _OF_THE_ENVIRONMENT.sub(r"${oc.env:\1,''}", value)
            why = f"export {', '.join(dict.fromkeys(names))} before a run, or python main.py {key}=..."
            remarks.append(Remark(key, value, "to do", why))
    return changed, remarks


def chat_template(settings: Mapping[str, Any], of_run: Recipient) -> tuple[dict[str, Any], list[Remark]]:
    """Take the text of a file where the run names one: only its own trainer reads it."""
    name = settings.get(_TEMPLATE)
    if not isinstance(name, str) or "{" in name or not name:
        return {}, []
    file = of_run.places.find(name)
    if file is None or not file.is_file():
        why = f"a file, which is not here: set {_TEMPLATE} to its text. It is the tokenizer's own here"
        return {_TEMPLATE: None}, [Remark(_TEMPLATE, name, "to do", why)]
    return {_TEMPLATE: readers.read_text(file)}, [Remark(_TEMPLATE, name, "changed", "the text of this file")]


def _is_model(path: Path) -> bool:
    return readers.is_there(path) and path.is_dir()


def _with_their_files(value: Any) -> tuple[Any, list[str]]:
    """Return data files with the Parquet files of a directory in its place, and the directories: pandas reads these."""
    paths = value if isinstance(value, list) else [value]
    found: list[Any] = []
    folders = []
    for path in paths:
        place = Path(path).expanduser() if isinstance(path, str) and path else None
        files = sorted(map(str, place.glob("*.parquet"))) if place is not None and readers.is_there(place) else []
        found += files or [path]
        folders += [path] if files else []
    return (found, folders) if folders else (value, [])


def _located(value: Any, places: Places, is_there: Callable[[Path], bool]) -> tuple[Any, list[str]]:
    """Return a path, or a list of them, from the root where it leads somewhere, and those that lead nowhere."""
    if isinstance(value, list):
        found = [_located(item, places, is_there) for item in value]
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
