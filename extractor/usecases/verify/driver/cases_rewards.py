# mypy: disable-error-code="misc"
"""Cases of reward managers, and of loading one."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from . import inputs, tiny
from .cases import Thunk, family, outcome, printed
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


def answers(side: Side, *, scored: bool = False, told: bool = False) -> Any:
    """Return a batch of responses; `told`: with what episodes add to a row, and without what a dataset adds."""
    generator = torch.Generator().manual_seed(601)
    mask = inputs.response_mask()
    prompt_mask = (torch.arange(inputs.PROMPT)[None, :] >= torch.tensor([0, 3, 1, 2, 0, 5, 4, 6])[:, None]).long()
    tensors = {
        "prompts": torch.randint(3, 40, (inputs.BATCH, inputs.PROMPT), generator=generator),
        "responses": torch.randint(1, 40, (inputs.BATCH, inputs.LENGTH), generator=generator),
        "attention_mask": torch.cat([prompt_mask, mask], dim=1),
    }
    if scored:
        tensors["rm_scores"] = inputs.rewards(dense=False, mask=mask)
    rows = range(inputs.BATCH)
    arrays = {
        "data_source": np.array([f"source {row % 2}" for row in rows], dtype=object),
        "reward_model": np.array([{"ground_truth": "g" * row} for row in rows], dtype=object),
        "extra_info": np.array([{"index": row} for row in rows], dtype=object),
        "bonus": np.arange(inputs.BATCH) / 4,
    }
    if told:
        del arrays["extra_info"]
        arrays["__num_turns__"] = np.arange(inputs.BATCH)
        arrays["tool_extra_fields"] = np.array([{"tool": row} for row in rows], dtype=object)
        arrays["reward_scores"] = np.array([{"step": [row]} for row in rows], dtype=object)
    meta = {"reward_extra_keys": ["bonus"]}
    return side.get("verl.protocol:DataProto").from_dict(tensors=tensors, non_tensors=arrays, meta_info=meta)


@family("reward_manager", f"{PACKAGE}.registry")
def managers(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of every registered manager."""
    registry = side.module(f"{PACKAGE}.registry").REWARD_MANAGER_REGISTRY
    side.module(PACKAGE)
    for name in sorted(registry):
        module = f"{PACKAGE}.{name}"
        for label, function in (("number", score), ("details", score_with_details)):
            for as_dict in (False, True):
                yield (
                    f"{name}/{label}/{as_dict}",
                    lambda name=name, module=module, function=function, as_dict=as_dict: _rewards(
                        side, name, module, function, as_dict
                    ),
                )
        for label, settings in (
            ("told", {"told": True}),
            ("no printing", {"num_examine": 0}),
            ("many printed", {"num_examine": 3}),
            ("its own scorer", {"compute_score": None}),
            ("another key", {"reward_fn_key": "source"}),
            ("exact length", {"buffer": {"len": inputs.LENGTH}}),
            ("no buffer", {"buffer": {"enable": False}}),
            ("no log", {"buffer": {"log": False}}),
            ("no length", {"max_resp_len": None}),
            ("short", {"max_resp_len": 3}),
        ):
            if _has(name, settings):
                yield (
                    f"{name}/{label}",
                    lambda name=name, module=module, settings=settings: printed(
                        _rewards, side, name, module, score_what_is_told, True, **settings
                    ),
                )
        for as_dict in (False, True):
            yield (
                f"{name}/scored/{as_dict}",
                lambda name=name, as_dict=as_dict: _made(side, name, score)(
                    answers(side, scored=True), return_dict=as_dict
                ),
            )
    yield "unknown", lambda: type(outcome(side.get(f"{PACKAGE}.registry:get_reward_manager_cls"), "none")).__name__

    def register() -> Any:
        add, get = (side.get(f"{PACKAGE}.registry:{name}") for name in ("register", "get_reward_manager_cls"))

        class Mine:
            pass

        found = add("vextract-mine")(Mine) is Mine, get("vextract-mine") is Mine
        again = type(outcome(add("vextract-mine"), type("Other", (), {}))).__name__
        del registry["vextract-mine"]
        return found, again

    yield "registering", register


def _has(name: str, settings: Mapping[str, Any]) -> bool:
    """Tell whether a manager has settings; those that catch every error say otherwise why they have no scorer."""
    catches = name in ("prime", "rate_limited") and None in settings.values()
    return not catches and (name == "dapo" or not {"buffer", "max_resp_len"} & settings.keys())


def _made(
    side: Side, name: str, function: Callable[..., Any], *, buffer: dict[str, Any] | None = None, **changes: Any
) -> Any:
    more: dict[str, Any] = {"num_examine": 1, "compute_score": function, "reward_fn_key": "data_source"}
    if name == "dapo":
        settings = {"enable": True, "len": 4, "penalty_factor": 1.5, "log": True, **(buffer or {})}
        more |= {"max_resp_len": inputs.LENGTH, "overlong_buffer_cfg": inputs.config(**settings)}
    if name == "batch":

        def scored(data_sources: Any, solution_strs: Any, ground_truths: Any, extra_infos: Any, **kwargs: Any) -> Any:
            rows = zip(data_sources, solution_strs, ground_truths, extra_infos, strict=True)
            return [function(*row, **kwargs) for row in rows]

        more["compute_score"] = scored
    cls = side.get(f"{PACKAGE}.registry:get_reward_manager_cls")(name)
    return cls(tokenizer=tiny.tokenizer(), **{**more, **changes})


def _rewards(
    side: Side,
    name: str,
    module: str,
    function: Callable[..., Any],
    as_dict: bool,
    *,
    told: bool = False,
    **changes: Any,
) -> Any:
    manager = _made(side, name, function, **changes)
    data = answers(side, told=told)
    if changes.get("reward_fn_key"):
        data.non_tensor_batch["source"] = data.non_tensor_batch["data_source"]
    home = sys.modules[type(manager).__module__]
    scoring = getattr(home, "run_reward_scoring", None)
    if scoring is None:
        return outcome(manager, data, return_dict=as_dict), sorted(data.batch.keys())

    def with_few_processes(*args: Any, **kwargs: Any) -> Any:
        return scoring(*args, **{**kwargs, "num_processes": 1})

    home.__dict__["run_reward_scoring"] = with_few_processes
    try:
        return outcome(manager, data, return_dict=as_dict), sorted(data.batch.keys())
    finally:
        home.__dict__["run_reward_scoring"] = scoring


@family("reward", REWARD)
def loading(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Go from the configuration to a manager, and from a batch to rewards."""

    def settings(name: str | None, function: str | None = "score", manager: str = "naive") -> Any:
        path = side.scratch / "scorer.py"
        path.write_text(SCORER, encoding="utf-8")
        # Upstream keeps the loaded file under this name for good.
        sys.modules.pop("custom_module", None)
        registered = {"source": "register", "name": manager, "module": None}
        custom = {"path": name or str(path), "name": function, "reward_kwargs": {"bonus": 0.25}}
        return inputs.config(
            custom_reward_function=custom,
            reward_model={"reward_manager": manager, "sandbox_fusion": None},
            reward_manager=registered,
            reward={"custom_reward_function": custom, "reward_manager": registered, "sandbox_fusion": None},
            data={"reward_fn_key": "data_source"},
        )

    def loaded(function: str, manager: str) -> Any:
        side.module(f"{PACKAGE}.{manager}")
        made = side.get(f"{REWARD}:load_reward_manager")(settings(None, function, manager), tiny.tokenizer(), 1)
        return side.get(f"{REWARD}:compute_reward")(answers(side), made)

    yield "load_reward_manager/naive", lambda: loaded("score", "naive")
    yield "load_reward_manager/batch", lambda: loaded("score_many", "batch")
    yield "no file", lambda: type(outcome(_custom(side), settings("/none/scorer.py"))).__name__
    yield "no function", lambda: type(outcome(_custom(side), settings(None, "none"))).__name__
    yield "no name", lambda: type(outcome(_custom(side), settings(None, None))).__name__
    yield "no custom function", lambda: outcome(_custom(side), inputs.config(custom_reward_function=None, reward={}))
    yield "custom function", lambda: _custom(side)(settings(None))("source", "abc", "g")
    # What the configuration gives a scorer, and what its caller does.
    for function in ("score", "score_later"):

        def both(function: str = function) -> Any:
            result = outcome(_custom(side)(settings(None, function)), "source", "abc", "g", bonus=3.0, other=1)
            return asyncio.run(result) if inspect.iscoroutine(result) else result

        yield f"custom {function}/both give", both
    for label, named in (
        ("pkg", "pkg://none.scorer"),
        ("file", "file://"),
        ("directory", "{folder}"),
        ("broken", "{broken}"),
    ):

        def unusual(named: str = named) -> Any:
            plain = settings(None)["custom_reward_function"]["path"]
            (side.scratch / "broken.py").write_text("raise ValueError('broken')\n", encoding="utf-8")
            places = {
                "{folder}": str(side.scratch),
                "{broken}": str(side.scratch / "broken.py"),
                "file://": f"file://{plain}",
            }
            found = outcome(_custom(side), settings(places.get(named, named)))
            return type(found).__name__, found("source", "abc", "g") if not isinstance(found, Exception) else ""

        yield f"custom function/{label}", unusual
    yield "custom coroutine", lambda: asyncio.run(_custom(side)(settings(None, "score_later"))("source", "abc", "g"))

    def failing() -> Any:
        def manager(data: Any, return_dict: bool = False) -> Any:
            if return_dict:
                raise ValueError("no dictionary")
            return torch.ones(2)

        return side.get(f"{REWARD}:compute_reward")(answers(side), manager)

    yield "compute_reward/no dictionary", failing

    def later() -> Any:
        # Upstream makes this a remote function; what is compared is the function itself.
        function = side.get(f"{REWARD}:compute_reward_async")
        result = function(answers(side), reward_fn=_made(side, "naive", score_with_details))
        return result.result() if hasattr(result, "result") else result

    yield "compute_reward_async", later


@family("reward_loop", f"{LOOP}.registry")
def loop_managers(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Yield cases of every manager that scores one response each time."""
    for name in ("dapo", "gdpo", "naive", "rate_limited"):
        for label, function in (("number", score), ("details", score_with_details), ("later", score_later)):
            yield f"{name}/{label}", lambda name=name, function=function: _one_by_one(side, name, function)
        for label, settings in (
            ("told", {"told": True}),
            ("router", {"router": "tiny:80"}),
            ("several rows", {"rows": 3}),
            ("its own scorer", {"function": None}),
            ("exact length", {"buffer": {"len": inputs.LENGTH}}),
            ("no buffer", {"buffer": {"enable": False}}),
            ("no log", {"buffer": {"log": False}}),
        ):
            if _has(name, settings):
                yield (
                    f"{name}/{label}",
                    lambda name=name, settings=settings: outcome(
                        _one_by_one, side, name, **{"function": score_what_is_told, **settings}
                    ),
                )
    yield "unknown", lambda: type(outcome(side.get(f"{LOOP}.registry:get_reward_manager_cls"), "none")).__name__

    def register() -> Any:
        mine = type("Mine", (), {})
        kept = side.get(f"{LOOP}.registry:register")("vextract-mine")(mine) is mine
        found = side.get(f"{LOOP}.registry:get_reward_manager_cls")("vextract-mine") is mine
        del side.module(f"{LOOP}.registry").REWARD_MANAGER["vextract-mine"]
        return kept, found

    yield "registering", register

    def extracted(*, keys: bool = True) -> Any:
        data = answers(side, scored=True)
        if not keys:
            data.pop(meta_info_keys=["reward_extra_keys"])
        return side.get(f"{REWARD}:extract_reward")(data)

    yield "extract_reward/no keys", lambda: extracted(keys=False)

    yield "extract_reward", extracted


async def score_later(*args: Any, **kwargs: Any) -> Any:
    """Return a number that is waited for."""
    return score(*args, **kwargs)


def _one_by_one(
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
    config = inputs.config(
        reward={"reward_kwargs": {"overlong_buffer_cfg": overlong, "max_resp_len": inputs.LENGTH}},
        reward_model={"reward_kwargs": {"overlong_buffer_cfg": overlong, "max_resp_len": inputs.LENGTH}},
        trainer={"experiment_name": "tiny"},
    )
    cls = side.get(f"{LOOP}.registry:get_reward_manager_cls")(name)
    data = answers(side, told=told)
    more = {"reward_router_address": router, "reward_model_tokenizer": None} if router else {}

    async def scores() -> Any:
        manager = cls(config=config, tokenizer=tiny.tokenizer(), compute_score=function, **more)
        found = [await manager.run_single(data[row : row + rows]) for row in range(0, len(data), rows)]
        return found, manager.config is config, manager._class_initialized

    return asyncio.run(scores())


def _custom(side: Side) -> Any:
    try:
        return side.get(f"{REWARD}:get_custom_reward_fn")
    except NotVendored:
        return side.get("verl.utils.import_utils:get_custom_reward_fn")
