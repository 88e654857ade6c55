# mypy: disable-error-code="misc"
"""Cases of upstream's scorers."""

from __future__ import annotations

from collections.abc import Iterator

from .cases import Thunk, family, outcome
from .sides import Side

MODULE = "verl.utils.reward_score"
ANSWERS: dict[str, tuple[tuple[str, str], ...]] = {
    "openai/gsm8k": (("so #### 1,234", "1234"), ("so 12 and 13", "13"), ("#### -7", "7"), ("", "1")),
    "lighteval/MATH": (
        ("thus \\boxed{\\frac12}", "\\frac{1}{2}"),
        ("\\boxed{ 50\\% }", "50"),
        ("\\boxed 7", "7"),
        ("none", "7"),
        ("\\boxed{x=5}", "5"),
        ("\\boxed{0.5}", "\\frac{1}{2}"),
        ("\\boxed{\\sqrt3 \\text{ units}}", "\\sqrt{3}"),
    ),
    "math_dapo": (
        ("Answer: 42", "42"),
        ("Answer: $\\frac{1}{2}$", "0.5"),
        ("Answer: 1,000 dollars", "1000"),
        ("nothing", "42"),
        ("Answer: \\text{yes}", "yes"),
    ),
    "numina_cn_k12": (("\\boxed{12}", "12"), ("\\boxed{1/2}", "0.5"), ("\\boxed{(1,2)}", "(1, 2)"), ("none", "3")),
    "hiyouga/geometry3k": (("<think>a</think>\\boxed{3}", "3"), ("\\boxed{4}", "3")),
    "searchR1_nq": (
        ("<answer>one</answer><answer>The Answer</answer>", "answer"),
        ("<answer>a</answer>", "b"),
        ("no tag", "b"),
    ),
    "unknown": (("a", "b"),),
}


@family("reward_score", MODULE)
def scores(side: Side) -> Iterator[tuple[str, Thunk]]:
    """Score right, wrong and missing answers, by data source."""
    function = side.get(f"{MODULE}:default_compute_score")
    for source, pairs in ANSWERS.items():
        for number, (text, truth) in enumerate(pairs):
            expected = {"target": [truth]} if source.startswith("searchR1") else truth
            yield (
                f"{source}/{number}",
                lambda source=source, text=text, expected=expected: outcome(function, source, text, expected),
            )
