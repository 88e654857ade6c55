"""How many programs a second the sandbox judges, one after another."""

import importlib
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from extractor.values.resources import find_templates

ROUNDS = 30
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "three asserts": (
        "def f(x): return x + 1",
        {"asserts": ["assert f(1) == 2", "assert f(2) == 3", "assert f(3) == 4"]},
    ),
    "one input": ("print(int(input()) + 1)", {"inputs": ["1"], "outputs": ["2"]}),
    "ten inputs": ("print(int(input()) + 1)", {"inputs": ["1"] * 10, "outputs": ["2"] * 10}),
}


def run() -> bool:
    """Print the figures; True where every program passes its tests."""
    with tempfile.TemporaryDirectory() as place:
        for part in ("base", "feature/sandbox"):
            folder = find_templates() / part / "__package__/rewards"
            shutil.copytree(folder, Path(place, "measured_rewards"), dirs_exist_ok=True)
        sys.path.insert(0, place)
        code = importlib.import_module("measured_rewards.verified_code")
        held = importlib.import_module("measured_rewards.sandbox").isolation()
        sys.path.pop(0)
        print(f"held by: {held}\n")
        print("| a program with | programs a second | ms |\n|---|---|---|")
        passed = [_print(name, code, source, tests) for name, (source, tests) in TASKS.items()]
    return all(passed)


def _print(name: str, code: Any, source: str, tests: Mapping[str, Any]) -> bool:
    start = time.perf_counter()
    verdicts = [code.run_tests(source, tests) for _ in range(ROUNDS)]
    seconds = (time.perf_counter() - start) / ROUNDS
    print(f"| {name} | {1 / seconds:.1f} | {seconds * 1e3:.0f} |")
    return all(set(found) == {"passed"} for found in verdicts)
