# vextract:hook  yours: written once, never touched by an upgrade
"""The reward: what the model wrote becomes an action, and the action a score.

Select it with `reward_model.reward_manager=env`; verl's own managers (naive, batch, dapo, prime) stay selectable.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from .env_wrapper import ToyArithmeticEnv

try:
    from ..protocol import DataProto
    from ..workers.reward_manager.registry import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.protocol import DataProto
    from verl.workers.reward_manager.registry import register

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def extract_action(text: str) -> str:
    """The action in a response: what the last `<answer>...</answer>` holds, or else the whole text, stripped."""
    tagged = ANSWER.findall(text)
    return (tagged[-1] if tagged else text).strip()


def score_action(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Score one response. Arguments as verl passes them to a `compute_score`.

    Returns:
        `score`, the reward, and next to it any component worth watching. Numbers are averaged over the batch and
        logged (`reward/<name>/mean`); `acc` is what validation reports; `pred` is what majority voting counts.
    """
    action = extract_action(solution_str)
    return {**ToyArithmeticEnv.score(str(ground_truth), action), "pred": action}


@register("env")
class EnvRewardManager:
    """Scores a batch of responses, and puts each score on the last token of its response.

    Args:
        tokenizer: decodes the responses.
        num_examine: how many responses of each data source to print, for a look at what the model writes.
        compute_score: a function of the owner's (`custom_reward_function.path`), used instead of `score_action`.
            verl passes its own scorer when none is configured; that one is not used here.
        reward_fn_key: the column that names the data source.
    """

    def __init__(
        self,
        tokenizer: Any,
        num_examine: int,
        compute_score: Callable[..., Any] | None = None,
        reward_fn_key: str = "data_source",
        **kwargs: Any,
    ) -> None:
        self.tokenizer = tokenizer
        self.num_examine = num_examine
        function = getattr(compute_score, "func", compute_score)  # verl wraps it in functools.partial
        is_default = function is None or getattr(function, "__name__", "") == "default_compute_score"
        self.compute_score = score_action if is_default or compute_score is None else compute_score
        self.reward_fn_key = reward_fn_key

    def __call__(self, data: DataProto, return_dict: bool = False) -> torch.Tensor | dict[str, Any]:
        """Score a batch.

        Args:
            data: has in `batch` prompts (bs, prompt_length), responses (bs, response_length) and attention_mask
                (bs, prompt_length + response_length); in `non_tensor_batch` reward_model and the data source.

        Returns:
            The scores, float32 of shape (bs, response_length), zero but for the last token of each response; with
            `return_dict`, {"reward_tensor": those, "reward_extra_info": {component: list of bs values}}.
        """
        if "rm_scores" in data.batch.keys():  # a reward model has been there first
            scores = data.batch["rm_scores"]
            return {"reward_tensor": scores, "reward_extra_info": {}} if return_dict else scores

        prompt_length = data.batch["prompts"].shape[-1]
        responses = data.batch["responses"]
        mask = data.batch["attention_mask"][:, prompt_length:].bool()
        lengths = mask.sum(dim=-1)
        # One call for the whole batch: decoding row by row is most of the time a reward takes.
        texts = self.tokenizer.batch_decode(
            [ids[valid].tolist() for ids, valid in zip(responses, mask, strict=True)], skip_special_tokens=True
        )
        sources = data.non_tensor_batch[self.reward_fn_key]
        extra_infos = data.non_tensor_batch.get("extra_info", [None] * len(texts))

        rewards: list[float] = []
        extra: dict[str, list[Any]] = defaultdict(list)
        for row, text in enumerate(texts):
            result = self.compute_score(
                data_source=sources[row],
                solution_str=text,
                ground_truth=data.non_tensor_batch["reward_model"][row]["ground_truth"],
                extra_info=extra_infos[row],
            )
            components = result if isinstance(result, dict) else {"score": result}
            rewards.append(float(components["score"]))
            for name, value in components.items():
                extra[name].append(value)
        self._examine(data, texts, rewards)

        reward_tensor = torch.zeros(responses.shape, dtype=torch.float32, device=responses.device)
        rows = torch.arange(len(texts), device=responses.device)
        reward_tensor[rows, (lengths - 1).clamp(min=0)] = torch.tensor(rewards, device=responses.device)
        return {"reward_tensor": reward_tensor, "reward_extra_info": dict(extra)} if return_dict else reward_tensor

    def _examine(self, data: DataProto, texts: list[str], rewards: list[float]) -> None:
        printed: dict[str, int] = defaultdict(int)
        for row, source in enumerate(data.non_tensor_batch[self.reward_fn_key]):
            if printed[source] < self.num_examine:
                printed[source] += 1
                prompt = self.tokenizer.decode(data.batch["prompts"][row].tolist(), skip_special_tokens=True)
                truth = data.non_tensor_batch["reward_model"][row]["ground_truth"]
                print(f"[{source}] {prompt!r} -> {texts[row]!r}, expected {truth!r}, score {rewards[row]:.2f}")
