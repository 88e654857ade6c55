"""Hold a verl run as written, and its reading options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from extractor.importers.runs.other_libraries.translation import FileScored, Written
from extractor.importers.runs.places import RunFolders
from extractor.importers.runs.unsupported_keys import Remark
from extractor.values.configtree import Override, flatten
from extractor.values.configtree.compose import merge


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
        scored_by: What scores in a run of EasyR1's; None: the settings say what does.
        written: What a run of EasyR1's adds to its prompts.
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
    scored_by: FileScored | None = None
    written: Written | None = None
    is_whole: bool = False


@dataclass(frozen=True)
class Around:
    """The arguments of `read_run`, and the folders to search."""

    given: Mapping[str, str]
    environment: Mapping[str, str]
    config_dirs: Sequence[Path]
    places: RunFolders

    def with_variables(self, more: Mapping[str, str]) -> Around:
        """Return a copy with more environment variables."""
        return replace(self, environment={**self.environment, **more})


def flatten_settings(run: Run) -> dict[str, Any]:
    """Return all settings of a run and its configs, by key."""
    if run.resolved is not None:
        return dict(flatten(run.resolved))
    merged: dict[str, Any] = {}
    for body in (run.defaults, *run.overlay):
        merge(merged, body)
    return {**flatten(merged), **{item.key: item.value for item in run.overrides if item.mark != "~"}}
