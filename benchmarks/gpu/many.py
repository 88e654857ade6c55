"""Train the toy task in many ways at once: `python -m benchmarks.gpu.many PROJECT... [--workers 12] [--seconds 240]`.

Every preset by itself, and in float32 both here and on the CPU, whose metrics are compared; then settings that move
tensors between devices, by engine. Each is a fork of a process that has imported torch and has not touched the GPU, so
that 200 runs take three minutes of 16 cores. Projects may be of any release; a setting that one has not is left out.
"""

import argparse
import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.projects import engine_of, keys_of
from benchmarks.trials import LIBRARIES

MODEL, ACTOR, ROLLOUT = "actor_rollout_ref.model", "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
FSDP = f"{ACTOR}.fsdp_config"
BY_TOKENS = (f"{ACTOR}.use_dynamic_bsz=true", f"{ACTOR}.ppo_max_token_len_per_gpu=512")
OFFLOADED = (f"{FSDP}.param_offload=true", f"{FSDP}.optimizer_offload=true")
LORA = f"{MODEL}.lora_rank=8"
WAYS: dict[str, tuple[str, ...]] = {
    "packing": (f"{MODEL}.use_remove_padding=true",),
    "by tokens": BY_TOKENS,
    "both": (f"{MODEL}.use_remove_padding=true", *BY_TOKENS),
    "lora": (LORA,),
    "qlora": (LORA, "local.quantization.load_in_4bit=true"),
    "offload": (*OFFLOADED, "trainer.save_freq=1"),
    "offload_policy": (f"{FSDP}.offload_policy=true",),
    "critic offload": ("preset=ppo", *OFFLOADED, "critic.model.fsdp_config.optimizer_offload=true"),
    "kl loss": (f"{ACTOR}.use_kl_loss=true", f"{ACTOR}.entropy_coeff=0.01"),
    "kl reward": ("algorithm.use_kl_in_reward=true",),
    "reference on the cpu": (f"{ACTOR}.use_kl_loss=true", "local.devices.reference=cpu"),
    "compiled": (f"{ACTOR}.use_torch_compile=true",),
    "checkpointing": (f"{MODEL}.enable_gradient_checkpointing=true",),
    "float16": ("local.dtype=float16",),
    "bfloat16 weights": (f"{FSDP}.model_dtype=bfloat16",),
    "deterministic": (f"{FSDP}.full_determinism=true",),
    "saved meanwhile": ("local.checkpoint.asynchronous=true", "trainer.save_freq=1"),
    "shares": ("local.checkpoint.sharded=true", "trainer.save_freq=1"),
    "turns": (f"{ROLLOUT}.multi_turn.enable=true",),
    "processes for rewards": ("local.reward.num_workers=2", "local.reward.early=true"),
    "small pieces": ("local.max_logits_mb=1", f"{ACTOR}.ppo_micro_batch_size_per_gpu=4"),
}
OF_ENGINE: dict[str, dict[str, tuple[str, ...]]] = {
    "hf": {"rollout on the cpu": ("local.devices.rollout=cpu",)},
    "vllm": {
        "graphs": (f"{ROLLOUT}.enforce_eager=false",),
        "awake": (f"{ROLLOUT}.free_cache_engine=false", f"{ROLLOUT}.calculate_log_probs=true"),
        "server": (f"{ROLLOUT}.mode=async", f"{ROLLOUT}.calculate_log_probs=true"),
        "server lora": (f"{ROLLOUT}.mode=async", LORA),
        "server turns": (f"{ROLLOUT}.mode=async", f"{ROLLOUT}.multi_turn.enable=true"),
        "server ahead": (f"{ROLLOUT}.mode=async", "local.rollout.ahead=1", "local.server.sleep=false"),
    },
}
# So that several engines share a GPU.
SMALL = (
    f"{ROLLOUT}.gpu_memory_utilization=0.08",
    f"{ROLLOUT}.enforce_eager=true",
    f"+{ROLLOUT}.engine_kwargs.vllm.kv_cache_memory_bytes=500000000",
)
ENGINES_AT_ONCE, STEPS, PATIENCE = 5, 2, 150
# Metrics that are not of the arithmetic.
OF_TIME = ("timing", "perf/")
NOT_HERE = ("unknown key", "asks for", "has no effect", "nothing in this project reads it", "was made without")


@dataclass(frozen=True)
class Job:
    """A run.

    Attributes:
        name: of it.
        project: its directory.
        settings: of it.
        engine: that writes its responses.
    """

    name: str
    project: Path
    settings: tuple[str, ...]
    engine: str


def jobs(project: Path) -> Iterator[Job]:
    """Yield the runs of a project, those that start slowly first."""
    engine = engine_of(project)
    common = SMALL if engine == "vllm" else ()
    for name, settings in {**OF_ENGINE.get(engine, {}), **WAYS}.items():
        kept = tuple(one for one in common if not keys_of((one,)) & keys_of(settings))
        yield Job(f"{project.name} {name}", project, (*kept, *settings), engine)
    for preset in sorted(path.stem for path in (project / "config" / "preset").glob("*.yaml")):
        if preset == "distill":  # it wants a teacher
            continue
        yield Job(f"{project.name} {preset}", project, (*common, f"preset={preset}"), engine)
        if engine == "hf":
            for device in ("cpu", "cuda"):
                own = (f"preset={preset}", f"local.device={device}", "local.dtype=float32")
                yield Job(f"{project.name} {preset} float32 {device}", project, own, engine)


def run(todo: list[Job], folder: Path, workers: int, seconds: float) -> dict[str, int | str]:
    """Run jobs, several at once; returns exit codes by name, "late" of those that took too long."""
    running: dict[int, tuple[Job, float]] = {}
    done: dict[str, int | str] = {}
    until = time.monotonic() + seconds
    while todo or running:
        if time.monotonic() > until:
            todo.clear()
        engines = sum(job.engine != "hf" for job, _ in running.values())
        ready = (job for job in todo if job.engine == "hf" or engines < ENGINES_AT_ONCE)
        job = next(ready, None) if len(running) < workers else None
        if job is not None:
            todo.remove(job)
            child = os.fork()
            if child == 0:
                _child(job, folder)
            running[child] = job, time.monotonic()
        for child, (each, began) in list(running.items()):
            late = time.monotonic() > min(began + PATIENCE, until)
            ended, status = os.waitpid(child, 0 if late and _killed(child) else os.WNOHANG)
            if ended:
                del running[child]
                done[each.name] = "late" if late else os.waitstatus_to_exitcode(status)
                _killed(child)  # what it has started
        time.sleep(0.02)
    return done


def _killed(group: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    return True


def _child(job: Job, folder: Path) -> None:
    os.setsid()
    log = os.open(folder / f"{job.name}.txt", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="2")
    os.chdir(job.project)
    sys.path.insert(0, str(job.project))
    steps = (f"trainer.total_training_steps={STEPS}", "trainer.logger=[console]")
    sys.argv = [str(job.project / "main.py"), f"trainer.default_local_dir={folder / job.name}", *steps, *job.settings]
    code: Any = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as stopped:
        code = stopped.code
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    os._exit(code if isinstance(code, int) else bool(code))


def differences(here: list[dict[str, Any]], there: list[dict[str, Any]]) -> tuple[float, str]:
    """Return the largest relative difference of metrics, and its name; numbers near 0 count as 0.001."""
    found = (0.0, "")
    for one, other in zip(here, there, strict=True):
        for name in one.keys() & other.keys():
            values = one[name], other[name]
            if name.startswith(OF_TIME) or not all(isinstance(value, (int, float)) for value in values):
                continue
            apart = abs(values[0] - values[1]) / max(*map(abs, values), 1e-3)
            found = max(found, (apart, name), key=lambda one: one[0])
    return found


def _metrics(folder: Path, name: str) -> list[dict[str, Any]]:
    file = folder / name / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def main() -> int:
    """Print what failed and how far GPU and CPU are apart; the exit code is 1 where something failed."""
    parser = argparse.ArgumentParser("python -m benchmarks.gpu.many", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("projects", nargs="+", type=Path, metavar="PROJECT")
    parser.add_argument("--workers", type=int, default=12, help="runs at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=240, help="that all may take (%(default)s)")
    parser.add_argument("--into", type=Path, help="keep what each run says and measures here")
    parser.add_argument("--only", default="", help="a part of the names of runs")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in LIBRARIES:
        importlib.import_module(name)
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        print("a library has touched the GPU, which forks cannot use then")
        return 1
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.into or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        todo = [job for project in given.projects for job in jobs(project.resolve()) if given.only in job.name]
        count = len(todo)
        done = run(todo, folder, given.workers, given.seconds)
        failed = 0
        for name, code in sorted(done.items()):
            if code != 0:
                lines = (folder / f"{name}.txt").read_text(encoding="utf-8", errors="replace").splitlines()
                errors = [line for line in lines if line.startswith("error:")] or lines[-1:] or [""]
                left_out = code == 2 and any(words in errors[0] for words in NOT_HERE)
                failed += not left_out
                print(f"{'left out' if left_out else f'failed ({code})'}  {name}: {errors[0][:200]}")
        for name in sorted(name for name in done if name.endswith("float32 cuda")):
            here, there = _metrics(folder, name), _metrics(folder, f"{name.removesuffix('cuda')}cpu")
            if here and len(here) == len(there):
                most, metric = differences(here, there)
                print(f"{most:.4f}  {name.removesuffix(' cuda')}, against the CPU: {metric}")
        print(f"{len(done)} of {count} runs, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
