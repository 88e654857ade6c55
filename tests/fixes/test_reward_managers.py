"""The named fixes of verl's own reward managers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from tests.fixes.support import Case, Part, Vendored

PART = Part(roles=("reward", "reward_managers", "protocol"), features=("reward_managers",))
GIVEN: list[Any] = [{"score": 1.0, "format": 0.5}, 0.25, {"score": 0.0, "acc": 1.0}, 0.75]


def test_a_component_stays_with_its_sample(case: Case, fixed: Vendored, broken: Vendored) -> None:
    name = case.fix.id.rpartition("-")[2]
    components = _components(fixed, name)
    assert components["format"] == [0.5, None, None, None]
    of_dapo = {"acc": [None, 0.25, 1.0, 0.75]} if name == "dapo" and case.release >= "0.5.0" else {}
    assert {"acc": components["acc"]} == (of_dapo or {"acc": [None, None, 1.0, None]})
    assert components["score"] == [1.0, None, 0.0, None]
    assert len(_components(broken, name)["format"]) == 1


def _components(package: Vendored, name: str) -> dict[str, list[Any]]:
    module = package.module(f"vendored.workers.reward_manager.{name}")
    manager = getattr(module, {"dapo": "DAPORewardManager"}.get(name, f"{name.capitalize()}RewardManager"))
    scores = iter(GIVEN)
    score = (lambda **_: GIVEN) if name == "batch" else (lambda **_: next(scores))
    tokenizer = SimpleNamespace(decode=lambda *_, **__: "", eos_token="")
    count = len(GIVEN)
    batch = package.get("vendored.protocol", "DataProto").from_dict(
        {
            "prompts": torch.ones(count, 2, dtype=torch.long),
            "responses": torch.ones(count, 2, dtype=torch.long),
            "attention_mask": torch.ones(count, 4, dtype=torch.long),
        },
        {
            "data_source": np.array(["s"] * count, dtype=object),
            "reward_model": np.array([{"ground_truth": ""}] * count, dtype=object),
            "extra_info": np.array([{} for _ in range(count)], dtype=object),
        },
    )
    made = manager(tokenizer, 0, score)
    made.overlong_buffer_cfg = SimpleNamespace(enable=False)
    return made(batch, return_dict=True)["reward_extra_info"]
