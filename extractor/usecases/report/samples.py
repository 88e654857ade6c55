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
    chosen: list[list[Mapping[str, Any]]] = []
    for run in runs:
        counts: Counter[int] = Counter()
        chosen.append([])
        for row in run.generations:
            if (row.get("split") == "train") is (name == "train"):  # unmarked ones are validation's
                counts[row["step"]] += 1
                chosen[-1] += [row] if name != "train" or counts[row["step"]] <= AT_A_STEP else []
    by_prompt: dict[tuple[str, str], list[list[Mapping[str, Any]]]] = {}
    for index, of_run in enumerate(chosen):
        for row in of_run:
            key = _read_text(row.get("data_source")), _read_text(row.get("prompt"))
            by_prompt.setdefault(key, [[] for _ in runs])[index].append(row)
    shown = dict(list(by_prompt.items())[: PROMPTS if name == "validation" else None])
    steps = [sorted({row["step"] for row in of_run}) for of_run in chosen]
    kept = [set(_choose_evenly(every, max(10, STEPS // len(runs)))) for every in steps]
    told = {
        key: [[row for row in rows if row["step"] in taken] for rows, taken in zip(by_run, kept, strict=True)]
        for key, by_run in shown.items()
    }
    count = sum(len(rows) for by_run in told.values() for rows in by_run)
    length = max(SHORTEST, min(LONGEST, CHARACTERS[name] // max(count, 1)))
    prompts = [
        {
            "prompt": _cut(key[1], length),
            "truth": _cut(
                _read_text(next((row.get("ground_truth") for rows in shown[key] for row in rows), None)), length
            ),
            "source": key[0],
            "runs": [[_sample(row, length) for row in rows] for rows in by_run],
        }
        for key, by_run in told.items()
        if any(by_run)
    ]
    left_out = []
    if len(by_prompt) > len(shown):
        left_out.append(f"{len(by_prompt) - len(shown)} of {len(by_prompt)} prompts")
    if any(len(some) < len(every) for some, every in zip(kept, steps, strict=True)):
        left_out.append("some steps, evenly through the run")
    return {"split": name, "prompts": prompts, "steps": sorted(set().union(*kept)), "left_out": left_out}


def _choose_evenly(values: Sequence[int], count: int) -> list[int]:
    """Choose at most `count` values, evenly spaced from first to last."""
    if len(values) <= count:
        return list(values)
    return [values[round(i * (len(values) - 1) / max(1, count - 1))] for i in range(count)]


def _sample(row: Mapping[str, Any], length: int) -> dict[str, Any]:
    components = row.get("components")
    parts = [
        [str(name), _cut(_read_text(value), 80) if number(value) is None else shorten(number(value))]
        for name, value in (components.items() if isinstance(components, dict) else ())
    ]
    response = _cut(_read_text(row.get("response")), length)
    return {"step": row["step"], "score": shorten(number(row.get("score"))), "response": response, "parts": parts}


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
