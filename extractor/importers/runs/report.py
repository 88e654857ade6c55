"""Report every setting of a run that was not simply carried."""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from extractor.importers.config.keys import READ_BY_THE_ENGINE, list_candidates
from extractor.importers.runs.placeholders import find_unknowns, make_readable
from extractor.importers.runs.unsupported_keys import KEPT, Remark, find_rule

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


def describe_origin(readme: str, said: str) -> str:
    """Return a project's README that says what it was made of, in place of its toy task.

    Args:
        readme: As it was rendered, or as it was changed so for a fork.
        said: One or two sentences, which begin with "Made of".
    """
    section = re.compile(r"(?ms)^(The run is in [^\n]*\n(?:\nMade of .*?\n(?=\n))?).*?(?=^For your own model)")
    lines = textwrap.fill(said, 118, break_long_words=False, break_on_hyphens=False)
    return section.sub(lambda found: f"{found[1]}\n{lines}\n\n", readme, count=1)


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
        lines += ["## How it was read", "", *(f"- {_show(note)}" for note in notes), ""]
    for what, title in TITLES.items():
        found = [item for item in remarks if item.what == what]
        if found:
            lines += [f"## {title.capitalize()}", "", "| setting | in the run | |", "|---|---|---|"]
            values = (_show(item.value).replace("|", "\\|") for item in found)
            cells = (f"`{value}`" if value else "" for value in values)
            lines += [f"| `{item.key}` | {cell} | {_show(item.why)} |" for item, cell in zip(found, cells, strict=True)]
            lines.append("")
    return "\n".join(lines)


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
