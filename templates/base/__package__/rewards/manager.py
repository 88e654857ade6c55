# vextract:template
"""A reward manager for rewards that are read off the text of a response. `custom/reward_manager.py` derives from it."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..switches import (
    EPISODES,
    OVERLAP,
    OVERLONG_PENALTY,
    REWARD_FORMS,
    REWARD_LOGS,
    REWARD_MODEL,
    REWARD_PROCESSES,
    REWARD_RULES,
)
from .components import weighted_rewards
from .overlong import overlong_penalty
from .samples import SampleLogs
from .scoring import FeatureNeeded, Scorer, raw_function
from .scoring_aside import ScorerAside

# The component that holds scores that were given with the batch.
GIVEN = "rm"
if OVERLAP:
    # In meta_info of a batch: for each response, what `begin` has returned for it, or None.
    BEGUN = "begun"


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
    if REWARD_PROCESSES:  # see `ScorerAside`
        SETTINGS += ("concurrency", "num_workers", "timeout", "timeout_score")
    if REWARD_LOGS:  # see `SampleLogs`
        SETTINGS += ("log_dir", "log_every", "log_samples", "debug_log", "debug_samples")
    if REWARD_RULES:
        SETTINGS += ("weights",)
    if OVERLONG_PENALTY:  # see `overlong_penalty`
        SETTINGS += ("overlong_buffer_cfg", "max_resp_len")
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
        if REWARD_RULES:  # component -> weight: the reward is their weighted sum, and not `score`
            self.weights = dict(weights) if weights else None
        elif weights:
            raise FeatureNeeded("components have weights", "reward_rules")
        if OVERLONG_PENALTY:
            overlong, self.max_resp_len = settings.pop("overlong_buffer_cfg", None), settings.pop("max_resp_len", None)
            self.overlong = overlong if overlong and overlong["enable"] else None
        is_default = getattr(raw_function(compute_score), "__name__", "") == "default_compute_score"
        self.compute_score = self.score if is_default or compute_score is None else compute_score
        if REWARD_LOGS:
            self.logs = SampleLogs.taken_from(settings)
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
        if EPISODES or REWARD_MODEL:
            # Scores that are given with the batch are the reward, or with weights a part of it.
            extra: dict[str, list[Any]]
            given = data.batch["rm_scores"] if "rm_scores" in data.batch.keys() else None
            extra = {name: list(data.non_tensor_batch[name]) for name in data.meta_info.get("reward_extra_keys", [])}
            weighted = REWARD_RULES and self.weights is not None
            punished = OVERLONG_PENALTY and self.overlong is not None
            if given is not None and not weighted and not punished:
                return {"reward_tensor": given, "reward_extra_info": extra} if return_dict else given
            if given is not None:
                extra[GIVEN] = given.sum(dim=-1).tolist()
            if given is None or weighted:
                extra.update(self._scored(data, texts))
        else:
            extra = self._scored(data, texts)
        if EPISODES or OVERLONG_PENALTY or REWARD_MODEL or REWARD_RULES:
            rewards = self._rewards(data, extra, lengths.tolist())
        else:
            rewards = [float(value) for value in extra["score"]]
        if self.num_examine:
            self._show(data, texts, rewards)
        if REWARD_LOGS:
            self.logs.write(rewards, data.meta_info, lambda row: self._sample(data, row, texts, rewards, extra))
        scores = torch.tensor(rewards, dtype=torch.float32, device=responses.device)
        last = (lengths - 1).clamp(min=0)
        reward_tensor = scores.new_zeros(responses.shape).scatter(1, last[:, None], scores[:, None])
        return {"reward_tensor": reward_tensor, "reward_extra_info": extra} if return_dict else reward_tensor

    if REWARD_FORMS or REWARD_PROCESSES:

        def close(self) -> None:
            """End what samples are scored in."""
            self.scorer.close()

    if OVERLAP:

        def begins(self, in_thread: bool) -> bool:
            """Tell whether a response can be scored while others are still written.

            Args:
                in_thread: whether a plain function may be called in a thread, if `local.reward.num_workers` is 0.
            """
            scorer = vars(self).get("scorer")  # a derived class may have none, or something else that can be called
            return bool(getattr(scorer, "is_aside", False)) or (in_thread and isinstance(scorer, ScorerAside))

        def begin(self, sample: Any) -> tuple[str, Any] | None:
            """Begin to score one response beside this thread; None: it has to wait for the whole batch.

            Args:
                sample: as for `__call__`, with one row.

            Returns:
                Its text, which the score is of, and what the scorer's `begin` returns.
            """
            responses = sample.batch["responses"]
            lengths = sample.batch["attention_mask"][:, -responses.shape[-1] :].sum(dim=-1)
            (text,) = texts = self._texts(responses.tolist(), lengths.tolist())
            return text, self._begun(self._arguments(sample, texts))

        def give_up(self, begun: Sequence[tuple[str, Any] | None]) -> None:
            """Drop what was begun."""
            self.scorer.give_up([one[1] for one in begun if one is not None])

        def _begun(self, arguments: Any) -> Any:
            (sample,) = arguments
            return self.scorer.begin(sample)

    def _make_scorer(self, function: Callable[..., Any], **settings: Any) -> Any:
        if REWARD_PROCESSES:
            return ScorerAside(function, **settings)
        else:
            return Scorer(function, **settings)

    def _texts(self, responses: list[list[int]], lengths: list[int]) -> list[str]:
        # One call for the whole batch: decoding row by row is most of the time a reward takes. A response is what the
        # attention mask covers, without holes: padding is on its right.
        used = [ids[:length] for ids, length in zip(responses, lengths, strict=True)]
        return self.tokenizer.batch_decode(used, skip_special_tokens=True)

    def _scored(self, data: Any, texts: list[str]) -> dict[str, list[Any]]:
        """Return the components of the samples: for each one value of each sample."""
        if OVERLAP and BEGUN in data.meta_info:
            pairs = zip(texts, data.meta_info[BEGUN], strict=True)
            pending = [one[1] if one is not None and one[0] == text else None for text, one in pairs]
            results = self.scorer(self._arguments(data, texts), pending)
        else:
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

    if EPISODES or OVERLONG_PENALTY or REWARD_MODEL or REWARD_RULES:

        def _rewards(self, data: Any, extra: dict[str, list[Any]], lengths: list[int]) -> list[float]:
            """Return the reward of each sample, from its components."""
            name = "score"
            if (EPISODES or REWARD_MODEL) and "rm_scores" in data.batch.keys():
                name = GIVEN
            rewards = [float(value) for value in extra[name]]
            if REWARD_RULES and self.weights is not None:
                columns = data.non_tensor_batch
                rewards = weighted_rewards(self.weights, extra, self._sources(data), columns, self.compute_score)
            if OVERLONG_PENALTY and self.overlong is not None:  # it is added to both
                limit, buffer, factor = self.max_resp_len or 0, self.overlong["len"], self.overlong["penalty_factor"]
                penalties = [overlong_penalty(length, limit, buffer, factor) for length in lengths]
                rewards = [reward + penalty for reward, penalty in zip(rewards, penalties, strict=True)]
                if self.overlong.get("log"):
                    extra["overlong_reward"] = penalties
                    extra["overlong"] = [float(penalty < 0) for penalty in penalties]
            return rewards

    def _show(self, data: Any, texts: list[str], rewards: list[float]) -> None:
        printed: dict[str, int] = defaultdict(int)
        for row, source in enumerate(self._sources(data)):
            if printed[source] < self.num_examine:
                printed[source] += 1
                truth = data.non_tensor_batch["reward_model"][row]["ground_truth"]
                prompt = self._prompt(data, row)
                print(f"[{source}] {prompt!r} -> {texts[row]!r}, expected {truth!r}, score {rewards[row]:.2f}")

    if REWARD_LOGS:

        def _sample(
            self, data: Any, row: int, texts: list[str], rewards: list[float], extra: dict[str, list[Any]]
        ) -> dict[str, Any]:
            return {
                "data_source": self._sources(data)[row],
                "prompt": self._prompt(data, row),
                "response": texts[row],
                "ground_truth": data.non_tensor_batch["reward_model"][row]["ground_truth"],
                "reward": rewards[row],
                "components": {name: values[row] for name, values in extra.items() if values[row] is not None},
            }

    def _prompt(self, data: Any, row: int) -> str:
        prompts = data.batch["prompts"]
        mask = data.batch["attention_mask"][row, : prompts.shape[-1]].bool()
        return self.tokenizer.decode(prompts[row][mask].tolist(), skip_special_tokens=True)
