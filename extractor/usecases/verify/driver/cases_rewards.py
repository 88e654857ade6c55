"""Cases of reward managers, and of loading one."""

import asyncio
import inspect
import sys
from collections.abc import Callable
from itertools import product
from typing import Any
from unittest import mock

import numpy as np
import torch

from . import inputs
from .cases import CaseMaker, Cases, capture_outcome, capture_output, family, make_type_case
from .inputs import BATCH, LENGTH, SETTINGS
from .pool import make_step
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
# What catches a mistake of its scorer: it has none of its own, and none is left out.
_CATCHES = ("prime", "rate_limited")


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


def make_answers(side: Side, *, scored: bool = False, told: bool = False) -> Any:
    """Return a response batch; `told` uses episode instead of dataset columns."""
    data, rows = make_step(side, holes=not told, reward_extra_keys=["bonus"]), range(BATCH)
    mask = inputs.response_mask()
    data.batch["attention_mask"][:, -LENGTH:] = mask
    if scored:
        data.batch["rm_scores"] = inputs.rewards(dense=False, mask=mask)
    columns: dict[str, list[Any]] = {
        "data_source": [f"source {row % 2}" for row in rows],
        "source": [f"other {row % 2}" for row in rows],
        "reward_model": [{"ground_truth": "g" * row} for row in rows],
        "bonus": [row / 4 for row in rows],
    }
    if told:
        columns["tool_extra_fields"] = [{"tool": row} for row in rows]
        columns["reward_scores"] = [{"step": [row]} for row in rows]
    else:
        columns["extra_info"] = [{"index": row} for row in rows]
    data.non_tensor_batch.update({name: np.array(values, dtype=object) for name, values in columns.items()})
    return data


def _list_settings(kind: str, name: str) -> dict[str, dict[str, Any]]:
    """Return the settings that apply to a reward manager."""
    table = SETTINGS[kind] | (SETTINGS["dapo_managers"] if name == "dapo" else {})
    return {label: row for label, row in table.items() if not (name in _CATCHES and None in row.values())}


def _configure_overlong(buffer: dict[str, Any] | None) -> dict[str, Any]:
    return {"enable": True, "len": 4, "penalty_factor": 1.5, "log": True, **(buffer or {})}


@family("reward_manager", f"{PACKAGE}.registry")
def managers(call: CaseMaker) -> Cases:
    """Yield cases of every registered manager."""
    side, registry = call.side, call.side.module(call.module).REWARD_MANAGER_REGISTRY
    side.module(PACKAGE)
    for name in sorted(registry):
        scorers = {"number": score, "details": score_with_details}
        for (label, function), as_dict, scored in product(scorers.items(), (False, True), (False, True)):
            more = {"as_dict": as_dict, "scored": scored}
            yield f"{name}/{label}/{as_dict}/scored {scored}", call(_reward, side, name, compute_score=function, **more)
        yield from call.each(f"{name}/", _reward, _list_settings("managers", name), side, name)
    yield "unknown", make_type_case(call("get_reward_manager_cls", "none"))


def _make_manager(side: Side, name: str, *, buffer: Any = None, **changes: Any) -> Any:
    more: dict[str, Any] = {"num_examine": 1, "compute_score": score_what_is_told, "reward_fn_key": "data_source"}
    if name == "dapo":
        more |= {"max_resp_len": LENGTH, "overlong_buffer_cfg": inputs.config(**_configure_overlong(buffer))}
    more |= changes
    function = more["compute_score"]

    def score_all(data_sources: Any, solution_strs: Any, ground_truths: Any, extra_infos: Any, **kwargs: Any) -> Any:
        rows = zip(data_sources, solution_strs, ground_truths, extra_infos, strict=True)
        return [function(*row, **kwargs) for row in rows]

    if name == "batch" and function is not None:
        more["compute_score"] = score_all
    return side.get(f"{PACKAGE}.registry:get_reward_manager_cls")(name)(tokenizer=inputs.tokenizer(), **more)


def _reward(
    side: Side, name: str, *, as_dict: bool = True, told: bool = False, scored: bool = False, **changes: Any
) -> Any:
    """Return rewards, the batch's columns after it, and what was printed."""
    manager, data = _make_manager(side, name, **changes), make_answers(side, told=told, scored=scored)
    home = sys.modules[type(manager).__module__].__dict__
    scoring = home.get("run_reward_scoring")

    def with_few_processes(*args: Any, **kwargs: Any) -> Any:
        return scoring(*args, **{**kwargs, "num_processes": 1})

    with mock.patch.dict(home, {} if scoring is None else {"run_reward_scoring": with_few_processes}):
        return capture_output(manager, data, return_dict=as_dict), sorted(data.batch.keys())


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


def _score(side: Side, function: str, **given: Any) -> Any:
    result = _load(side, _configure(side, None, function))("source", "abc", "g", **given)
    return asyncio.run(result) if inspect.iscoroutine(result) else result


@family("reward", REWARD)
def loading(call: CaseMaker) -> Cases:
    """Yield cases of loading reward managers and computing rewards."""
    side = call.side

    def loaded(function: str, manager: str) -> Any:
        side.module(f"{PACKAGE}.{manager}")
        made = call.get("load_reward_manager")(_configure(side, None, function, manager), inputs.tokenizer(), 1)
        return call.get("compute_reward")(make_answers(side), made)

    def unusual(path: str | None, function: str | None) -> Any:
        found = capture_outcome(_load, side, _configure(side, path, function))
        return type(found).__name__, found("source", "abc", "g") if callable(found) else ""

    def failing(data: Any, return_dict: bool = False) -> Any:
        if return_dict:
            raise ValueError("no dictionary")
        return torch.ones(2)

    def later() -> Any:
        # Upstream makes this a remote function; what is compared is the function itself.
        manager = _make_manager(side, "naive", compute_score=score_with_details)
        result = call.get("compute_reward_async")(make_answers(side), reward_fn=manager)
        return result.result() if hasattr(result, "result") else result

    yield "load_reward_manager/naive", call(loaded, "score", "naive")
    yield "load_reward_manager/batch", call(loaded, "score_many", "batch")
    yield "no custom function", call(_load, side, inputs.config(custom_reward_function=None, reward={}))
    # What the configuration gives a scorer, and what its caller does.
    for function, given in product(("score", "score_later"), ({}, {"bonus": 3.0, "other": 1})):
        yield f"custom {function}/{given}", call(_score, side, function, **given)
    for label, path, function in (
        ("no file", "/none/scorer.py", "score"),
        ("no function", None, "none"),
        ("no name", None, None),
        ("pkg", "pkg://none.scorer", "score"),
        ("file", f"file://{side.scratch / 'scorer.py'}", "score"),
        ("directory", str(side.scratch), "score"),
        ("broken", str(side.scratch / "broken.py"), "score"),
    ):
        yield f"custom function/{label}", call(unusual, path, function)
    yield "compute_reward/no dictionary", lambda: call.get("compute_reward")(make_answers(side), failing)
    yield "compute_reward_async", later


@family("reward_loop", f"{LOOP}.registry")
def loop_managers(call: CaseMaker) -> Cases:
    """Yield cases of every manager that scores one response each time."""
    side = call.side
    for name in ("dapo", "gdpo", "naive", "rate_limited"):
        for function in (score, score_with_details, score_later):
            yield f"{name}/{function.__name__}", call(_score_each, side, name, function=function)
        yield from call.each(f"{name}/", _score_each, _list_settings("loop_managers", name), side, name)
    yield "unknown", make_type_case(call("get_reward_manager_cls", "none"))
    yield "extract_reward", lambda: call.get(f"{REWARD}:extract_reward")(make_answers(side, scored=True))


def _score_each(
    side: Side,
    name: str,
    *,
    function: Callable[..., Any] | None = score_what_is_told,
    told: bool = False,
    router: str = "",
    rows: int = 1,
    buffer: dict[str, Any] | None = None,
    max_resp_len: int | None = LENGTH,
) -> Any:
    side.module(f"{LOOP}.{'limited' if name == 'rate_limited' else name}")
    given = {"reward_kwargs": {"overlong_buffer_cfg": _configure_overlong(buffer), "max_resp_len": max_resp_len}}
    config = inputs.config(reward=given, reward_model=given, trainer={"experiment_name": "tiny"})
    cls = side.get(f"{LOOP}.registry:get_reward_manager_cls")(name)
    data = make_answers(side, told=told)
    more = {"reward_router_address": router, "reward_model_tokenizer": None} if router else {}

    async def score_all() -> Any:
        manager = cls(config=config, tokenizer=inputs.tokenizer(), compute_score=function, **more)
        found = [await manager.run_single(data[row : row + rows]) for row in range(0, len(data), rows)]
        return found, manager.config is config, manager._class_initialized

    return asyncio.run(score_all())
