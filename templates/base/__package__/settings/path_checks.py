# vextract:template - edit freely
"""Check that the files and directories that a config names are there, before anything slow is imported."""

import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..errors import ConfigError
from ..output import main_command
from ..switches import DISTILLATION, REWARD_LOGS, REWARD_MODEL, SHARDED_CHECKPOINTS
from . import reward_keys
from .share_checks import unread_shares
from .teacher_models import teacher_paths

# Directories with a model, or names on the hub.
MODELS: tuple[str, ...] = (
    "actor_rollout_ref.model.path",
    "actor_rollout_ref.model.lora_adapter_path",
    "actor_rollout_ref.ref.model.path",
    "critic.model.path",
    "critic.model.tokenizer_path",
    "local.prime.path",
)
if REWARD_MODEL:
    MODELS += (reward_keys.JUDGE_PATH,)
DATA = ("data.train_files", "data.val_files")
# Files with the owner's code.
CODE = (
    f"{reward_keys.FUNCTION}.path",
    f"{reward_keys.MANAGER.rpartition('.')[0]}.module.path",
    "data.custom_cls.path",
)
# Directories that a run writes into, and makes where they are missing.
WRITTEN: tuple[str, ...] = (
    "trainer.default_local_dir",
    "local.server.weights_directory",
)
CACHE = "data.cache_dir"  # what is kept there is made anew where it cannot be, or not needed
if REWARD_LOGS:
    DEBUG_LOG = "local.reward.debug_log"  # the beginning of a file's name
    WRITTEN += ("local.reward.log_dir", DEBUG_LOG, "trainer.rollout_data_dir", "trainer.validation_data_dir")


def check_paths(config: DictConfig) -> None:
    """Check that what a config names is there, or can be written. Only rank 0 does either, so only rank 0 looks.

    Raises:
        ConfigError: a file or directory is missing, or a model is in shares where a whole one is needed; or a directory
            cannot be made or written to.
    """
    if os.environ.get("RANK", "0") == "0":
        for message, hint in (*_misnamed(config), *_missing(config), *_unwritable(config)):
            raise ConfigError(message, hint)


def _misnamed(config: DictConfig) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the name of a run, which is its directory, and stands in commands."""
    for key in ("trainer.project_name", "trainer.experiment_name"):
        name = str(OmegaConf.select(config, key) or "")
        if not name.strip() or not name.isprintable() or ".." in Path(name).parts:
            yield f"{key} is {name!r}, which names no directory of its own", main_command(f"{key}=mine")


def _unwritable(config: DictConfig) -> Iterator[tuple[str, str]]:
    for key in (*WRITTEN, CACHE):
        for path in _paths(config, key):
            place = Path(path).expanduser()
            directory = place.parent if REWARD_LOGS and key == DEBUG_LOG else place
            there = next((each for each in (directory, *directory.parents) if os.path.lexists(each)), None)
            if there is None or "://" in path:
                continue
            hint = f"set {key} to a directory that you can write to"
            if not there.is_dir():
                yield f"cannot write to {path}: {there} is no directory", hint
            elif key != CACHE and not os.access(there, os.W_OK | os.X_OK):
                yield f"cannot write to {path}: {there} is not writable", hint


def _missing(config: DictConfig) -> Iterator[tuple[str, str]]:
    keys = [*MODELS]
    if DISTILLATION:
        keys += teacher_paths(config)
    for key in keys:
        for path in _paths(config, key):
            if _is_of_this_machine(path) and not _exists(path):
                yield f"no model at {path}: there is no such directory", f"check {key}"
    if SHARDED_CHECKPOINTS:
        yield from unread_shares(config, _paths)
    own_class = config.data.custom_cls.path is not None  # it may take anything for the name of a file
    for key in () if own_class else DATA:
        for path in _paths(config, key):
            if "://" not in path and not _exists(path):
                yield f"no such file: {path}", f"check {key}"
    for key in CODE:
        for path in _paths(config, key):
            if "://" not in path and not Path(path).expanduser().is_file():
                yield f"{key} is not a file: {path}", "give the path of a Python file"
    resume = config.trainer.resume_from_path if config.trainer.resume_mode == "resume_path" else None
    begin = config.local.checkpoint.begin_from
    if begin is not None and not _exists(begin):
        yield f"no checkpoint at {begin}: there is no such directory", "check local.checkpoint.begin_from"
    if resume is not None and not _exists(resume):
        yield f"{resume} is not a global_step_N directory", resume_hint(resume, config.trainer.default_local_dir)


def resume_hint(*places: Any) -> str:
    """Name the last checkpoint in the first of these directories that has one."""
    for place in filter(None, places):
        steps = [path for path in Path(place).expanduser().glob("global_step_*") if path.name[12:].isdigit()]
        if steps:
            last = max(steps, key=lambda path: int(path.name[12:]))
            return f"trainer.resume_mode=resume_path trainer.resume_from_path={shlex.quote(str(last))}"
    return "trainer.resume_mode=auto goes on from the run's own last checkpoint, if it has one"


def _paths(config: DictConfig, key: str) -> Iterable[str]:
    value = OmegaConf.select(config, key)
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str) else [str(item) for item in value]


def _is_of_this_machine(path: str) -> bool:
    """Tell whether this cannot be a name on the hub, nor a place elsewhere."""
    return "://" not in path and (path.startswith(("/", ".", "~")) or path.count("/") > 1)


def _exists(path: str) -> bool:
    return Path(path).expanduser().exists()
