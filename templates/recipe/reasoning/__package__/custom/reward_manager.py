# vextract:hook  yours: written once, never touched by an upgrade
"""The reward: the form of the response, the thinking in it, and its answer, each a component with a weight.

The config selects it as the reward manager `env`, and has the weights under `reward_kwargs.weights`. A component is a
function with the arguments that verl passes to a `compute_score`; add yours to `COMPONENTS`, and a weight for it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..rewards.components import WeightedComponents
from ..rewards.manager import GIVEN, TextRewardManager
from ..rewards.text import has_form, length_share, repeated_share, tagged, tags_once, tags_share
from ..rewards.verified_math import same_answer
from .countdown import solves

try:
    from ..vendored.workers.reward_manager.registry import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.workers.reward_manager.registry import register

TAGS = ("think", "answer")


def form(solution_str: str, **sample: Any) -> float:
    """Rate the form: 1 for `<think>...</think><answer>...</answer>` and nothing else. Otherwise a part, to learn on:

    0.5 for the tags in their order, 0.25 for each of them only once, 0.25 for nothing around them.
    """
    return (
        0.5 * tags_share(solution_str, TAGS)
        + 0.25 * tags_once(solution_str, TAGS)
        + 0.25 * has_form(solution_str, TAGS)
    )


def thinking(solution_str: str, min_words: int, max_words: int, **sample: Any) -> float:
    """Rate the thinking by its length: 1 from `min_words` to `max_words`, less outside; repeating oneself costs."""
    thoughts = tagged(solution_str, "think")
    if not thoughts:
        return 0.0
    length = length_share(len(thoughts.split()), min_words, max_words, width=max(min_words, 1))
    return length * (1.0 - repeated_share(thoughts))


def answer(solution_str: str, ground_truth: Any, **sample: Any) -> float:
    """Rate the answer: 1 if it is right, else 0.

    The ground truth says what is asked: numbers and a target (countdown), or an answer (mathematics, by math-verify).
    """
    given = tagged(solution_str, "answer")
    if given is None:
        return 0.0
    if isinstance(ground_truth, dict):
        return float(solves(given, ground_truth["numbers"], ground_truth["target"]))
    return float(same_answer(given, str(ground_truth)))


COMPONENTS: dict[str, Callable[..., float]] = {"format": form, "thinking": thinking, "answer": answer}
WEIGHTS = {"format": 0.2, "thinking": 0.1, "answer": 1.0}


class ReasoningScore(WeightedComponents):
    """The components, their weighted sum as `score`, `acc` for validation, and `pred` for majority voting."""

    def __call__(self, **sample: Any) -> dict[str, Any]:
        """Score one response."""
        result = super().__call__(**sample)
        return {**result, "acc": result["answer"], "pred": tagged(sample["solution_str"], "answer") or ""}


@register("env")
class EnvRewardManager(TextRewardManager):
    """Scores each response by its components and puts the score on its last token.

    Args:
        tokenizer, num_examine, compute_score, reward_fn_key: as verl passes them.
        weights: component -> weight. `rm`, where there is a reward model, is a component too.
        min_words, max_words: how much thinking is wanted.
        settings: see `TextRewardManager`.
    """

    def __init__(
        self,
        tokenizer: Any,
        num_examine: int,
        compute_score: Any = None,
        reward_fn_key: str = "data_source",
        *,
        weights: Mapping[str, float] | None = None,
        min_words: int = 20,
        max_words: int = 400,
        **settings: Any,
    ) -> None:
        chosen = dict(weights or WEIGHTS)
        own = {name: weight for name, weight in chosen.items() if name != GIVEN}
        enough = partial(thinking, min_words=min_words, max_words=max_words)
        self.score = ReasoningScore({**COMPONENTS, "thinking": enough}, own)
        # `score` is the weighted sum already; only a reward model's part is still to be added to it.
        settings["weights"] = {"score": 1.0, GIVEN: chosen[GIVEN]} if GIVEN in chosen else None
        super().__init__(tokenizer, num_examine, compute_score, reward_fn_key, **settings)
