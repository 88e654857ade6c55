# vextract:template - edit freely; upgrades merge your edits
"""What the model wrote: the same prompts through the run, and through several runs side by side."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .curves import short
from .runs import Run, number

PROMPTS = 40
STEPS = 100
CHARACTERS = 800_000  # on a page; beyond, there are fewer steps, and then less of long texts
LENGTHS = (6000, 2000, 600)  # of a text, at most

Key = tuple[str, str]


def sample_prompts(runs: Sequence[Run]) -> dict[str, Any]:
    """The samples of runs by prompt.

    Returns:
        {prompts: [{prompt, truth, source, runs: [[{step, score, response, parts}]]}], steps, left_out}. `parts` are the
        reward's components as [name, value]. A text that was too long says in its middle what was left out; `left_out`
        says in words what else is not on the page.
    """
    rows = _by_prompt(runs)
    shown = dict(list(rows.items())[:PROMPTS])
    steps = [sorted({row["step"] for row in run.generations}) for run in runs]
    kept, length = _what_fits(shown, steps)
    prompts = [
        {
            "prompt": _cut(key[1], length),
            "truth": _cut(_text(next((row["ground_truth"] for run in by_run for row in run), None)), length),
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
        left_out.append("some validations, evenly through the run")
    return {"prompts": prompts, "steps": sorted(set().union(*kept)), "left_out": left_out}


def _by_prompt(runs: Sequence[Run]) -> dict[Key, list[list[dict[str, Any]]]]:
    """The samples of each run by data source and prompt, in the order of their first appearance."""
    rows: dict[Key, list[list[dict[str, Any]]]] = {}
    for index, run in enumerate(runs):
        for row in run.generations:
            key = _text(row.get("data_source")), _text(row.get("prompt"))
            parts = row.get("components")
            rows.setdefault(key, [[] for _ in runs])[index].append(
                {
                    "step": row["step"],
                    "score": number(row.get("score")),
                    "response": _text(row.get("response")),
                    "ground_truth": row.get("ground_truth"),
                    "parts": parts if isinstance(parts, dict) else {},
                }
            )
    return rows


def _what_fits(
    rows: Mapping[Key, list[list[dict[str, Any]]]], steps: Sequence[Sequence[int]]
) -> tuple[list[set[int]], int]:
    """Which steps of each run to take, and how long a text may be."""
    count = max([1, *(min(STEPS, len(every)) for every in steps)])
    for length in LENGTHS:
        tried = count
        while True:
            kept = [set(_evenly(every, tried)) for every in steps]
            size = sum(
                min(len(row["response"]), length) + 80
                for by_run in rows.values()
                for run, steps_of in zip(by_run, kept, strict=True)
                for row in run
                if row["step"] in steps_of
            )
            if size <= CHARACTERS:
                return kept, length
            if tried <= 10:
                break
            tried = max(10, tried * 2 // 3)
    return kept, length


def _evenly(values: Sequence[int], count: int) -> list[int]:
    """At most `count` of the values, from the first to the last."""
    if len(values) <= count:
        return list(values)
    return [values[round(i * (len(values) - 1) / max(1, count - 1))] for i in range(count)]


def _sample(row: Mapping[str, Any], length: int) -> dict[str, Any]:
    parts = [[str(name), _value(value)] for name, value in row["parts"].items()]
    response = _cut(row["response"], length)
    return {"step": row["step"], "score": short(row["score"]), "response": response, "parts": parts}


def _value(value: Any) -> Any:
    return short(number(value)) if number(value) is not None else _cut(_text(value), 80)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _cut(text: str, length: int) -> str:
    """The beginning and the end of a text that is too long, and how much is missing between them."""
    if len(text) <= length + 40:  # what would stand in its place
        return text
    head, tail = text[: length * 2 // 3], text[len(text) - length // 3 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail):,} characters left out …]\n{tail}"
