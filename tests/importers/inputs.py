"""What the hooks are given, under verl and in the project alike."""

from types import SimpleNamespace
from typing import Any

PROMPT = "37="
TRUTH = "48"
TEXTS = ("48", "47", "x", "488")


def batch(proto: Any, tokenizer: Any) -> Any:
    """Responses to one prompt, right and wrong, padded on the right."""
    import numpy as np
    import torch

    prompt = torch.tensor(tokenizer(PROMPT, add_special_tokens=False)["input_ids"])
    ids = [torch.tensor(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS]
    pad = torch.nn.utils.rnn.pad_sequence
    responses = pad(ids, batch_first=True, padding_value=tokenizer.pad_token_id or 0)
    mask = pad([torch.ones_like(row) for row in ids], batch_first=True)
    prompts = prompt.repeat(len(TEXTS), 1)
    attention = torch.cat([torch.ones_like(prompts), mask], dim=1)
    columns = {
        "data_source": ["test"] * len(TEXTS),
        "reward_model": [{"style": "rule", "ground_truth": TRUTH}] * len(TEXTS),
        "extra_info": [{"question": PROMPT, "index": row} for row in range(len(TEXTS))],
        "raw_prompt": [[{"role": "user", "content": PROMPT}]] * len(TEXTS),
    }
    arrays = {}
    for name, values in columns.items():
        arrays[name] = np.empty(len(values), dtype=object)
        arrays[name][:] = values
    return proto.from_dict(
        tensors={
            "prompts": prompts,
            "responses": responses,
            "attention_mask": attention,
            "input_ids": torch.cat([prompts, responses], dim=1),
            "position_ids": attention.cumsum(1) - 1,
        },
        non_tensors=arrays,
    )


def prompts(rows: Any) -> dict[str, Any]:
    """What there is to see of a dataset, under every release."""
    first = [rows[index] for index in range(3)]
    return {
        "rows": len(rows),
        "ground_truth": [row["reward_model"]["ground_truth"] for row in first],
        "extra_info": [dict(row["extra_info"]) for row in first],
    }


def algorithms(core: Any, estimator: str, loss: str) -> dict[str, Any]:
    """Numbers of the project's own algorithms.

    Args:
        core: core_algos, verl's or the project's.
        estimator, loss: Names under which they are registered; "" for none.
    """
    import numpy as np
    import torch

    generator = torch.Generator().manual_seed(0)
    rewards = torch.rand(6, 3, generator=generator)
    mask = torch.ones(6, 3)
    found: dict[str, Any] = {}
    if estimator:
        index = np.array(["a", "a", "a", "b", "b", "b"], dtype=object)
        function = core.get_adv_estimator_fn(estimator)
        advantages, returns = function(token_level_rewards=rewards, response_mask=mask, index=index)
        found.update(advantages=advantages.tolist(), returns=returns.tolist())
    if loss:
        old = -torch.rand(6, 3, generator=generator)
        function = core.get_policy_loss_fn(loss)
        found["loss"] = float(function(old, old + 0.1, rewards, mask, "token-mean", SimpleNamespace(clip_ratio=0.2))[0])
    return found


class Server:
    """Stands in for a server with a model that guesses 5, then 7."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._words = iter("57")

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> Any:
        """The next word."""
        ids = self._tokenizer(next(self._words), add_special_tokens=False)["input_ids"]
        return SimpleNamespace(token_ids=ids[: sampling_params["max_tokens"]], log_probs=None)


def episode_row() -> dict[str, Any]:
    """A row of the dataset of the recipe multiturn: the hidden digit is 7."""
    return {
        "raw_prompt": [{"role": "user", "content": "?"}],
        "extra_info": {"digit": 7},
        "data_source": "test",
        "index": 0,
    }
