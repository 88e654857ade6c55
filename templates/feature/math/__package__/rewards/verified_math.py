# vextract:template
"""Whether two mathematical answers are the same, by math-verify (https://github.com/huggingface/Math-Verify)."""

import logging
import re
import sys
import threading
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from .text import final_answer, last_number

HINT = f"{sys.executable} -m pip install 'math-verify[antlr4_9_3]' (of antlr4 it takes the version that hydra needs)"
LONGEST = 500
# A text with nothing to compute in it: a number with a unit, a name, a sentence.
WORDS = re.compile(r"[^\\^*/+=(){}\[\]|<>-]*-?[^\\^*/+=(){}\[\]|<>-]*")


def same_answer(given: str, expected: str, timeout: int = 5) -> bool:
    r"""Tell whether two answers have the same value: 0.5 and \frac{1}{2}, x+1 and 1+x, (1, 2) and \left(1,2\right).

    Two plain numbers are compared at once, exactly, and without math-verify, also if there are words beside the given
    one (72 rolls). For anything else math-verify is needed,
    whose time limits are signals: they work in a main thread only, so also in the worker processes of `Scorer`, which
    have a harder limit besides.

    Args:
        given: what the model answered: the answer alone, without the words around it.
        expected: the right answer, as a number, an expression or LaTeX.
        timeout: seconds to read each of them, and to compare them.

    Returns:
        Whether they are equal. False if `given` cannot be read, or that takes too long.

    Raises:
        ValueError: `expected` cannot be read.
        ImportError: math-verify is not installed.
        RuntimeError: called in a thread other than a process's main one.
    """
    given, expected = given.strip().strip("$").strip(), str(expected).strip().strip("$").strip()
    if given == expected and expected:
        return True
    numbers = plain_number(given), plain_number(expected)
    if numbers[1] is not None and numbers[0] is None and WORDS.fullmatch(given):
        numbers = plain_number(last_number(given) or ""), numbers[1]
        if numbers[0] is None:
            return False
    if None not in numbers:
        return numbers[0] == numbers[1]
    if not given or len(given) > LONGEST:
        return False
    try:
        from math_verify import parse, verify
    except ImportError as error:
        raise ImportError(f"comparing {given!r} with {expected!r} needs math-verify\nhint: {HINT}") from error
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError(
            "math-verify limits its time by signals, which only a main thread gets\n"
            "hint: local.reward.num_workers=1 or more, or a reward that is not computed in the background"
        )
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it logs every answer that it cannot read
    wanted = parse(f"\\boxed{{{expected}}}", parsing_timeout=timeout)
    if not wanted:
        raise ValueError(f"the ground truth {expected!r} is not a number, an expression or LaTeX")
    found = parse(f"\\boxed{{{given}}}", parsing_timeout=timeout)
    return bool(found) and bool(verify(wanted, found, timeout_seconds=timeout))


def plain_number(text: str) -> Fraction | None:
    """Return the value of a text that is a number and nothing else (1,250  -3.50  2/3  $12  40%); else None.

    Currency and percent signs are left out, not computed with: 40% is 40, as answers to word problems are written.
    """
    text = text.strip().removeprefix("$").removeprefix("\\$").removesuffix("%").removesuffix("\\").removesuffix(".")
    text = text.replace(",", "").strip()
    if not text or len(text) > 40 or not set(text) <= set("0123456789+-./"):
        return None
    try:
        return Fraction(text) if "/" in text else Fraction(Decimal(text))
    except (ValueError, ZeroDivisionError, InvalidOperation):
        return None


def score_math(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: dict[str, Any] | None = None
) -> dict[str, Any]:
    r"""Score a response by its final answer: `#### 42`, `\boxed{42}` or the last number. Arguments as verl passes them.

    Returns:
        `score` and `acc`: 1.0 if the answer is right, else 0.0; `pred`, the answer found, for majority voting.
    """
    answer = final_answer(solution_str) or ""
    right = float(same_answer(answer, str(ground_truth)))
    return {"score": right, "acc": right, "pred": answer}
