"""Cases of scorers, of reward managers, and of loading one."""

import asyncio
import inspect
import sys
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import torch

from . import inputs
from .cases import Call, Cases, family, kind_of, outcome, printed
from .sides import NotVendored, Side

PACKAGE = "verl.workers.reward_manager"
LOOP = "verl.experimental.reward_loop.reward_manager"
REWARD = "verl.trainer.ppo.reward"
SCORER = """
def score(data_source, solution_str, ground_truth, extra_info=None, bonus=0.0, **kwargs):
    return len(solution_str) / 7 + bonus

def score_many(data_sources, solution_strs, ground_truths, extra_infos, **kwargs):
    return [{"score": len(text) / 7, "length": len(text)} for text in solution_strs]

async def score_later(data_source, solution_str, ground_truth, extra_info=None, bonus=0.0, **kwargs):
    return len(solution_str) / 5 + bonus
"""
ANSWERS: dict[str, tuple[tuple[str, str], ...]] = {
    "openai/gsm8k": (("so #### 1,234", "1234"), ("so 12 and 13", "13"), ("#### -7", "7"), ("", "1")),
    "lighteval/MATH": (
        *(("thus \\boxed{\\frac12}", "\\frac{1}{2}"), ("\\boxed{ 50\\% }", "50"), ("\\boxed 7", "7"), ("none", "7")),
        *(("\\boxed{x=5}", "5"), ("\\boxed{0.5}", "\\frac{1}{2}"), ("\\boxed{\\sqrt3 \\text{ units}}", "\\sqrt{3}")),
    ),
    "math_dapo": (
        *(("Answer: 42", "42"), ("Answer: $\\frac{1}{2}$", "0.5"), ("Answer: 1,000 dollars", "1000")),
        *(("nothing", "42"), ("Answer: \\text{yes}", "yes")),
    ),
    "numina_cn_k12": (("\\boxed{12}", "12"), ("\\boxed{1/2}", "0.5"), ("\\boxed{(1,2)}", "(1, 2)"), ("none", "3")),
    "hiyouga/geometry3k": (("<think>a</think>\\boxed{3}", "3"), ("\\boxed{4}", "3")),
    "searchR1_nq": (
        *(("<answer>one</answer><answer>The Answer</answer>", "answer"), ("<answer>a</answer>", "b")),
        ("no tag", "b"),
    ),
    "unknown": (("a", "b"),),
}


@family("reward_score", "verl.utils.reward_score")
def scores(call: Call) -> Cases:
    """Score right, wrong and missing answers, by data source."""
    function = call.get("default_compute_score")
    for source, pairs in ANSWERS.items():
        for number, (text, truth) in enumerate(pairs):
            expected = {"target": [truth]} if source.startswith("searchR1") else truth
            yield f"{source}/{number}", call(function, source, text, expected)


def score(data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any) -> Any:
    """Return a number from the text."""
    return len(solution_str) / 7 + len(str(ground_truth)) / 3


def score_with_details(*args: Any, **kwargs: Any) -> Any:
    """Return a number and what else is to be logged."""
    value = score(*args, **kwargs)
    return {"score": value, "acc": value > 1, "kind": "tiny"}


def score_what_is_told(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> Any:
    """Return every argument, as text."""
    told = {key: str(value) for key, value in {"extra_info": extra_info, **kwargs}.items()}
    return {"score": 0.5, "source": data_source, "solution": solution_str, "truth": ground_truth, **told}


async def score_later(*args: Any, **kwargs: Any) -> Any:
    """Return a number that is waited for."""
    return score(*args, **kwargs)


def answers(side: Side, *, scored: bool = False, told: bool = False) -> Any:
    """Return a response batch; `told` uses episode instead of dataset columns."""
    generator = torch.Generator().manual_seed(601)
    mask, rows = inputs.response_mask(), range(inputs.BATCH)
    tensors = {
        "prompts": torch.randint(3, 40, (inputs.BATCH, inputs.PROMPT), generator=generator),
        "responses": torch.randint(1, 40, (inputs.BATCH, inputs.LENGTH), generator=generator),
        "attention_mask": torch.cat([inputs.prompt_mask(), mask], dim=1),
        **({"rm_scores": inputs.rewards(dense=False, mask=mask)} if scored else {}),
    }
    columns: dict[str, list[Any]] = {
        "data_source": [f"source {row % 2}" for row in rows],
        "reward_model": [{"ground_truth": "g" * row} for row in rows],
    }
    if told:
        columns["tool_extra_fields"] = [{"tool": row} for row in rows]
        columns["reward_scores"] = [{"step": [row]} for row in rows]
    else:
        columns["extra_info"] = [{"index": row} for row in rows]
    arrays = {name: np.array(values, dtype=object) for name, values in columns.items()}
    arrays |= {"bonus": np.arange(inputs.BATCH) / 4, **({"__num_turns__": np.arange(inputs.BATCH)} if told else {})}
    meta = {"reward_extra_keys": ["bonus"]}
    return side.get("verl.protocol:DataProto").from_dict(tensors=tensors, non_tensors=arrays, meta_info=meta)


# What a manager is made with, or given, in other cases than the plain ones.
BUFFERS = {
    "exact length": {"buffer": {"len": inputs.LENGTH}},
    "no buffer": {"buffer": {"enable": False}},
    "no log": {"buffer": {"log": False}},
}
MANAGERS: dict[str, dict[str, Any]] = {
    "told": {"told": True},
    "no printing": {"num_examine": 0},
    "many printed": {"num_examine": 3},
    "its own scorer": {"compute_score": None},
    "another key": {"reward_fn_key": "source"},
    **BUFFERS,
    "no length": {"max_resp_len": None},
    "short": {"max_resp_len": 3},
}
LOOP_MANAGERS: dict[str, dict[str, Any]] = {
    "told": {"told": True},
    "router": {"router": "tiny:80"},
    "several rows": {"rows": 3},
    "its own scorer": {"function": None},
    **BUFFERS,
}


def _select(name: str, variants: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the settings that apply to a reward manager."""
    catches = name in ("prime", "rate_limited")
    return {
        label: settings
        for label, settings in variants.items()
        if not (catches and None in settings.values())
        and (name == "dapo" or not {"buffer", "max_resp_len"} & settings.keys())
    }


@family("reward_manager", f"{PACKAGE}.registry")
def managers(call: Call) -> Cases:
    """Yield cases of every registered manager."""
    side, registry = call.side, call.side.module(call.module).REWARD_MANAGER_REGISTRY
    side.module(PACKAGE)
    for name in sorted(registry):
        for (label, function), as_dict in product((("number", score), ("details", score_with_details)), (False, True)):
            yield f"{name}/{label}/{as_dict}", lambda: _reward(side, name, function, as_dict)
        for label, settings in _select(name, MANAGERS).items():
            yield f"{name}/{label}", lambda: printed(_reward, side, name, score_what_is_told, True, **settings)
        for as_dict in (False, True):
            yield (
                f"{name}/scored/{as_dict}",
                lambda: _make(side, name, score)(answers(side, scored=True), return_dict=as_dict),
            )
    yield "unknown", kind_of(call("get_reward_manager_cls", "none"))


def _make(side: Side, name: str, function: Callable[..., Any], *, buffer: Any = None, **changes: Any) -> Any:
    more: dict[str, Any] = {"num_examine": 1, "compute_score": function, "reward_fn_key": "data_source"}
    if name == "dapo":
        settings = {"enable": True, "len": 4, "penalty_factor": 1.5, "log": True, **(buffer or {})}
        more |= {"max_resp_len": inputs.LENGTH, "overlong_buffer_cfg": inputs.config(**settings)}

    def scored(data_sources: Any, solution_strs: Any, ground_truths: Any, extra_infos: Any, **kwargs: Any) -> Any:
        rows = zip(data_sources, solution_strs, ground_truths, extra_infos, strict=True)
        return [function(*row, **kwargs) for row in rows]

    if name == "batch":
        more["compute_score"] = scored
    cls = side.get(f"{PACKAGE}.registry:get_reward_manager_cls")(name)
    return cls(tokenizer=inputs.tokenizer(), **{**more, **changes})


def _reward(
    side: Side, name: str, function: Callable[..., Any], as_dict: bool, *, told: bool = False, **changes: Any
) -> Any:
    manager, data = _make(side, name, function, **changes), answers(side, told=told)
    if changes.get("reward_fn_key"):
        data.non_tensor_batch["source"] = data.non_tensor_batch["data_source"]
    home = sys.modules[type(manager).__module__].__dict__
    scoring = home.get("run_reward_scoring")

    def with_few_processes(*args: Any, **kwargs: Any) -> Any:
        return scoring(*args, **{**kwargs, "num_processes": 1})

    with mock.patch.dict(home, {} if scoring is None else {"run_reward_scoring": with_few_processes}):
        return outcome(manager, data, return_dict=as_dict), sorted(data.batch.keys())


def _configure(side: Side, path: str | None = None, function: str | None = "score", manager: str = "naive") -> Any:
    """Write scorer files; return a config that selects one."""
    (side.scratch / "scorer.py").write_text(SCORER, encoding="utf-8")
    (side.scratch / "broken.py").write_text("raise ValueError('broken')\n", encoding="utf-8")
    # Upstream keeps the loaded file under this name for good.
    sys.modules.pop("custom_module", None)
    registered = {"source": "register", "name": manager, "module": None}
    scorer = str(side.scratch / "scorer.py")
    custom = {"path": path or scorer, "name": function, "reward_kwargs": {"bonus": 0.25}}
    return inputs.config(
        custom_reward_function=custom,
        reward_model={"reward_manager": manager, "sandbox_fusion": None},
        reward_manager=registered,
        reward={"custom_reward_function": custom, "reward_manager": registered, "sandbox_fusion": None},
        data={"reward_fn_key": "data_source"},
    )


def _load(side: Side, config: Any) -> Any:
    try:
        return side.get(f"{REWARD}:get_custom_reward_fn")(config)
    except NotVendored:
        return side.get("verl.utils.import_utils:get_custom_reward_fn")(config)


def _score(side: Side, path: str | None = None, function: str = "score", **given: Any) -> Any:
    result = _load(side, _configure(side, path, function))("source", "abc", "g", **given)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


@family("reward", REWARD)
def loading(call: Call) -> Cases:
    """Yield cases of loading reward managers and computing rewards."""
    side = call.side

    def loaded(function: str, manager: str) -> Any:
        side.module(f"{PACKAGE}.{manager}")
        made = call.get("load_reward_manager")(_configure(side, None, function, manager), inputs.tokenizer(), 1)
        return call.get("compute_reward")(answers(side), made)

    def unusual(path: str) -> Any:
        found = outcome(_load, side, _configure(side, path))
        return type(found).__name__, found("source", "abc", "g") if not isinstance(found, Exception) else ""

    def failing(data: Any, return_dict: bool = False) -> Any:
        if return_dict:
            raise ValueError("no dictionary")
        return torch.ones(2)

    def later() -> Any:
        # Upstream makes this a remote function; what is compared is the function itself.
        result = call.get("compute_reward_async")(answers(side), reward_fn=_make(side, "naive", score_with_details))
        return result.result() if hasattr(result, "result") else result

    yield "load_reward_manager/naive", lambda: loaded("score", "naive")
    yield "load_reward_manager/batch", lambda: loaded("score_many", "batch")
    for label, named in (("file", ("/none/scorer.py",)), ("function", (None, "none")), ("name", (None, None))):
        yield f"no {label}", lambda: type(outcome(_load, side, _configure(side, *named))).__name__
    yield "no custom function", call(_load, side, inputs.config(custom_reward_function=None, reward={}))
    yield "custom coroutine", call(_score, side, None, "score_later")
    # What the configuration gives a scorer, and what its caller does.
    for function in ("score", "score_later"):
        yield f"custom {function}/both give", call(_score, side, None, function, bonus=3.0, other=1)
    for label, path in {
        "pkg": "pkg://none.scorer",
        "file": f"file://{side.scratch / 'scorer.py'}",
        "directory": str(side.scratch),
        "broken": str(side.scratch / "broken.py"),
    }.items():
        yield f"custom function/{label}", lambda: unusual(path)
    yield "compute_reward/no dictionary", lambda: call.get("compute_reward")(answers(side), failing)
    yield "compute_reward_async", later


@family("reward_loop", f"{LOOP}.registry")
def loop_managers(call: Call) -> Cases:
    """Yield cases of every manager that scores one response each time."""
    side, plain = call.side, {"number": score, "details": score_with_details, "later": score_later}
    for name in ("dapo", "gdpo", "naive", "rate_limited"):
        for label, function in plain.items():
            yield f"{name}/{label}", lambda: _score_each(side, name, function)
        for label, settings in _select(name, LOOP_MANAGERS).items():
            yield f"{name}/{label}", call(_score_each, side, name, **{"function": score_what_is_told, **settings})
    yield "unknown", kind_of(call("get_reward_manager_cls", "none"))
    yield "extract_reward", lambda: call.get(f"{REWARD}:extract_reward")(answers(side, scored=True))


def _score_each(
    side: Side,
    name: str,
    function: Callable[..., Any] | None,
    *,
    told: bool = False,
    router: str = "",
    rows: int = 1,
    buffer: dict[str, Any] | None = None,
) -> Any:
    side.module(f"{LOOP}.{'limited' if name == 'rate_limited' else name}")
    overlong = {"enable": True, "len": 4, "penalty_factor": 1.5, "log": True, **(buffer or {})}
    given = {"reward_kwargs": {"overlong_buffer_cfg": overlong, "max_resp_len": inputs.LENGTH}}
    config = inputs.config(reward=given, reward_model=given, trainer={"experiment_name": "tiny"})
    cls = side.get(f"{LOOP}.registry:get_reward_manager_cls")(name)
    data = answers(side, told=told)
    more = {"reward_router_address": router, "reward_model_tokenizer": None} if router else {}

    async def scores() -> Any:
        manager = cls(config=config, tokenizer=inputs.tokenizer(), compute_score=function, **more)
        found = [await manager.run_single(data[row : row + rows]) for row in range(0, len(data), rows)]
        return found, manager.config is config, manager._class_initialized

    return asyncio.run(scores())
