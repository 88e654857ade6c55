"""Refuse configs that cannot be exported; warn of lost settings."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import Key, is_about_machine
from extractor.importers.config.project import ProjectConfig
from extractor.values.errors import UsageError
from extractor.values.setting_types import PATH, read_types_and_words

_KINDS = {"bool": "true or false", "int": "a whole number", "float": "a number"}
_FILES = ("data.train_files", "data.val_files")
# What needs more of verl than a trainer and hooks.
_NO_PART = {
    "local.prime.enable": "PRIME is not part of verl, but a recipe of verl-recipe, prime",
    "distillation.enabled": "verl serves teachers on GPUs of their own, and an export sets up none",
    "reward_model.enable": "verl runs reward models in workers or servers of their own, and an export sets up none",
    "reward.reward_model.enable": "verl serves reward models on GPUs of their own, and an export sets up none",
}
# Of the project's own settings these change what is learned, or from what.
_OWN = (
    "local.early_stopping.patience",
    "local.keep_special_tokens",
    "local.quantization.load_in_4bit",
    "local.rollout.ahead",
)
_LEARNED = ("actor_rollout_ref.", "algorithm.", "critic.", "custom_reward_function.", "data.", "reward")
# Parts of keys that say where, how fast and under which names something is computed, stored, shown or validated.
_ABOUT_ELSE = re.compile(
    r"(?:^|[._])(?:calculate|checkpoint\w*|chunk\w*|dtype|fsdp\w*|gpu\w*|key|max_num\w*|micro_batch\w*|profiler"
    r"|return_\w+|sandbox_fusion|seed|server|timeout|trace|val|validation\w*|workers)(?:$|[._])"
)
# What a release does that has no such setting.
_USUAL: tuple[Any, ...] = (None, False, 0, -1, "", [], {}, "vanilla", "token-mean")


def check(config: ProjectConfig, usual: Mapping[str, Any], package: Path) -> None:
    """Check an exported config as the project's `settings/loading.py` would.

    Args:
        config: What is exported.
        usual: Dotted key -> value of the project without the settings of the command line.
        package: The project's package.

    Raises:
        UsageError: a text stands in the place of a number, a word is none of those that there are, one of training and
            validation has files and the other has none, or an export has no part for it.
    """
    flat = config.flat
    kinds, words = read_types_and_words(file.read_text(encoding="utf-8") if (file := package / PATH).is_file() else "")
    for key, value in flat.items():
        kind = kinds.get(key) or type(usual.get(key)).__name__
        if isinstance(value, str) and kind in _KINDS:
            raise UsageError(
                f"{key} is {value!r}, which is not {_KINDS[kind]}", hint=f"--set {key}={json.dumps(usual.get(key))}"
            )
        if value is not None and value not in words.get(key, [value]):
            raise UsageError(f"{key} is {value!r}", hint=f"choose one of: {', '.join(map(str, words[key]))}")
    for key, other in (_FILES, _FILES[::-1]):
        if flat.get(key) and not flat.get(other) and not flat.get("data.custom_cls.path"):
            raise UsageError(f"{key} is set and {other} is not", hint=f"--set {other} to a file of its own")
    for key, why in _NO_PART.items():
        if flat.get(key):
            raise UsageError(f"{key}=true: {why}", hint=f"--set {key}=false exports the training without it")


def list_lost_settings(keys: Sequence[Key]) -> list[str]:
    """Return warnings of lost settings that change the experiment, by section."""
    flat = {key.key: key.value for key in keys}
    found = [key for key in keys if key.is_lost and _is_experiment_changed(key.key, key.value, flat)]
    groups = groupby(
        sorted(found, key=lambda key: (key.key.rpartition(".")[0], key.reason)),
        lambda key: (key.key.rpartition(".")[0], key.reason),
    )
    said = {
        place: [f"{key.key.rpartition('.')[2]}={json.dumps(key.value)}" for key in items] for place, items in groups
    }
    return [
        f"{section} ({', '.join(items)}): {reason}, so this is another experiment there"
        for (section, reason), items in said.items()
    ]


def _is_experiment_changed(key: str, value: Any, flat: Mapping[str, Any]) -> bool:
    """Tell whether losing a setting changes training or prompts."""
    is_neutral = key.endswith("repetition_penalty") and value == 1.0
    if is_neutral or (value is not True and value in _USUAL):
        return False
    parts = key.split(".")
    switches = (f"{'.'.join(parts[:end])}.enable" for end in range(1, len(parts)))
    is_on = all(flat.get(switch, True) for switch in switches)
    is_vanilla = ".policy_loss." in key and flat.get("actor_rollout_ref.actor.policy_loss.loss_mode") == "vanilla"
    is_learned = key.startswith(_LEARNED) and not is_about_machine(key) and not _ABOUT_ELSE.search(key)
    return key in _OWN or (is_learned and is_on and not is_vanilla)
