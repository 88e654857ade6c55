# vextract:template base/__package__/rewards/manager.py
"""A reward manager for rewards that are read off the text of a response. `custom/reward_manager.py` derives from it."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .scoring import FeatureNeeded, Scorer, raw_function

# The component that holds scores that were given with the batch.
GIVEN = "rm"


class TextRewardManager:
    """Scores a batch of responses, and puts each score on the last token of its response.

    A derived class says how by `score`, a scoring function with the arguments that verl passes to a `compute_score`.

    Args:
        tokenizer: decodes the responses.
        num_examine: how many responses of each data source to print, for a look at what the model writes.
        compute_score: a function of the owner's (`custom_reward_function.path`), used instead of `score`.
            verl passes its own scorer when none is configured; that one is not used here.
        reward_fn_key: the column that names the data source.
        settings: those that `SETTINGS` names, as under `local.reward`.
    """

    # How samples are scored: see `Scorer`.
    SETTINGS: tuple[str, ...] = ()
    score: Callable[..., Any]

    def __init__(
        self,
        tokenizer: Any,
        num_examine: int,
        compute_score: Callable[..., Any] | None = None,
        reward_fn_key: str = "data_source",
        **settings: Any,
    ) -> None:
        self.tokenizer = tokenizer
        self.num_examine = num_examine
        self.reward_fn_key = reward_fn_key
        weights: Mapping[str, float] | None = settings.pop("weights", None)
        if weights:
            raise FeatureNeeded("components have weights", "reward_rules")
        is_default = getattr(raw_function(compute_score), "__name__", "") == "default_compute_score"
        self.compute_score = self.score if is_default or compute_score is None else compute_score
        self.scorer: Any = self._make_scorer(self.compute_score, **settings)

    def __call__(self, data: Any, return_dict: bool = False) -> torch.Tensor | dict[str, Any]:
        """Score a batch.

        Args:
            data: a DataProto. It has in `batch` prompts (bs, prompt_length), responses (bs, response_length) and
                attention_mask (bs, prompt_length + response_length); in `non_tensor_batch` reward_model and the data
                source.

        Returns:
            The scores, float32 of shape (bs, response_length), zero but for the last token of each response; with
            `return_dict`, {"reward_tensor": those, "reward_extra_info": {component: list of bs values}}; None: a sample
            has no such component.

        Raises:
            ScoringError: the scoring function raised, or returned no number; it names the component and the sample.
        """
        responses = data.batch["responses"]
        lengths = data.batch["attention_mask"][:, -responses.shape[-1] :].sum(dim=-1)
        texts = self._texts(responses.tolist(), lengths.tolist())
        extra = self._scored(data, texts)
        rewards = [float(value) for value in extra["score"]]
        if self.num_examine:
            self._show(data, texts, rewards)
        scores = torch.tensor(rewards, dtype=torch.float32, device=responses.device)
        last = (lengths - 1).clamp(min=0)
        reward_tensor = scores.new_zeros(responses.shape).scatter(1, last[:, None], scores[:, None])
        return {"reward_tensor": reward_tensor, "reward_extra_info": extra} if return_dict else reward_tensor

    def _make_scorer(self, function: Callable[..., Any], **settings: Any) -> Any:
        return Scorer(function, **settings)

    def _texts(self, responses: list[list[int]], lengths: list[int]) -> list[str]:
        # One call for the whole batch: decoding row by row is most of the time a reward takes. A response is what the
        # attention mask covers, without holes: padding is on its right.
        used = [ids[:length] for ids, length in zip(responses, lengths, strict=True)]
        return self.tokenizer.batch_decode(used, skip_special_tokens=True)

    def _scored(self, data: Any, texts: list[str]) -> dict[str, list[Any]]:
        """Return the components of the samples: for each one value of each sample."""
        results = self.scorer(self._arguments(data, texts))
        return {name: [result[name] for result in results] for name in (results[0] if results else ())}

    def _arguments(self, data: Any, texts: list[str]) -> list[dict[str, Any]]:
        columns = data.non_tensor_batch
        infos = columns.get("extra_info", [None] * len(texts))
        rows = zip(self._sources(data), texts, columns["reward_model"], infos, strict=True)
        return [
            {"data_source": source, "solution_str": text, "ground_truth": model["ground_truth"], "extra_info": info}
            for source, text, model, info in rows
        ]

    def _sources(self, data: Any) -> Any:
        """Return where each row is from: "unknown" where the data do not say, as in upstream's validation."""
        columns, key = data.non_tensor_batch, self.reward_fn_key
        return columns[key] if key in columns else ["unknown"] * len(data.batch["responses"])

    def _show(self, data: Any, texts: list[str], rewards: list[float]) -> None:
        printed: dict[str, int] = defaultdict(int)
        for row, source in enumerate(self._sources(data)):
            if printed[source] < self.num_examine:
                printed[source] += 1
                truth = data.non_tensor_batch["reward_model"][row]["ground_truth"]
                prompt = self._prompt(data, row)
                print(f"[{source}] {prompt!r} -> {texts[row]!r}, expected {truth!r}, score {rewards[row]:.2f}")

    def _prompt(self, data: Any, row: int) -> str:
        prompts = data.batch["prompts"]
        mask = data.batch["attention_mask"][row, : prompts.shape[-1]].bool()
        return self.tokenizer.decode(prompts[row][mask].tolist(), skip_special_tokens=True)
