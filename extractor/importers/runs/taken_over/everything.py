"""All that a run's checkout has and a project has not, taken over in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from extractor.importers.runs.files import own_call
from extractor.importers.runs.meaning import Remark
from extractor.importers.runs.other_libraries.translation import FileScored
from extractor.importers.runs.own_config import program_file
from extractor.importers.runs.run import Run
from extractor.importers.runs.taken_over import (
    easyr1_prompts,
    easyr1_rewards,
    estimators,
    managers,
    named_modules,
    own_verl,
    registered,
    scorers,
    surroundings,
    trl_rewards,
    unregistered,
)
from extractor.importers.runs.taken_over.recipient import Recipient, Taken


@dataclass(frozen=True)
class TakenOver:
    """A project with what its run's checkout has.

    Attributes:
        project: It.
        remarks: What a user should know.
        aside: Settings that name what neither has.
        handed: Settings of no release that a copied class takes, with the keys that hand them over.
        asked: Those that copies ask their config for.
    """

    project: Recipient
    remarks: list[Remark]
    aside: dict[str, Any]
    handed: Mapping[str, str]
    asked: Mapping[str, Any]


def take_over(
    project: Recipient,
    run: Run,
    said: Mapping[str, Any],
    unknown: Mapping[str, Any],
    before: Mapping[str, Any],
    *,
    keeps_unknown: bool,
    is_adopted: bool,
) -> TakenOver:
    """Copy what the run's settings name and the project has not, and leave out what nothing can be made of.

    Args:
        project: With the run's settings.
        run: As it was read.
        said: All that it says, its checkout's defaults included, by the run's keys.
        unknown: Settings of it that no release has.
        before: The project's own settings.
        keeps_unknown: Whether what is not known is put aside.
        is_adopted: Whether the project has the checkout's edits, as far as they have a place there.
    """
    remarks: list[Remark] = []
    aside: dict[str, Any] = {}
    reads: set[str] = set()
    copied: list[str] = []

    def update(taken: Taken) -> Recipient:
        remarks.extend(taken.remarks)
        reads.update(taken.reads)
        copied.extend(taken.places)
        return replace(project, tree=taken.tree, settings={**project.settings, **taken.settings})

    scored = run.scored_by
    scored_by = (
        partial(easyr1_rewards.take, scored_by=scored)
        if isinstance(scored, FileScored)
        else partial(trl_rewards.take, scored_by=scored)
    )
    prompts = partial(easyr1_prompts.take, written=run.written)
    for take in (registered.take, estimators.take, scored_by, prompts, managers.take, named_modules.take):
        project = update(take(project))
    if keeps_unknown:
        taken, aside = unregistered.put_aside(project, before)
        project = update(taken)
    project = update(scorers.take(project, run.program, before))
    project = update(surroundings.asking_the_engine(project, before))
    remarks += own_verl.remarks(project, tuple(copied), is_adopted=is_adopted)
    remarks += own_verl.own_trainer(project, program_file(run.program))
    handed = managers.handed_over(project, unknown)
    given = {name: unknown[key] for key, name in handed.items()}
    project = replace(project, settings={**project.settings, **given})
    remarks += [Remark(key, unknown[key], "renamed", f"here it is {name}") for key, name in handed.items()]
    made = managers.made_of_settings(project)
    project = replace(project, settings={**project.settings, **made})
    why = "what the run's program makes its reward manager with"
    remarks += [Remark(key, value, "changed", why) for key, value in made.items()]
    left = [key for key in managers.not_taken(project) if key not in before]
    why = "its reward manager takes no such argument"
    remarks += [Remark(key, project.settings[key], "dropped", why) for key in left]
    kept = {key: value for key, value in project.settings.items() if key not in left}
    return TakenOver(replace(project, settings=kept), remarks, aside, handed, _asked_for(reads, said, before))


def _asked_for(reads: Iterable[str], said: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a run says of the settings that copies read, as far as the project has none of that name."""
    sections = {key.partition(".")[0] for key in before}  # of which one that is handed on whole says nothing
    asked = own_call.among(said, [name for name in reads if name not in sections])
    return {key: value for key, value in said.items() if key not in before and key in asked}
