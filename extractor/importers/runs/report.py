"""Report every setting of a run that was not simply carried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from extractor.importers.runs.placeholders import make_readable
from extractor.importers.runs.unsupported_keys import KEPT, Remark

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


def write_headline(file: str, release: str, config: Mapping[str, Any], settings: int) -> str:
    """Return the headline: algorithm, engine, model and number of settings.

    Args:
        file: The run.
        release: What it was written for.
        config: The project's, flat and resolved.
        settings: How many of the run's settings differ from the project's own.
    """
    algorithm = config.get("algorithm.adv_estimator")
    if config.get("distillation.enabled"):
        rewarded = config.get("distillation.distillation_loss.use_task_rewards")
        algorithm = f"{algorithm} and distillation" if rewarded else "distillation"
    engine = config.get("actor_rollout_ref.rollout.name")
    model = config.get("actor_rollout_ref.model.path") or "a toy model"
    name = Path(file).name
    return f"{name}, written for verl {release}: {algorithm} with {engine} on {model}, {settings} settings of its own"


def text(head: str, remarks: Sequence[Remark], notes: Sequence[str]) -> str:
    """Return the report's text.

    Args:
        head: What runs.
        remarks: What became of settings.
        notes: How the run was read.
    """
    lines = ["# Where this project comes from", "", f"{make_readable(head)}.", ""]
    lines += ["What the run sets and is not listed here, the project sets too, in `config/recipe/verl_run.yaml`.", ""]
    if notes:
        lines += ["## How it was read", "", *(f"- {_strip_markup(make_readable(note))}" for note in notes), ""]
    for what, title in TITLES.items():
        found = [item for item in remarks if item.what == what]
        if found:
            lines += [f"## {title.capitalize()}", "", "| setting | in the run | |", "|---|---|---|"]
            lines += [f"| `{item.key}` | {_show_value(item.value)} | {_strip_markup(item.why)} |" for item in found]
            lines.append("")
    return "\n".join(lines)


def _show_value(value: Any) -> str:
    said = make_readable(str(value)).replace("|", "\\|")
    return f"`{_strip_markup(said)}`" if said else ""


def _strip_markup(text: str) -> str:
    return " ".join(text.split())
