"""Runs inside a project: each case once undisturbed, and again with stops, by the signal that a scheduler sends.

    resume_driver.py CASES.json

A case is a number of processes, settings, the steps after which the second run is stopped, and a directory, which gets
`whole` and `stopped`. Every start is a process of its own for each rank, as torchrun would start it, but for what has
been imported by then. With `kills`, runs `killed_1` and so on are killed at random moments instead, as often as that
together, and started again until they end.
"""

import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from driver import as_torchrun, configured, forked, trained  # type: ignore[import-not-found]  # beside this one
from toy.run.distributed import Ranks  # type: ignore[import-not-found]
from toy.settings.loading import load_config  # type: ignore[import-not-found]
from toy.training import trainer as training  # type: ignore[import-not-found]
from toy.training.failures import report  # type: ignore[import-not-found]


def start(rank: int, port: int, case: dict[str, Any], directory: str, stop_after: int | None, default: Any) -> None:
    """One process of one start; its exit code is 0 if the run has reached its last step, 7 if it was stopped."""
    if case["processes"] > 1:
        as_torchrun(rank, port, case["processes"])
    train_step = training.LocalPPOTrainer.train_step

    def step(self: Any, prompts: Any, timing: Any) -> Any:
        if self.steps_done + 1 == stop_after and rank == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(self, prompts, timing)

    training.LocalPPOTrainer.train_step = step
    config = configured(default, case["settings"], directory)
    ranks = Ranks(timeout_seconds=120)
    try:
        finished = trained(config, ranks)
    except Exception as error:
        report(error, ranks)
        os._exit(1)
    ranks.barrier()
    ranks.close()
    sys.stdout.flush()
    os._exit(0 if finished else 7)


def run(case: dict[str, Any], name: str, stops: list[int], default: Any) -> float:
    """Start until it is done; returns the seconds that took."""
    began = time.monotonic()
    for stop in [*stops, None]:
        processes = forked(case["processes"], start, case, f"{case['directory']}/{name}", stop, default)
        for one in processes:
            one.join()
        codes = {one.exitcode for one in processes}
        if codes != ({0} if stop is None else {7}):
            sys.exit(f"{name}, stop after {stop}: {codes}")
    return time.monotonic() - began


def run_killed(case: dict[str, Any], seconds: float, default: Any) -> None:
    """Kill runs at random moments, and start them again, until there were so many kills."""
    generator = random.Random(case["seed"])
    kills = runs = 0
    while kills < case["kills"]:
        runs += 1
        while True:
            place = f"{case['directory']}/killed_{runs}"
            processes = forked(case["processes"], start, case, place, None, default)
            time.sleep(generator.uniform(0, seconds / 2))
            for one in processes:
                one.kill()
            for one in processes:
                one.join()
            codes = {one.exitcode for one in processes}
            if codes == {0}:
                break
            if codes - {0, -signal.SIGKILL}:
                sys.exit(f"killed_{runs}: {codes}")
            kills += 1


def main() -> None:
    default = load_config(Path("config"), ["scale=toy"])
    for case in json.loads(Path(sys.argv[1]).read_text()):
        seconds = run(case, "whole", [], default)
        if "kills" in case:
            run_killed(case, seconds, default)
        else:
            run(case, "stopped", case["stops"], default)
        assert threading.active_count() == 1, "a thread would not be there after the fork"


if __name__ == "__main__":
    main()
