"""Map a project's config keys to those of a verl release."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from extractor.importers.config.release import ReleaseConfig, VerlDefaults
from extractor.importers.config.templates import read_table

_TABLE = read_table("keys")
MOVES: Sequence[tuple[str, str]] = _TABLE["moves"]
# verl's settings of tools.
_MULTI_TURN = "actor_rollout_ref.rollout.multi_turn"
CLASSES, FUNCTIONS = f"{_MULTI_TURN}.tool_config_path", f"{_MULTI_TURN}.function_tool_path"
READ_BY_THE_ENGINE: Mapping[str, str] = _TABLE["read_by_the_engine"]

# Settings that releases call otherwise, and that say who scores: the newest name first.
REWARD_FILE = ("reward.custom_reward_function.path", "custom_reward_function.path")
REWARD_MANAGER = ("reward.reward_manager.name", "reward_model.reward_manager")
JUDGE_ENABLED = ("reward.reward_model.enable", "reward_model.enable")
_NOTHING = object()
_OF_HOOKS, _BY_NAME = "data.env", "distillation.teacher_models"  # the latter's sections have names of one's own


class KeyStatus(str, Enum):
    """The outcome of a config key."""

    CARRIED = "carried"
    DEFAULT = "the release's default"
    RENAMED = "renamed"
    ADDED = "added"
    CHANGED = "changed"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Key:
    """A project's config key, and its outcome in a release.

    Attributes:
        key: The project's.
        value: The project's, resolved.
        status: What became of it.
        target: The release's key; None where it is dropped.
        target_value: What is written there.
        mark: "" or "+".
        reason: Why, where it is not simply carried.
        is_lost: Whether it is dropped, and nothing else of the export has what it says.
    """

    key: str
    value: Any
    status: KeyStatus
    target: str | None = None
    target_value: Any = None
    mark: str = ""
    reason: str = ""
    is_lost: bool = False

    @property
    def written(self) -> bool:
        """Tell whether the launch script has it."""
        return self.status not in (KeyStatus.DROPPED, KeyStatus.DEFAULT)


def is_about_machine(key: str) -> bool:
    """Tell whether a key is about the machine, not the experiment."""
    parts = key.split(".")
    sections = (".".join(parts[:end]) for end in range(1, len(parts)))
    return any(parts[section.count(".") + 1] in _TABLE["about_the_machine"].get(section, ()) for section in sections)


def list_candidates(key: str, renamed: Callable[[str], str | None] = lambda key: None) -> list[str]:
    """Return a key's possible names in another release, likeliest first."""
    newer, older = [name for name in (renamed(key),) if name is not None], []
    for old, new in reversed(MOVES):
        if key == old or key.startswith(f"{old}."):
            newer.append(new + key.removeprefix(old))
        elif key == new or key.startswith(f"{new}."):
            older.append(old + key.removeprefix(new))
    return list(dict.fromkeys([*newer, key, *older]))


def name_in(key: str, defaults: VerlDefaults, renamed: Callable[[str], str | None] = lambda key: None) -> str | None:
    """Return a key's name in a release, or None."""
    # A release may keep an old name that nothing reads any more, beside the new one.
    return next((name for name in list_candidates(key, renamed) if name in defaults), None)


def map_key(
    key: str, value: Any, target: ReleaseConfig, defaults: VerlDefaults, changed: Mapping[str, tuple[Any, str]]
) -> Key:
    """Decide what a key becomes in a release.

    Args:
        key, value: The project's.
        target: The release.
        defaults: Its config without overrides.
        changed: Keys whose value has to be another one there: value and reason.
    """
    if key.startswith("local."):
        return _lose(key, value, _TABLE["local"].get(key.split(".")[1], "only this project's trainer has it"))
    new_value, why = changed.get(key, (value, ""))
    name = name_in(key, defaults)
    if name is None or (isinstance(value, Mapping) and value):  # Hydra takes new keys of a mapping with a + alone
        name = name or max(list_candidates(key), key=defaults.depth)
        return _add(name, key, value, (new_value, why), target, defaults)
    if value != new_value:
        return Key(key, value, KeyStatus.CHANGED, name, new_value, reason=why)
    if name != key:
        return Key(key, value, KeyStatus.RENAMED, name, value, reason=f"its name in verl {target.release}")
    if defaults.flat.get(key, _NOTHING) == value and not is_about_machine(key):
        return Key(key, value, KeyStatus.DEFAULT, name, value)
    return Key(key, value, KeyStatus.CARRIED, name, value)


def _add(
    name: str, key: str, value: Any, changed: tuple[Any, str], target: ReleaseConfig, defaults: VerlDefaults
) -> Key:
    """Decide whether a key missing from the release's config is added."""
    new_value, why = changed
    if value is None or value == {}:
        return Key(key, value, KeyStatus.DROPPED, reason=f"verl {target.release} has no such key, and it is not set")
    if key.startswith("reward_model.") and "reward.reward_model" in defaults:
        return _lose(key, value, f"verl {target.release} runs reward models as servers")
    if key.startswith("reward_manager."):
        return Key(
            key, value, KeyStatus.DROPPED, reason=f"verl {target.release} has its reward manager's name elsewhere"
        )
    refusal = target.refuses(name, defaults.config)
    if refusal is not None:
        return _lose(key, value, refusal)
    # Of a section with names of its own, keys that are no words are nothing that code reads.
    is_read = name not in defaults and target.is_read_in_training(name, defaults.config)
    if not is_read and not _is_open(name, defaults):
        return _lose(key, value, f"nothing in verl {target.release} reads it")
    return Key(
        key, value, KeyStatus.ADDED, name, new_value, "+", why or f"verl {target.release} reads it, and has no default"
    )


def _lose(key: str, value: Any, reason: str) -> Key:
    return Key(key, value, KeyStatus.DROPPED, reason=reason, is_lost=True)


def _is_open(key: str, defaults: VerlDefaults) -> bool:
    """Tell whether a key lies in a section accepting any key."""
    if key.startswith(_OF_HOOKS) or (key.startswith(f"{_BY_NAME}.") and _BY_NAME in defaults):
        return True
    parts = key.split(".")
    sections = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return any(section in defaults.flat and defaults.flat[section] in ({}, None) for section in sections)


def list_tools(table: Any) -> list[dict[str, Any]]:
    """Return the entries of a table of tools."""
    listed = (table.get("tools") or ()) if isinstance(table, dict) else ()
    return [item for item in listed if isinstance(item, dict)]
