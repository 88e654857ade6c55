"""Classify verl settings that a project has no key for."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from extractor.importers.config.templates import read_table

# What the run leaves to verl's defaults, and the project does in its own way: no setting is lost by it.
KEPT = "the project's own"
# Names of runs, directories, and when it is looked at, not what comes of it.
_ABOUT_WHERE = re.compile(
    r"(global_profiler|ray_|skip\.|trainer\.(default_|experiment_name|project_name|rollout_data_dir)).*"
    r"|trainer\.(logger|validation_data_dir|resume_from_path|device|save_freq|test_freq)"
)


@dataclass(frozen=True)
class Remark:
    """The outcome of a run's setting that is not simply carried.

    Attributes:
        key: verl's.
        value: As the run has it.
        what: "to do", "unhandled", "not carried over", "changed", "renamed", "lowered", "dropped" or KEPT.
        why: Reason.
    """

    key: str
    value: Any
    what: str
    why: str


@dataclass(frozen=True)
class Rule:
    """The outcome of settings whose keys match a pattern.

    Attributes:
        what: "lowered", "dropped" or "not carried over".
        why: Reason.
        pattern: Regular expression of whole keys, as verl calls them.
    """

    what: str
    why: str
    pattern: str

    def fits(self, key: str) -> bool:
        """Tell whether a key matches the rule's pattern."""
        return re.fullmatch(self.pattern, key) is not None


_OTHER_BACK_ENDS, _OTHER_SERVERS, _OTHER_PARTS = (
    tuple(Rule(item["what"], item["why"], "".join(item["pattern"])) for item in read_table("rules")[part])
    for part in ("back_ends", "servers", "parts")
)


def find_rule(key: str) -> Rule | None:
    """Return the first rule that fits a key, or None."""
    return next((rule for rule in (*_OTHER_BACK_ENDS, *_OTHER_SERVERS, *_OTHER_PARTS) if rule.fits(key)), None)


@lru_cache(maxsize=4096)
def is_of_another_back_end(key: str) -> bool:
    """Tell whether a key concerns machines, Ray or an unsupported backend."""
    return any(rule.fits(key) for rule in _OTHER_BACK_ENDS)


def is_about_where(key: str) -> bool:
    """Tell whether a key only concerns names, directories, machines or saving."""
    return (
        _ABOUT_WHERE.fullmatch(key) is not None
        or key.endswith(("nnodes", "n_gpus_per_node"))
        or is_of_another_back_end(key)
        or any(rule.fits(key) for rule in _OTHER_SERVERS)
    )
