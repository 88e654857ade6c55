"""Write shipped.json: what a project knows of its settings."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from extractor.pipeline.render.registered import collect_registered_words
from extractor.values import resources
from extractor.values.configtree.compose import read_mapping

_ESTIMATOR, _LOSS = "algorithm.adv_estimator", "actor_rollout_ref.actor.policy_loss.loss_mode"
_ACTOR = "actor_rollout_ref.actor"
# Settings that choose something registered: by which decorator.
_REGISTERED = {_ESTIMATOR: "register_adv_est", _LOSS: "register_policy_loss"}
# Where the settings are that are arguments of such a function, each of only some of these.
_ARGUMENTS = {_ESTIMATOR: ("algorithm",), _LOSS: (_ACTOR, f"{_ACTOR}.policy_loss")}
# Up to 0.5.0 verl's actor computes the clipped loss itself.
_CLIPS = ("clip_ratio", "clip_ratio_c", "clip_ratio_high", "clip_ratio_low")
_LISTS = ("null_or", "only_with")
_NOT_SHIPPED = ("also", "reader")


@cache
def read_schema() -> Mapping[str, Mapping[str, Any]]:
    """Return what is known of every setting, by dotted key."""
    found: Mapping[str, Mapping[str, Any]] = read_mapping(
        (resources.find_templates() / "schema.yaml").read_text(encoding="utf-8")
    )
    return found


def write_shipped(tables: Mapping[str, object]) -> str:
    """Write shipped.json, one line for each entry."""
    lines = []
    for name, table in tables.items():
        if isinstance(table, Mapping) and table:
            entries = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in table.items())
            lines.append(f'"{name}": {{\n ' + ",\n ".join(entries) + "}")
        else:
            lines.append(f'"{name}": {json.dumps(table)}')
    return ",\n".join(lines)


def select_schema(
    shipped: Iterable[str],
    unread: Mapping[str, Sequence[Any]],
    readers: Mapping[str, Sequence[str]],
    values: Mapping[str, Sequence[str]],
) -> dict[str, dict[str, Any]]:
    """Return what is known of a project's settings.

    Args:
        shipped: The keys of the project's settings.
        unread: Those that nothing in the project reads, with the values that they come with.
        readers: What would read them.
        values: What the words of the schema stand for that name values: agg_modes, kl_estimators, modes, engine.
    """
    keys = {*shipped}
    sections = {key[:place] for key in keys for place, letter in enumerate(key) if letter == "."}
    found: dict[str, dict[str, Any]] = {}
    for key in sorted(keys | (sections & read_schema().keys())):
        known = read_schema().get(key, {})
        entry: dict[str, Any] = {
            name: _write_sequence(value) if name in _LISTS else value
            for name, value in known.items()
            if name not in _NOT_SHIPPED
        }
        if isinstance(entry.get("values"), str):
            entry["is_compared"] = entry["values"] in ("agg_modes", "kl_estimators")
            entry["values"] = values[entry["values"]]
        if "values" in entry:
            entry["values"] = tuple(entry["values"])
        if "only_with" in entry:
            entry["only_with"] = tuple(item for item in entry["only_with"] if item.partition("=")[0] in keys)
        if str(entry.get("still_with", "")).partition("=")[0] not in keys:
            entry.pop("still_with", None)
        if key in unread:
            reader = known.get("reader", known.get("needs"))
            parts = [f"feature {reader}"] if reader else readers.get(key, ())
            entry |= {"unread": tuple(unread[key]), "readers": ", ".join(parts)}
        entry = {name: value for name, value in entry.items() if value not in ((), "", False) or name == "without"}
        if entry:
            found[key] = entry
    return found


def map_aliases(shipped: Iterable[str]) -> dict[str, str]:
    """Map other libraries' setting names to the project's."""
    keys = {*shipped}
    found = {name: key for key, known in read_schema().items() if key in keys for name in known.get("also", ())}
    return dict(sorted(found.items()))


def group_names(shipped: Iterable[str]) -> dict[str, str]:
    """Map each section to the names of its settings, blank-separated."""
    sections: dict[str, list[str]] = {}
    for key in sorted(shipped):
        section, _, name = key.rpartition(".")
        sections.setdefault(section, []).append(name)
    return {section: " ".join(names) for section, names in sorted(sections.items())}


def reads_of(shipped: Iterable[str], algorithms: str) -> dict[str, dict[str, Sequence[str]]]:
    """Map settings that only some estimators or losses read to those.

    Args:
        shipped: The keys of the project's settings.
        algorithms: The text of verl's core_algos.py, as the project has it.
    """
    keys = {*shipped}
    found: dict[str, dict[str, Sequence[str]]] = {}
    for switch, sections in _ARGUMENTS.items():
        words = {**({"vanilla": frozenset(_CLIPS)} if switch == _LOSS else {})}
        words |= collect_registered_words(algorithms, _REGISTERED[switch])
        names = {key.rpartition(".")[2] for key in keys if key.rpartition(".")[0] in sections}
        some = {name for name in names if 0 < sum(name in known for known in words.values()) < len(words)}
        found[switch] = {function: tuple(sorted(some & known)) for function, known in sorted(words.items())}
    return found


def _write_sequence(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else (value,)
