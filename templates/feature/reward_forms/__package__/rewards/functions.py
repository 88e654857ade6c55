# vextract:template
"""A reward manager of functions of several forms, weighted."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..episodes.places import own_tokens
from ..run.process import without_running_loop
from ..switches import EPISODES, OVERLAP
from .forms import VERLS_OF_BATCH, Form, name_of
from .manager import TextRewardManager
from .scoring import ScoringError, aligned, problem_of, source_of, to_builtin

# Columns of a batch that are the trainer's own affair.
INTERNAL = {"uid", "reward_model", "given_prompt", "raw_prompt", "raw_prompt_ids", "full_prompts", "index"}
INTERNAL |= {"tools_kwargs", "interaction_kwargs", "multi_modal_data", "multi_modal_inputs"}
# Where the lists that functions name are taken from, sample by sample.
SINGULAR = {"prompts": "__prompt", "completions": "__completion", "responses": "response"}
SINGULAR |= {name: name.removesuffix("s") for name in VERLS_OF_BATCH}


@dataclass
class Part:
    """A function, and what it counts.

    Attributes:
        name: of its component, unique among the parts.
        function: as the caller gave it.
        form: how it is called.
        weight: what its score is multiplied by.
        scorer: calls it, if it scores one sample at a time.
    """

    name: str
    function: Callable[..., Any]
    form: Form
    weight: float = 1.0
    scorer: Any = None

    @property
    def call(self) -> Callable[..., Any]:
        """Return what takes the arguments of a sample by name."""
        return _ByPosition(self.function, self.form.names) if self.form.by_position else self.function


@dataclass
class Batch:
    """The samples of a batch, as functions see them, and what they report.

    Attributes:
        samples: by name, for each sample, whatever a function may ask for.
        columns: the names of the columns among these.
        state: a `TrainerState` of transformers.
        extra: values for each sample that functions have reported.
    """

    samples: list[dict[str, Any]]
    columns: list[str]
    state: Any
    extra: dict[str, list[Any]] = field(default_factory=dict)

    def log_extra(self, name: str, values: Sequence[Any]) -> None:
        """Keep a value for each sample with the samples."""
        self.extra[name] = list(values)

    def log_metric(self, name: str, value: float) -> None:
        """Log a number of the batch, as reward/<name>/mean."""
        self.extra[name] = [float(to_builtin(value))] * len(self.samples)


class FunctionsRewardManager(TextRewardManager):
    """Scores a batch by functions of any form, each a component of the reward.

    The reward is the weighted sum of what the functions give; None counts for nothing. Each is reported under the name
    of its function.

    Args:
        tokenizer: decodes the responses.
        parts: the functions.
        reward_fn_key: the column that names the data source.
        total_steps: of the run, for functions that ask for the trainer's state.
        settings: further ones of `TextRewardManager`; how samples are scored is for functions that score one at a time.
    """

    def __init__(
        self,
        tokenizer: Any,
        parts: Sequence[Part],
        reward_fn_key: str = "data_source",
        *,
        total_steps: int = 0,
        **settings: Any,
    ) -> None:
        self.parts = list(parts)
        self.total_steps = total_steps
        super().__init__(tokenizer, 0, self.parts[0].function, reward_fn_key, **settings)

    def _make_scorer(self, function: Callable[..., Any], **settings: Any) -> "Joint":
        for part in self.parts:
            if part.form.kind == "sample":
                part.scorer = super()._make_scorer(part.call, **settings)
        return Joint(self.parts)

    if OVERLAP and EPISODES:

        def begin(self, sample: Any) -> tuple[str, Any] | None:
            """Begin to score one response; not if it is an episode, which gets further columns from the whole batch."""
            return None if "env_end" in sample.non_tensor_batch else super().begin(sample)

    if OVERLAP:

        def _begun(self, arguments: Any) -> Any:
            return self.scorer.begin(arguments)

    def _arguments(self, data: Any, texts: list[str]) -> Any:
        columns = data.non_tensor_batch
        names = [name for name in columns if name not in INTERNAL and not name.startswith("__")]
        own = [name for name in names if name not in ("extra_info", "prompt")]
        responses, lengths = data.batch["responses"], self._lengths(data)
        samples = []
        for row, text in enumerate(texts):
            known = {
                **{name: columns[name][row] for name in own},
                "data_source": columns[self.reward_fn_key][row],
                "ground_truth": columns["reward_model"][row]["ground_truth"],
                "extra_info": columns["extra_info"][row] if "extra_info" in columns else None,
                "completion_ids": responses[row][: lengths[row]].tolist(),
            }
            if EPISODES and "turn_starts" in columns:
                known["completion_ids"] = own_tokens(columns, row, known["completion_ids"])
            samples.append(sample_of(text, self._messages(data, row), known))
        return Batch(samples, [*own, "ground_truth"], _state(data.meta_info, self.total_steps))

    def _messages(self, data: Any, row: int) -> Any:
        """Return the prompt of a row as it was given, text or messages; as text where that is not known."""
        columns = data.non_tensor_batch
        if "given_prompt" in columns:
            return json.loads(columns["given_prompt"][row])
        for name in ("raw_prompt", "prompt"):
            if name in columns:
                return [dict(message) for message in columns[name][row]]
        return self._prompt(data, row)

    @staticmethod
    def _lengths(data: Any) -> list[int]:
        lengths: list[int] = data.batch["attention_mask"][:, -data.batch["responses"].shape[-1] :].sum(dim=-1).tolist()
        return lengths


def sample_of(text: str, prompt: Any, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample, as functions see it.

    Args:
        text: the response.
        prompt: as it was given, text or messages.
        known: what else functions may ask for, by name.
    """
    prompt_text = prompt if isinstance(prompt, str) else "\n".join(_content(message) for message in prompt)
    return {
        **known,
        "prompt": prompt_text,
        **dict.fromkeys(("solution_str", "response", "completion"), text),
        "__prompt": prompt,
        "__completion": text if isinstance(prompt, str) else [{"role": "assistant", "content": text}],
    }


class Joint:
    """Calls all parts for a batch, and makes one result of theirs for each sample."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self._warned = False

    if OVERLAP:

        @property
        def is_aside(self) -> bool:
            """Tell whether a part is scored elsewhere than in the thread that asks for it."""
            return any(part.scorer is not None and part.scorer.is_aside for part in self.parts)

        def begin(self, batch: Batch) -> list[Any]:
            """Begin to score the one sample of a batch; returns what is under way for each part."""
            begun: list[Any] = []
            for part in self.parts:
                is_aside = part.scorer is not None and part.scorer.is_aside
                begun.append(part.scorer.begin(_samples(part, batch)[0]) if part.scorer and is_aside else None)
            return begun

        def give_up(self, begun: Sequence[list[Any]]) -> None:
            """Drop what was begun."""
            for scorer, *pending in zip((part.scorer for part in self.parts), *begun, strict=True):
                if scorer is not None:
                    scorer.give_up([one for one in pending if one is not None])

    def __call__(self, batch: Batch, begun: Sequence[list[Any] | None] = ()) -> list[dict[str, Any]]:
        totals, results = [0.0] * len(batch.samples), [dict[str, Any]() for _ in batch.samples]
        scored = [False] * len(batch.samples)
        for part in self.parts:
            if part.scorer is None:
                outcomes = _of_batch(part, batch)
            elif OVERLAP:
                place = self.parts.index(part)
                pending = [one[place] if one is not None else None for one in begun]
                outcomes = part.scorer(_samples(part, batch), pending)
            else:
                outcomes = part.scorer(_samples(part, batch))
            for row, outcome in enumerate(outcomes):
                score = outcome.pop("score")
                results[row] |= {part.name: score, **outcome}
                if score is not None:
                    totals[row] += part.weight * float(score)
                    scored[row] = True
        if not all(scored) and not self._warned:
            self._warned = True
            count = f"{scored.count(False)} of {len(scored)} samples"
            print(f"warning: no reward function has a score for {count}, whose reward is 0 (shown once)")
        for row, result in enumerate(results):
            result.update({name: values[row] for name, values in batch.extra.items()})
        return aligned([{"score": total, **result} for total, result in zip(totals, results, strict=True)])

    def close(self) -> None:
        for part in self.parts:
            if part.scorer:
                part.scorer.close()


class _ByPosition:
    """A function of a response, or of a prompt and a response, whatever it calls them."""

    def __init__(self, function: Callable[..., Any], names: Sequence[str]) -> None:
        self.func = function  # where `raw_function` looks for what the owner wrote
        self.names = names

    def __call__(self, **texts: str) -> Any:
        return self.func(*(texts[name] for name in self.names))


def _samples(part: Part, batch: Batch) -> list[dict[str, Any]]:
    """Return the arguments of a function that scores one sample at a time, for each."""
    names = list(part.form.names)
    names += [name for name in batch.columns if part.form.takes_all and name not in names]
    _check_columns(part, names, batch)
    return [{name: sample[name] for name in names} for sample in batch.samples]


def _of_batch(part: Part, batch: Batch) -> list[dict[str, Any]]:
    """Return what a function that scores a batch gives for each sample."""
    others = {"trainer_state": batch.state, "log_extra": batch.log_extra, "log_metric": batch.log_metric}
    names = list(part.form.names)
    if part.form.takes_all:
        columns = [name for name in batch.columns if name != "completion"]
        tokens = [name for name in ("completion_ids",) if batch.samples and name in batch.samples[0]]
        names += ["prompts", "completions", *tokens, *columns, *others]
    names = list(dict.fromkeys(names))
    _check_columns(part, [SINGULAR.get(name, name) for name in names if name not in others], batch)
    arguments = {
        name: others[name] if name in others else [sample[SINGULAR.get(name, name)] for sample in batch.samples]
        for name in names
    }
    result = part.function(**arguments)
    if hasattr(result, "__await__"):
        with without_running_loop():
            result = asyncio.run(_awaited(result))
    return [_checked(part, value, row) for row, value in enumerate(_listed(part, result, len(batch.samples)))]


async def _awaited(result: Any) -> Any:
    return await result


def _check_columns(part: Part, names: Sequence[str], batch: Batch) -> None:
    missing = [name for name in names if batch.samples and name not in batch.samples[0]]
    if missing:
        has = ", ".join(sorted(batch.columns))
        text = f"{part.name} takes {', '.join(missing)}, and no column of the data is called so; it has {has}"
        raise ScoringError(text, source_of(part.function), None)


def _listed(part: Part, result: Any, count: int) -> list[Any]:
    values = result.tolist() if hasattr(result, "tolist") else result
    if isinstance(values, str | Mapping) or not isinstance(values, Sequence):
        text = f"the reward {part.name} returned a {type(result).__name__} for {count} samples, not a list of numbers"
        raise ScoringError(text, source_of(part.function), None)
    if len(values) != count:
        text = f"the reward {part.name} returned {len(values)} values for {count} samples"
        raise ScoringError(text, source_of(part.function), None)
    return list(values)


def _checked(part: Part, value: Any, row: int) -> dict[str, Any]:
    result = dict(value) if isinstance(value, Mapping) else {"score": value}
    score = result["score"] = to_builtin(result.get("score"))
    if score is not None and (problem := problem_of(score)):
        raise ScoringError(f"the reward {part.name} is {problem}", source_of(part.function), row)
    return {**result, "score": None if score is None else float(score)}


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else json.dumps(content)


def _state(meta: Mapping[str, Any], total_steps: int) -> Any:
    from transformers import TrainerState

    return TrainerState(global_step=max(0, int(meta.get("global_steps", 1)) - 1), max_steps=total_steps)


def unique_names(functions: Sequence[Any]) -> list[str]:
    """Return a name for each function's component: its own, with a number where another has that too."""
    names: list[str] = []
    for function in functions:
        name = name_of(function)
        candidates = (name, *(f"{name}_{number}" for number in range(2, len(functions) + 3)))
        names.append(next(candidate for candidate in candidates if candidate not in (*names, "score")))
    return names
