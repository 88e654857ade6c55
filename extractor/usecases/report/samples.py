"""Read a run's samples: validation prompts and training steps."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from extractor.usecases.report.curves import shorten
from extractor.usecases.report.runs import RecordedRun, number

PROMPTS = 40  # of validations
AT_A_STEP = 8  # samples of training
STEPS = 100
CHARACTERS = {"validation": 800_000, "train": 400_000}  # on a page; beyond, texts are shorter
SHORTEST, LONGEST = 600, 6000  # what is left of a text

Key = tuple[str, str]
ByPrompt = dict[Key, list[list[dict[str, Any]]]]


def sample_splits(runs: Sequence[RecordedRun]) -> list[dict[str, Any]]:
    """Return the samples of runs by split, without empty splits."""
    splits = (_split(runs, name) for name in CHARACTERS)
    return [split for split in splits if split["prompts"]]


def _split(runs: Sequence[RecordedRun], name: str) -> dict[str, Any]:
    """Return the samples of one split, by prompt.

    Returns:
        {split, prompts: [{prompt, truth, source, runs: [[{step, score, response, parts}]]}], steps, left_out}. `parts`
        are the reward's components as [name, value]. A text that was too long says in its middle what was left out;
        `left_out` says in words what else is not on the page.
    """
    chosen = [_select_rows(run, name) for run in runs]
    rows = _group_by_prompt(chosen)
    shown = dict(list(rows.items())[:PROMPTS]) if name == "validation" else rows
    steps = [sorted({row["step"] for row in of_run}) for of_run in chosen]
    kept = [set(_choose_evenly(every, max(10, STEPS // len(runs)))) for every in steps]
    count = sum(
        row["step"] in taken
        for by_run in shown.values()
        for run, taken in zip(by_run, kept, strict=True)
        for row in run
    )
    length = max(SHORTEST, min(LONGEST, CHARACTERS[name] // max(count, 1)))
    prompts = [
        {
            "prompt": _cut(key[1], length),
            "truth": _cut(_read_text(next((row["ground_truth"] for run in by_run for row in run), None)), length),
            "source": key[0],
            "runs": [
                [_sample(row, length) for row in run if row["step"] in steps_of]
                for run, steps_of in zip(by_run, kept, strict=True)
            ],
        }
        for key, by_run in shown.items()
    ]
    left_out = []
    if len(rows) > len(shown):
        left_out.append(f"{len(rows) - len(shown)} of {len(rows)} prompts")
    if any(len(some) < len(every) for some, every in zip(kept, steps, strict=True)):
        left_out.append("some steps, evenly through the run")
    return {
        "split": name,
        "prompts": [prompt for prompt in prompts if any(prompt["runs"])],
        "steps": sorted(set().union(*kept)),
        "left_out": left_out,
    }


def _select_rows(run: RecordedRun, split: str) -> list[Mapping[str, Any]]:
    """Return a run's samples of a split; unmarked ones are validation's."""
    rows = [row for row in run.generations if (row.get("split") == "train") == (split == "train")]
    if split == "validation":
        return rows
    counts: Counter[int] = Counter()
    first = []
    for row in rows:
        counts[row["step"]] += 1
        if counts[row["step"]] <= AT_A_STEP:
            first.append(row)
    return first


def _group_by_prompt(generations: Sequence[Sequence[Mapping[str, Any]]]) -> ByPrompt:
    """Group each run's samples by data source and prompt, in order."""
    rows: ByPrompt = {}
    for index, of_run in enumerate(generations):
        for row in of_run:
            key = _read_text(row.get("data_source")), _read_text(row.get("prompt"))
            parts = row.get("components")
            rows.setdefault(key, [[] for _ in generations])[index].append(
                {
                    "step": row["step"],
                    "score": number(row.get("score")),
                    "response": _read_text(row.get("response")),
                    "ground_truth": row.get("ground_truth"),
                    "parts": parts if isinstance(parts, dict) else {},
                }
            )
    return rows


def _choose_evenly(values: Sequence[int], count: int) -> list[int]:
    """Choose at most `count` values, evenly spaced from first to last."""
    if len(values) <= count:
        return list(values)
    return [values[round(i * (len(values) - 1) / max(1, count - 1))] for i in range(count)]


def _sample(row: Mapping[str, Any], length: int) -> dict[str, Any]:
    parts = [[str(name), _read_value(value)] for name, value in row["parts"].items()]
    response = _cut(row["response"], length)
    return {"step": row["step"], "score": shorten(row["score"]), "response": response, "parts": parts}


def _read_value(value: Any) -> Any:
    return shorten(number(value)) if number(value) is not None else _cut(_read_text(value), 80)


def _read_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, length: int) -> str:
    """Shorten a long text's middle, noting how much is left out."""
    if len(text) <= length + 40:  # what would stand in its place
        return text
    head, tail = text[: length * 2 // 3], text[len(text) - length // 3 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail):,} characters left out …]\n{tail}"
