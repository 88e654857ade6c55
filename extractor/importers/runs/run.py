"""Hold a verl run as written or translated, and its reading options; parse its overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from extractor.importers.runs.bash import refuse_length
from extractor.importers.runs.placeholders import find_unknowns, make_readable, replace_unknowns
from extractor.importers.runs.report import Remark
from extractor.importers.runs.run_folders import RunFolders
from extractor.values import limits
from extractor.values.configtree import BadOverride, Override, flatten, parse_override
from extractor.values.configtree.compose import merge
from extractor.values.errors import UsageError

# What a reader of the script is to put in: `<your path>`, `{your_path}`.
_PLACEHOLDER = re.compile(r"<[^<>]+>|\{\w+\}")
_QUOTES = "'\""
_KEY = r"\+{0,2}[A-Za-z_][\w.]*"
_OPEN = "data.apply_chat_template_kwargs."
ROWS = (
    "save its rows as parquet or JSON lines, with a prompt (text or messages) and a ground_truth, solution or answer; "
    "other columns come along"
)


@dataclass(frozen=True)
class ScoringFunction:
    """A run's scoring function, in a file that the run names."""

    text: str = field(repr=False)
    place: str
    function: str
    settings: Mapping[str, Any]
    folder: Path


@dataclass(frozen=True)
class PromptTemplate:
    """Text that a run adds to its prompts.

    Attributes:
        template: Of Jinja; `content` is the prompt.
        system: The message of the system before it; "": none.
        answer: The column that has the answer, where that is none of the usual ones.
        place: The template's file, for messages.
    """

    template: str
    system: str
    answer: str | None
    place: str


@dataclass(frozen=True)
class Run:
    """A run of verl as written.

    Attributes:
        file: Where.
        overrides: In order; unknown parts are still in them.
        resolved: A resolved config, nested; None where there are overrides instead.
        config_name: The primary config.
        program: The module that is launched, or its file; "": not known.
        version: That of the verl in its checkout, as it says itself; None: there is none.
        defaults: What it starts from where that is not a release's config: its checkout's own, or those of its time.
        overlay: Config files beside the script that the run names, in order.
        notes: What a user should know of how it was read.
        environment: Variables that the command would see.
        places: Where its relative paths may lead.
        remarks: What became of settings that verl has no name for.
        is_whole: Whether the defaults are all that its release had.
        scoring_function: What scores in a run of EasyR1's; None: the settings say what does.
        prompt_template: What a run of EasyR1's adds to its prompts.
    """

    file: str
    overrides: tuple[Override, ...] = ()
    resolved: Mapping[str, Any] | None = None
    config_name: str = "ppo_trainer"
    program: str = ""
    version: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict, repr=False)
    overlay: tuple[Mapping[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    places: RunFolders = field(default_factory=lambda: RunFolders(()), repr=False)
    remarks: tuple[Remark, ...] = ()
    scoring_function: ScoringFunction | None = None
    prompt_template: PromptTemplate | None = None
    is_whole: bool = False


@dataclass(frozen=True)
class ReadOptions:
    """The arguments of `read_run`, and the folders to search."""

    given: Mapping[str, str]
    environment: Mapping[str, str]
    config_dirs: Sequence[Path]
    places: RunFolders


def flatten_settings(run: Run) -> dict[str, Any]:
    """Return all settings of a run and its configs, by key."""
    if run.resolved is not None:
        return dict(flatten(run.resolved))
    merged: dict[str, Any] = {}
    for body in (run.defaults, *run.overlay):
        merge(merged, body)
    return {**flatten(merged), **{item.key: item.value for item in run.overrides if item.mark != "~"}}


def is_override(word: str) -> bool:
    """Tell whether a word sets, adds or deletes a setting."""
    return re.match(r"[\"']?(?:~[\w.@/]+$|(?:\+\+|\+|~)?[A-Za-z_][\w.@/]*=)", word) is not None


def read_overrides(words: Sequence[str], where: str) -> tuple[Override, ...]:
    """Parse overrides.

    Raises:
        UsageError: Hydra would refuse one, or there are too many.
    """
    if len(words) > limits.MAX_OVERRIDES:
        raise refuse_length(where, f"more than {limits.MAX_OVERRIDES:,} overrides")
    if sum(map(len, words)) > limits.MAX_OVERRIDES_TEXT:
        raise refuse_length(where, f"overrides of more than {limits.MAX_OVERRIDES_TEXT:,} characters")
    return tuple(_parse_override(word, where) for word in words)


def _parse_override(word: str, where: str) -> Override:
    text, back = replace_unknowns(word)
    try:
        found = parse_override(text)
    except BadOverride as error:
        key, _, value = text.partition("=")
        if re.fullmatch(_KEY, key) and (_PLACEHOLDER.search(value) or find_unknowns(word)):
            return Override(key[: len(key) - len(key.lstrip("+"))], key.lstrip("+"), back(value.strip(_QUOTES)), word)
        said = make_readable(back(str(error)))
        raise UsageError(f"{where}: {said}", hint="Hydra would refuse it as well: correct it") from None
    return Override(found.mark, back(found.key), back(found.value), word)


def is_nothing(value: Any) -> bool:
    """Tell whether a value is None, False or an empty container."""
    return value is None or value is False or value in ([], {})


def write_overrides(found: Mapping[str, Any]) -> tuple[Override, ...]:
    """Return overrides for settings; keys of open sections are added."""
    return tuple(
        Override("++" if key.startswith(_OPEN) else "", key, value, f"{key}={value}") for key, value in found.items()
    )
