"""A reward for the tests: any response has one, and it can be made to fail."""

import os
import zlib
from typing import Any


def compute_score(data_source: str, solution_str: str, ground_truth: Any, **kwargs: Any) -> float:
    """Between 0 and 1, by the text alone."""
    if os.environ.get("REWARD_FAILS_AT") and os.environ["REWARD_FAILS_AT"] == os.environ["STEP"]:
        raise RuntimeError("the judge is out of order")
    return zlib.crc32(solution_str.encode()) % 1000 / 1000
