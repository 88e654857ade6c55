# vextract:hook  yours: written once, never touched by an upgrade
"""The reward: what the environment has given for each turn.

Select it with `reward_model.reward_manager=env`; verl's own managers (naive, batch, dapo, prime) stay selectable.
"""

from collections import defaultdict
from typing import Any

import torch

from .env_wrapper import make_env

try:
    from ..protocol import DataProto
    from ..workers.reward_manager.registry import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.protocol import DataProto
    from verl.workers.reward_manager.registry import register


@register("env")
class EnvRewardManager:
    """Returns the rewards of the environments that the responses were episodes of.

    Without `actor_rollout_ref.rollout.multi_turn.enable` there were none: each response then is the only action of an
    episode, and its reward what an environment gives for that.

    Args:
        tokenizer: decodes the responses.
        num_examine: how many responses to print, for a look at what the model writes.
        env_settings: for `make_env`, where episodes have a single turn: `reward_model.reward_kwargs.env_settings`.
    """

    def __init__(
        self,
        tokenizer: Any,
        num_examine: int,
        compute_score: Any = None,
        reward_fn_key: str = "data_source",
        env_settings: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.tokenizer = tokenizer
        self.num_examine = num_examine
        self.env_settings = env_settings or {}

    def __call__(self, data: DataProto, return_dict: bool = False) -> torch.Tensor | dict[str, Any]:
        """The reward of a batch.

        Args:
            data: has in `batch` prompts (bs, prompt_length), responses (bs, response_length), attention_mask
                (bs, prompt_length + response_length) and, of episodes, rm_scores (bs, response_length) float32; in
                `non_tensor_batch` the columns that `meta_info["reward_extra_keys"]` names.

        Returns:
            The scores, float32 of shape (bs, response_length); with `return_dict`, {"reward_tensor": those,
            "reward_extra_info": {component: list of bs values}}.
        """
        if "rm_scores" in data.batch.keys():
            scores = data.batch["rm_scores"]
            extra = {key: list(data.non_tensor_batch[key]) for key in data.meta_info.get("reward_extra_keys", [])}
        else:
            scores, extra = self._single_turns(data)
        for row in range(min(self.num_examine, len(data))):
            print(f"{self._text(data, row)!r}, score {scores[row].sum().item():.2f}")
        return {"reward_tensor": scores, "reward_extra_info": extra} if return_dict else scores

    def _single_turns(self, data: DataProto) -> tuple[torch.Tensor, dict[str, list[Any]]]:
        scores = torch.zeros(data.batch["responses"].shape, dtype=torch.float32)
        extra: dict[str, list[Any]] = defaultdict(list)
        lengths = data.batch["attention_mask"][:, -scores.shape[1] :].sum(dim=-1).tolist()
        for row, (length, options) in enumerate(zip(lengths, data.non_tensor_batch["extra_info"], strict=True)):
            env = make_env(self.env_settings)
            env.reset(seed=0, options=options)
            _, reward, _, _, info = env.step(self._text(data, row))
            scores[row, max(length - 1, 0)] = reward
            for name, value in info.items():
                extra[name].append(value)
        return scores, dict(extra)

    def _text(self, data: DataProto, row: int) -> str:
        responses = data.batch["responses"]
        mask = data.batch["attention_mask"][row, -responses.shape[1] :].bool()
        text: str = self.tokenizer.decode(responses[row][mask].tolist(), skip_special_tokens=True)
        return text
