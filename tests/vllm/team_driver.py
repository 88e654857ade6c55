"""Two processes that hold one engine together, with an engine that only draws: `python team_driver.py PACKAGE OUT`.

The first asks three times, the second once. OUT gets, for each, what it was given and where its random numbers were
before and after.
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, str(Path.cwd()))

ASKED = [[["a", "b"], ["c"], ["d"]], [["e", "f", "g"]]]


class Engine:
    """Answers a prompt with it, what was asked along with it, and a number drawn at random."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def generate(self, prompts: list[str], sampling: list[str], use_tqdm: bool) -> list[list[Any]]:
        assert not use_tqdm
        self.calls.append(prompts)
        return [[prompt, one, torch.rand(()).item()] for prompt, one in zip(prompts, sampling, strict=True)]


def work(rank: int, package: str, store: str, out: str) -> None:
    """One process."""
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(rank)
    team = importlib.import_module(f"{package}.workers.vllm_team").Team(Engine(), 2)
    before = torch.get_rng_state().tolist()
    answers = [team.generate(prompts, f"sampling of {rank}", use_tqdm=False) for prompts in ASKED[rank]]
    team.finish()
    moved = torch.get_rng_state().tolist() != before
    Path(out, f"{rank}.json").write_text(json.dumps({"answers": answers, "calls": team.calls, "moved": moved}))
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (sys.argv[1], f"{folder}/store", sys.argv[2]), nprocs=2)
