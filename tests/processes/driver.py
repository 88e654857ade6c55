"""Runs inside a project: many short trainings in one or more processes, all on the same given rollouts.

    driver.py PHASES.json

A phase is a number of processes, a directory, cases that they run one after the other, and directories of earlier runs
to copy there first. A case is a name and settings; name#more goes on with an earlier one. What it gives goes to
DIRECTORY/<name>: checkpoints, and from each process steps-<rank>.pt with the advantages and metrics of each step. A
case with the setting `fails_at=N@R` has its reward (R is "reward"), its loss ("loss") or its rollout on one process (R
is a rank) fail in step N, goes on from what was saved, and leaves the error that each process saw in
failure-<rank>.json. With `rollouts=own` the project writes its own responses, and nothing of steps is kept.
"""

import copy
import json
import multiprocessing
import os
import shutil
import socket
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import yaml
from omegaconf import OmegaConf
from toy.run.distributed import Ranks  # type: ignore[import-not-found]
from toy.settings.loading import load_config, settle_device  # type: ignore[import-not-found]
from toy.training import trainer as training  # type: ignore[import-not-found]
from toy.training.failures import report  # type: ignore[import-not-found]
from toy.training.rollouts import Rollouts  # type: ignore[import-not-found]
from toy.vendored.protocol import DataProto  # type: ignore[import-not-found]
from toy.workers.actor import Actor  # type: ignore[import-not-found]

warnings.filterwarnings("ignore")
sys.modules["matplotlib"] = None  # type: ignore[assignment]  # a plot for each case would take most of the time
steps: list[dict[str, Any]] = []
failure = ("", "")  # step, and where
own_rollouts = False
generate = {kind: kind.generate for kind in (Rollouts, *Rollouts.__subclasses__())}
sync_weights = {kind: kind.sync_weights for kind in generate}


def configured(default: Any, settings: list[str], directory: object) -> Any:
    """The config of a run that leaves its checkpoints in a directory."""
    config = copy.deepcopy(default)
    for setting in [*settings, f"trainer.default_local_dir={directory}"]:
        key, _, value = setting.partition("=")
        OmegaConf.update(config, key, yaml.safe_load(value))
    settle_device(config)
    return config


def forked(processes: int, target: Any, *arguments: Any) -> list[Any]:
    """Start processes with their ranks, a port, and arguments: importing takes much longer than what they run."""
    forking = multiprocessing.get_context("fork")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = [forking.Process(target=target, args=(rank, port, *arguments)) for rank in range(processes)]
    for one in started:
        one.start()
    return started


def as_torchrun(rank: int, port: int, processes: int) -> None:
    """Set the variables that torchrun gives a process."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(processes))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def trained(config: Any, ranks: Any) -> bool:
    """As main.py does it; whether the run has reached its last step."""
    with training.LocalPPOTrainer(config, ranks=ranks) as trainer:
        return bool(trainer.fit().finished)


def given_responses(kind: Any, rollouts: Any, prompts: Any, *early: Any) -> Any:
    """Responses of very different lengths, drawn by a seed: the same ones however many processes there are."""
    if own_rollouts:
        return generate[kind](rollouts, prompts, *early)
    step = prompts.meta_info["global_steps"]

    def fail_on_one_process() -> None:
        if failure == (str(step), str(rollouts.ranks.rank)):
            raise OSError("the environment of this process is gone")

    rollouts.ranks.together(fail_on_one_process)
    length = rollouts.config.data.max_response_length
    generator = torch.Generator().manual_seed(step)
    ids, mask = prompts.batch["input_ids"], prompts.batch["attention_mask"]
    rows = len(ids)
    tokenizer = rollouts.engine.tokenizer
    responses = torch.randint(4, len(tokenizer), (rows, length), generator=generator)
    lengths = (torch.rand(rows, generator=generator) ** 3 * length).long() + 1
    written = (torch.arange(length) < lengths[:, None]).long()
    responses = responses * written + tokenizer.pad_token_id * (1 - written)
    attention_mask = torch.cat([mask, written], dim=-1)
    return DataProto.from_single_dict(
        {
            "prompts": ids,
            "responses": responses,
            "input_ids": torch.cat([ids, responses], dim=-1),
            "attention_mask": attention_mask,
            "position_ids": (attention_mask.cumsum(dim=-1) - 1).clamp(min=0),
        }
    )


def noting(train_step: Any) -> Any:
    """`train_step`, which also keeps what it gave."""

    def step(self: Any, prompts: Any, timing: Any) -> Any:
        os.environ["STEP"] = str(self.steps_done + 1)
        batch, metrics = train_step(self, prompts, timing)
        wanted = ("advantages", "returns", "values", "old_log_probs", "ref_log_prob", "process_rewards")
        columns = {name: value for name, value in batch.batch.items() if name in wanted}
        kept = {} if own_rollouts else {"columns": columns, "metrics": dict(metrics)}
        steps.append(kept)
        return batch, metrics

    return step


def failing(update_policy: Any) -> Any:
    """`update_policy`, which fails on all processes when it is told to."""

    def update(self: Any, data: Any) -> Any:
        if failure == (os.environ["STEP"], "loss"):
            raise ValueError("this loss cannot be computed")
        return update_policy(self, data)

    return update


def run(name: str, settings: list[str], default: Any, directory: Path, ranks: Any) -> None:
    """One case."""
    global failure, own_rollouts
    where = directory / name.partition("#")[0]
    told = [setting for setting in settings if setting.startswith("fails_at=")]
    own_rollouts = "rollouts=own" in settings
    rest = [setting for setting in settings if setting not in (*told, "rollouts=own")]
    config = configured(default, rest, where)
    steps.clear()
    if told:
        step, _, place = told[0].removeprefix("fails_at=").partition("@")
        failure = (step, place)
        os.environ["REWARD_FAILS_AT"] = step if place == "reward" else ""
        try:
            trained(config, ranks)
        except Exception as error:
            seen = {"type": type(error).__name__, "text": str(error), "notes": getattr(error, "__notes__", [])}
            (where / f"failure-{ranks.rank}.json").write_text(json.dumps(seen))
        failure = ("", "")
        os.environ["REWARD_FAILS_AT"] = ""
    assert trained(config, ranks)
    torch.save(steps, where / f"steps-{ranks.rank}.pt")


def process(rank: int, port: int, processes: int, directory: Path, cases: dict[str, list[str]], default: Any) -> None:
    """One of the processes of a phase, as torchrun would start it."""
    as_torchrun(rank, port, processes)
    ranks = Ranks(timeout_seconds=120)
    try:
        for name, settings in cases.items():
            run(name, settings, default, directory, ranks)
    except Exception as error:
        ranks.fail(report(error, ranks))
    ranks.barrier()
    ranks.close()


def main() -> None:
    for kind, synchronise in sync_weights.items():
        kind.generate = lambda *given, kind=kind: given_responses(kind, *given)
        kind.sync_weights = lambda self, synchronise=synchronise: synchronise(self) if own_rollouts else None
    training.LocalPPOTrainer.train_step = noting(training.LocalPPOTrainer.train_step)
    Actor.update_policy = failing(Actor.update_policy)
    default = load_config(Path("config"), ["scale=toy"])
    file = Path(sys.argv[1])
    for name, number, cases, resumed in json.loads(file.read_text()):
        directory = file.parent / name
        directory.mkdir(exist_ok=True)
        for case, origin in resumed.items():
            shutil.copytree(file.parent / origin, directory / case)
        processes = forked(number, process, number, directory, cases, default)
        for one in processes:
            one.join()
        if any(one.exitcode for one in processes):
            sys.exit(f"{directory}: {[one.exitcode for one in processes]}")


if __name__ == "__main__":
    main()
