"""What cases do with reward managers, and with functions of files."""

import asyncio
import functools
import inspect
import sys
from typing import Any

import numpy as np
import torch

from . import inputs
from .calling import capture_outcome
from .inputs import BATCH, LENGTH, config, make_step
from .sides import NotVendored, Side

MANAGERS = "verl.workers.reward_manager"
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


def _score(data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any) -> Any:
    return len(solution_str) / 7 + len(str(ground_truth)) / 3


def _score_with_details(*args: Any, **kwargs: Any) -> Any:
    value = _score(*args, **kwargs)
    return {"score": value, "acc": value > 1, "kind": "tiny"}


def _score_what_is_told(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **kwargs: Any
) -> Any:
    """Return every argument, as text."""
    told = {key: str(value) for key, value in {"extra_info": extra_info, **kwargs}.items()}
    return {"score": 0.5, "source": data_source, "solution": solution_str, "truth": ground_truth, **told}


async def _score_later(*args: Any, **kwargs: Any) -> Any:
    return _score(*args, **kwargs)


# By the name that a case gives; a manager's own is None.
_SCORERS = {"number": _score, "details": _score_with_details, "told": _score_what_is_told, "later": _score_later}


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


def _configure_overlong(buffer: dict[str, Any] | None) -> dict[str, Any]:
    return {"enable": True, "len": 4, "penalty_factor": 1.5, "log": True, **(buffer or {})}


def make_manager(side: Side, name: str, *, scorer: str = "told", buffer: Any = None, **changes: Any) -> Any:
    function = _SCORERS.get(scorer)
    more = {"num_examine": 1, "compute_score": function, "reward_fn_key": "data_source"}
    if name == "dapo":
        more |= {"max_resp_len": LENGTH, "overlong_buffer_cfg": config(**_configure_overlong(buffer))}

    def score_all(data_sources: Any, solution_strs: Any, ground_truths: Any, extra_infos: Any, **kwargs: Any) -> Any:
        rows = zip(data_sources, solution_strs, ground_truths, extra_infos, strict=True)
        return [function(*row, **kwargs) for row in rows]

    if name == "batch" and function is not None:
        more["compute_score"] = score_all
    side.module(MANAGERS)
    if name not in side.get(f"{MANAGERS}.registry:REWARD_MANAGER_REGISTRY"):
        raise NotVendored(f"the reward manager {name}")
    cls = side.get(f"{MANAGERS}.registry:get_reward_manager_cls")(name)
    scoring = vars(sys.modules[cls.__module__]).get("run_reward_scoring")
    if scoring is not None and not hasattr(scoring, "__wrapped__"):

        @functools.wraps(scoring)
        def score_in_one_process(*args: Any, **kwargs: Any) -> Any:
            return scoring(*args, **{**kwargs, "num_processes": 1})

        vars(sys.modules[cls.__module__])["run_reward_scoring"] = score_in_one_process
    return cls(tokenizer=inputs.tokenizer(), **{**more, **changes})


def reward_each(
    side: Side,
    manager: str,
    *,
    scorer: str = "told",
    told: bool = False,
    router: str = "",
    rows: int = 1,
    buffer: dict[str, Any] | None = None,
    max_resp_len: int | None = LENGTH,
) -> Any:
    """Return the rewards of a manager that scores one response each time."""
    side.module(f"{LOOP}.{'limited' if manager == 'rate_limited' else manager}")
    given = {"reward_kwargs": {"overlong_buffer_cfg": _configure_overlong(buffer), "max_resp_len": max_resp_len}}
    settings = config(reward=given, reward_model=given, trainer={"experiment_name": "tiny"})
    cls, data = side.get(f"{LOOP}.registry:get_reward_manager_cls")(manager), make_answers(side, told=told)
    more = {"reward_router_address": router, "reward_model_tokenizer": None} if router else {}

    async def score_all() -> Any:
        made = cls(config=settings, tokenizer=inputs.tokenizer(), compute_score=_SCORERS.get(scorer), **more)
        scored = [await made.run_single(data[row : row + rows]) for row in range(0, len(data), rows)]
        return scored, made.config is settings, made._class_initialized

    return asyncio.run(score_all())


# Loading


def make_scorer_config(
    side: Side, path: str | None = None, function: str | None = "score", manager: str = "naive"
) -> Any:
    """Write scorer files; return a config that selects one."""
    if manager != "naive":
        side.module(f"{MANAGERS}.{manager}")
    (side.scratch / "scorer.py").write_text(SCORER, encoding="utf-8")
    (side.scratch / "broken.py").write_text("raise ValueError('broken')\n", encoding="utf-8")
    # Upstream keeps the loaded file under this name for good.
    sys.modules.pop("custom_module", None)
    registered = {"source": "register", "name": manager, "module": None}
    custom = {"path": (path or "{}/scorer.py").format(side.scratch), "name": function, "reward_kwargs": {"bonus": 0.25}}
    return config(
        custom_reward_function=custom,
        reward_model={"reward_manager": manager, "sandbox_fusion": None},
        reward_manager=registered,
        reward={"custom_reward_function": custom, "reward_manager": registered, "sandbox_fusion": None},
        data={"reward_fn_key": "data_source"},
    )


def _load(side: Side, settings: Any) -> Any:
    try:
        return side.get(f"{REWARD}:get_custom_reward_fn")(settings)
    except NotVendored:
        return side.get("verl.utils.import_utils:get_custom_reward_fn")(settings)


def load_function(
    side: Side, path: str | None = None, function: str | None = "score", given: dict[str, Any] | None = None
) -> Any:
    """Return what a function of a file, or the mistake in naming it, says."""
    loaded = capture_outcome(_load, side, make_scorer_config(side, path, function))
    result = loaded("source", "abc", "g", **(given or {})) if callable(loaded) else ""
    return type(loaded).__name__, asyncio.run(result) if inspect.iscoroutine(result) else result


def _return_numbers(data: Any, return_dict: bool = False) -> Any:
    if return_dict:
        raise ValueError("no dictionary")
    return torch.ones(2)


MADE = {
    "loaded_manager": lambda side, **chosen: side.get(f"{REWARD}:load_reward_manager")(
        make_scorer_config(side, **chosen), inputs.tokenizer(), num_examine=1
    ),
    "no_dictionary": lambda side: _return_numbers,
    "tokenizer": lambda side: inputs.tokenizer(),
}
