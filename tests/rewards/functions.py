"""Functions to score with; worker processes import this file as the module scored_by."""

import asyncio
import os
import sys
import time
from typing import Any


def length(solution_str: str, **sample: Any) -> float:
    return float(len(solution_str))


def unreliable(solution_str: str, **sample: Any) -> dict[str, Any]:
    """What the text says: hang, spin where no signal is heard, die, raise, or be scored."""
    if solution_str == "hang":
        time.sleep(60)
    if solution_str == "spin":
        return {"score": float(9**9**9)}
    if solution_str == "die":
        os._exit(7)
    if solution_str == "exit":
        sys.exit("enough")
    if solution_str == "raise":
        raise KeyError("no such key")
    if solution_str == "nothing":
        return {"value": 1.0}
    return {"score": float(len(solution_str)), "text": solution_str}


async def waiting(solution_str: str, **sample: Any) -> float:
    if solution_str == "raise":
        raise KeyError("no such key")
    await asyncio.sleep(60 if solution_str == "hang" else 0.1)
    return float(len(solution_str))
