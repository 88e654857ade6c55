# vextract:hook  yours: written once, never touched by an upgrade
"""The reward: whether the final answer is right.

The config selects it as the reward manager `env`; verl's own managers (naive, dapo, ...) stay selectable.
"""

import re
from typing import Any

from ..rewards.manager import TextRewardManager
from ..rewards.text import final_answer
from ..rewards.verified_math import same_answer

try:
    from ..vendored.workers.reward_manager.registry import register
except ImportError:  # under full verl, where this project's own copy is not there
    from verl.workers.reward_manager.registry import register

# The form that the prompt asks for.
FORM = re.compile(r"####[ \t]*[-+$]?\d")
FORM_SCORE = 0.1


def score_answer(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, Any]:
    r"""Score one response. Arguments as verl passes them to a `compute_score`.

    The answer is what follows `####`, or else what is in `\boxed{...}`, or else the last number. Numbers are compared
    as numbers; for other answers (1/2, 3\pi, x+1) math-verify says whether they are equal.

    Returns:
        `score`, the reward: 1 for a right answer, `FORM_SCORE` for a wrong one in the form that was asked for, else 0.
        Next to it `acc`, which is what validation reports, `format`, and `pred`, which is what majority voting counts.
        Numbers are averaged over the batch and logged (`reward/<name>/mean`).
    """
    answer = final_answer(solution_str) or ""
    right = same_answer(answer, str(ground_truth))
    in_form = FORM.search(solution_str) is not None
    return {
        "score": 1.0 if right else FORM_SCORE * in_form,
        "acc": float(right),
        "format": float(in_form),
        "pred": answer,
    }


@register("env")
class EnvRewardManager(TextRewardManager):
    """Scores each response by `score_answer` and puts the score on its last token.

    `TextRewardManager` says what it does besides, and which settings it takes.
    """

    score = staticmethod(score_answer)
