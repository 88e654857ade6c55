"""Classify settings that a project has no key for, and report what was not simply carried."""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import READ_BY_THE_ENGINE, list_candidates
from extractor.importers.config.templates import read_table, render
from extractor.importers.runs.placeholders import find_unknowns, make_readable

# What the run leaves to verl's defaults, and the project does in its own way: no setting is lost by it.
KEPT = "the project's own"
FILE = "from_run.md"
# What each kind of remark is called where it is read, what matters most first.
TITLES: Mapping[str, str] = {
    "to do": "you must supply",
    "unhandled": "not known",
    "not carried over": "not carried over",
    "changed": "different",
    "renamed": "under another name",
    "lowered": "lowered to one device",
    "dropped": "of no use here",
    KEPT: "as the project has it",
}
# What a user must know before the first run; the rest is in the file.
FIRST = ("to do", "unhandled", "not carried over", "changed")
_Renamed = Callable[[str], str | None]
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
    """The outcome of settings whose keys match a pattern."""

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


def write_headline(file: str, release: str, config: Mapping[str, Any], settings: int) -> str:
    """Return the headline: algorithm, engine, model and number of settings.

    Args:
        file: The run.
        release: What it was written for.
        config: The project's, flat and resolved.
        settings: How many of the run's settings differ from the project's own.
    """
    algorithm = "distillation" if config.get("distillation.enabled") else config.get("algorithm.adv_estimator")
    engine = config.get("actor_rollout_ref.rollout.name")
    model = config.get("actor_rollout_ref.model.path") or "a toy model"
    name = Path(file).name
    return f"{name}, written for verl {release}: {algorithm} with {engine} on {model}, {settings} settings of its own"


def describe_origin(readme: str, said: str) -> str:
    """Return a project's README that says what it was made of, in place of its toy task."""
    section = re.compile(r"(?ms)^(The run is in [^\n]*\n(?:\nMade of .*?\n(?=\n))?).*?(?=^For your own model)")
    lines = textwrap.fill(said, 118, break_long_words=False, break_on_hyphens=False)
    return section.sub(lambda found: f"{found[1]}\n{lines}\n\n", readme, count=1)


def write_report(head: str, remarks: Sequence[Remark], notes: Sequence[str]) -> str:
    """Return the report's text."""
    kinds = {title: [item for item in remarks if item.what == what] for what, title in TITLES.items()}
    return render(FILE, head=make_readable(head), kinds=kinds, notes=notes, show=_show)


def _show(value: Any) -> str:
    """Return a value or sentence in one line, for a cell of a table."""
    return " ".join(make_readable(str(value)).split())


def remark_on_defaults(
    run: Mapping[str, Any],
    stated: Mapping[str, Any],
    project: Mapping[str, Any],
    usual: Mapping[str, Any],
    renames: tuple[_Renamed, _Renamed],
    said: Sequence[Remark],
) -> Iterator[Remark]:
    """Yield remarks on values that differ without a word.

    Args:
        run: Its config, flat and resolved, with the defaults of its checkout.
        stated: The keys that the run itself sets; of a resolved config nobody knows.
        project: The project's config in the end, flat and resolved.
        usual: The defaults of the project's release: what verl does there that the project has no setting for.
        renames: From the run's release's keys to the project's, and back.
        said: The remarks that there are.
    """
    there, back = renames
    about = {item.key for item in said}
    others = {key: [READ_BY_THE_ENGINE.get(key, key), *list_candidates(key, back)] for key in project}
    places: dict[str, list[str]] = {}
    for key, names in others.items():
        for name in dict.fromkeys(names):
            places.setdefault(name, []).append(key)
    for key, value in run.items():
        names = list_candidates(key, there)
        own = list(dict.fromkeys([*places.get(key, ()), *(name for name in names if name in project)]))
        is_reference = isinstance(value, str) and "${" in value
        if about & {key, *own} or key.endswith("_target_") or find_unknowns(value) or is_reference:
            continue
        # A release may have an old name beside the new one: null, or at its default where the other is said.
        also = [name for item in own for name in others[item] if name in stated or (value is None and name in run)]
        counts = [name for name in ([key] if key in stated else [key, *also]) if name in run]
        default = next((name for name in names if name in usual), None)
        if own:
            if all(not _is_same(run[name], project[item]) for item in own for name in counts):
                where = f"here {own[0]}" if own[0] != key else "here it"
                yield Remark(key, value, "changed" if key in stated else KEPT, f"{where} is {project[own[0]]}")
        elif default is not None and not _is_same(value, usual[default]):
            rule = find_rule(key)
            why = "the project has no such setting" if rule is None else rule.why
            yield Remark(key, value, KEPT, f"{why} (by default it is {usual[default]} in the project's release)")


def _is_same(theirs: Any, ours: Any) -> bool:
    if isinstance(ours, list) and isinstance(theirs, str):
        theirs = [theirs]  # one logger, one file
    return bool(theirs == ours) and isinstance(theirs, bool) == isinstance(ours, bool)
