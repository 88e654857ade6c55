"""What is measured, in the order of the list. A case takes a project and yields figures; what fails ends it alone."""

import hashlib
import importlib.util
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu.projects import WARM_UP, CaseError, LeftOut, Project

GIB = 2**30
DIFFERENCE = "training/rollout_probs_diff_max"
ROLLOUT = "actor_rollout_ref.rollout"
ACTOR = "actor_rollout_ref.actor"


@dataclass(frozen=True)
class Figure:
    """Something measured.

    Attributes:
        what: it is.
        value: of it.
        unit: of the value.
        against: what it is compared with, and how many times that it is.
    """

    what: str
    value: float
    unit: str = ""
    against: tuple[str, float] | None = None


Figures = Iterator[Figure]


@dataclass(frozen=True)
class Case:
    """Something to measure in a project of one engine."""

    name: str
    engine: str
    title: str
    measure: Callable[[Project], Figures]


def toy(project: Project) -> Figures:
    """Train the toy task on this device: what it learns; whether a run that is cut in two is the same run; Ctrl-C."""
    start = time.monotonic()
    rows = project.start()
    yield Figure("validation score of the toy task", _last(rows, "val-core/"))
    yield Figure("the whole run", time.monotonic() - start, "s")
    if project.engine == "hf":
        yield from _resumed(project)
    yield from _interrupted(project)


def _resumed(project: Project) -> Figures:
    whole, cut = project.new_directory(), project.new_directory()
    total = ("trainer.test_freq=-1", "trainer.val_before_train=false", f"{ACTOR}.fsdp_config.full_determinism=true")
    project.start("trainer.total_training_steps=8", *total, directory=whole)
    project.start("trainer.total_training_steps=8", "trainer.save_freq=4", *total, directory=cut)
    last = cut / "global_step_8"
    last.rename(cut.with_name(cut.name + "-first"))
    project.start("trainer.total_training_steps=8", "trainer.save_freq=4", *total, directory=cut)
    same = _digest(whole / "global_step_8") == _digest(last)
    yield Figure("weights of a run that went on from its middle are the same, bit for bit", float(same))


def _interrupted(project: Project) -> Figures:
    directory = project.new_directory()
    begun = directory / "metrics.jsonl"
    settings = ("trainer.total_training_steps=100000", "trainer.val_before_train=false", "trainer.test_freq=-1")
    code, _ = project.python("main.py", f"trainer.default_local_dir={directory}", *settings, interrupt_when=begun)
    saved = any(directory.glob("global_step_*/complete.json"))
    yield Figure("exit code after Ctrl-C (130 with a checkpoint)", float(code if saved else -1))


def step(project: Project) -> Figures:
    """Train the shape with the engine's plain settings."""
    yield from _step(project.train(), project)


def packing(project: Project) -> Figures:
    """Train without padding tokens, by each attention that is here, against passes with padding."""
    padded = _median(project.train(), "timing_s/update_actor")
    yield Figure("update with padding, sdpa", padded, "s")
    kinds = ["sdpa", *(["flash_attention_2"] if importlib.util.find_spec("flash_attn") else [])]
    for kind in kinds:
        attention = f"actor_rollout_ref.model.override_config.attn_implementation={kind}"
        rows = project.train("actor_rollout_ref.model.use_remove_padding=true", attention)
        yield _against(f"update without padding, {kind}", _median(rows, "timing_s/update_actor"), "s", "padded", padded)


def lora(project: Project) -> Figures:
    """Train an adapter of rank 16 against all weights."""
    yield from _compared(project, "all weights", "an adapter", ("actor_rollout_ref.model.lora_rank=16",))


def offload(project: Project) -> Figures:
    """Keep weights and the optimizer's state in CPU memory while they are not in use."""
    fsdp = f"{ACTOR}.fsdp_config"
    there = (f"{fsdp}.optimizer_offload=true", f"{fsdp}.param_offload=true")
    yield from _compared(project, "as the shape has it", "in CPU memory", there)


def plan(project: Project) -> Figures:
    """Plan the memory of a run, and measure it: what torch's allocator has, idle or not."""
    lines = project.inside("plan.py")
    rows = project.train()
    name = "perf/max_memory_reserved_gb"
    if name not in rows[0]:
        raise LeftOut("only a GPU's memory is in the metrics (python -m benchmarks plan measures a CPU's)")
    measured = max(row[name] for row in rows)
    yield Figure("peak memory, measured", measured, "GiB")
    planned = sum(size for line, size in lines.items() if line != "CUDA itself")
    yield _against("peak memory, planned", planned, "GiB", "measured", measured)


def fsdp(project: Project) -> Figures:
    """Share the weights out by FSDP2, in a group of one process, as with several; also with all of it in CPU memory."""
    plain = project.train()
    base = _median(plain, "timing_s/update_actor")
    offload = f"{ACTOR}.fsdp_config.offload_policy=true"
    for words, own in (("FSDP2", ()), ("FSDP2, offload_policy", (offload,))):
        found = project.inside("fsdp.py", *project.length_of_run(), *own)
        yield _against(f"update: {words}", found["update"], "s", "without", base)
        norm = plain[0]["actor/grad_norm"]
        yield _against(f"norm of the first gradient: {words}", found["norm"], "", "without", norm)
        if found["memory"]:
            memory = max(row["perf/max_memory_allocated_gb"] for row in plain)
            yield _against(f"peak memory: {words}", found["memory"], "GiB", "without", memory)


def profile(project: Project) -> Figures:
    """Look into an update by torch's profiler: whether the GPU waits for Python, and which kernels take most."""
    found = project.inside("profile_update.py", "trainer.total_training_steps=2")
    if not found["kernels"]:
        raise LeftOut("there are kernels on a GPU only")
    yield Figure("an update, under the profiler", found["seconds"], "s")
    yield _against("the GPU computes", found["busy"], "s", "the update", found["seconds"])
    yield Figure("kernels", found["kernels"])
    for name, seconds in found["most"]:
        yield _against(f"`{name}`", seconds, "s", "the update", found["seconds"])


def checkpoint(project: Project) -> Figures:
    """Save in every second step: how long training stands still, while it waits and while it goes on."""
    seconds = {}
    for kind, value in (("training waits", "false"), ("written meanwhile", "true")):
        keep = "trainer.max_actor_ckpt_to_keep=1"
        rows = project.train("trainer.save_freq=2", f"local.checkpoint.asynchronous={value}", keep)
        seconds[kind] = _median(rows[:-1], "timing_s/save_checkpoint")
    waits, meanwhile = seconds.values()
    yield Figure("standstill for a checkpoint, training waits", waits, "s")
    yield _against("standstill, written meanwhile", meanwhile, "s", "waiting", waits)


def log_probs(project: Project) -> Figures:
    """Compute log-probabilities of one pass, in float32 and in bfloat16."""
    found = project.inside("log_probs.py")
    seconds, _ = found["by rows, bfloat16"]
    for kind, (took, memory) in found.items():
        yield _against(f"log-probabilities of a pass: {kind}", took, "s", "row by row", seconds)
        yield Figure(f"memory beside the logits: {kind}", memory / GIB, "GiB")


def machine(project: Project) -> Figures:
    """Copy to CPU memory of several kinds, and attend over lengths that are new."""
    found = project.inside("machine.py")
    if not found:
        raise LeftOut("there is no GPU to copy from")
    yield Figure("a GiB to CPU memory that is new", found["new"], "s")
    yield _against("to CPU memory that was used before", found["used"], "s", "new", found["new"])
    yield _against("to CPU memory that is kept, and known to the driver", found["known"], "s", "new", found["new"])
    yield Figure("attention over a length that is new, by cuDNN", found["cudnn"] * 1e3, "ms")
    yield _against("by torch's own kernels", found["plain"] * 1e3, "ms", "cuDNN", found["cudnn"] * 1e3)


def sleep(project: Project) -> Figures:
    """Have the engine sleep between rollouts, and wake with new weights."""
    found = project.inside("engine.py", f"{ROLLOUT}.free_cache_engine=true")
    if not found["frees"]:
        raise LeftOut("this engine gives no memory back on this device")
    yield Figure("memory in use during a rollout", found["during"] / GIB, "GiB")
    yield Figure("memory in use while the engine sleeps", found["after"] / GIB, "GiB")
    yield Figure("waking, with new weights", found["enter"], "s")
    yield Figure("going to sleep", found["leave"], "s")


def hand_over(project: Project) -> Figures:
    """Give the engine new weights while it is awake."""
    found = project.inside("engine.py", f"{ROLLOUT}.free_cache_engine=false")
    yield Figure("new weights for the engine", found["enter"] * 1e3, "ms")
    yield Figure("the same", found["bytes"] / GIB / found["enter"], "GiB/s")


def vllm(project: Project) -> Figures:
    """Write responses by vLLM in the trainer's process, with CUDA graphs and without."""
    own = (f"{ROLLOUT}.calculate_log_probs=true",)
    graphs = project.train(*own)
    yield from _step(graphs, project)
    yield Figure("largest difference in probability, engine and trainer", max(row[DIFFERENCE] for row in graphs))
    eager = project.train(f"{ROLLOUT}.enforce_eager=true", *own)
    seconds = _median(graphs, "timing_s/gen")
    yield _against("rollout without CUDA graphs", _median(eager, "timing_s/gen"), "s", "with them", seconds)


def server(project: Project) -> Figures:
    """Write responses by a vLLM server beside the trainer, on the same GPU."""
    rows = project.train(f"{ROLLOUT}.mode=async", f"{ROLLOUT}.calculate_log_probs=true")
    yield from _step(rows, project)
    yield Figure("largest difference in probability, server and trainer", max(row[DIFFERENCE] for row in rows))


def vllm_lora(project: Project) -> Figures:
    """Train an adapter, with responses by vLLM."""
    rows = project.train("actor_rollout_ref.model.lora_rank=16", f"{ROLLOUT}.calculate_log_probs=true")
    yield from _step(rows, project)
    yield Figure("largest difference in probability, engine and trainer", max(row[DIFFERENCE] for row in rows))


def trl(project: Project) -> Figures:
    """Train the same shape by TRL's GRPOTrainer, with responses by transformers."""
    if importlib.util.find_spec("trl") is None:
        raise LeftOut("trl is not installed")
    ours = project.train()
    theirs = project.inside("trl_steps.py")
    step, memory = _median(ours, "timing_s/step"), max(row.get("perf/max_memory_allocated_gb", 0.0) for row in ours)
    yield Figure("TRL's step", theirs["step"], "s")
    yield _against("this project's step", step, "s", "TRL", theirs["step"])
    if theirs["memory"]:
        yield Figure("TRL's peak memory", theirs["memory"] / GIB, "GiB")
        yield _against("this project's peak memory", memory, "GiB", "TRL", theirs["memory"] / GIB)


def _step(rows: list[dict[str, Any]], project: Project) -> Figures:
    """Yield what a step took, from each step's metrics."""
    first = rows[0]["timing_s/gen"]
    rows = rows[WARM_UP:]
    responses = project.shape.responses
    length, generation = _median(rows, "response_length/mean"), _median(rows, "timing_s/gen")
    yield Figure("the first rollout", first, "s")
    yield Figure("tokens generated", responses * length / generation, "/s")
    update = _median(rows, "timing_s/update_actor")
    yield Figure("tokens trained on", _median(rows, "perf/total_num_tokens") / update, "/s")
    for phase in ("gen", "old_log_prob", "ref", "update_actor", "step"):
        if f"timing_s/{phase}" in rows[0]:
            yield Figure(f"seconds: {phase}", _median(rows, f"timing_s/{phase}"), "s")
    for name, words, unit in (
        ("perf/mfu/actor", "model FLOP utilisation of the update", ""),
        ("perf/max_memory_allocated_gb", "peak memory, allocated", "GiB"),
        ("perf/max_memory_reserved_gb", "peak memory, reserved", "GiB"),
    ):
        if name in rows[0]:
            yield Figure(words, max(row[name] for row in rows), unit)


def _compared(project: Project, plain: str, other: str, changed: tuple[str, ...]) -> Figures:
    """Yield the seconds of an update and the peak memory with some settings, against the plain ones."""
    names = {"update": "timing_s/update_actor", "step": "timing_s/step"}
    first, second = project.train(), project.train(*changed)
    for what, name in names.items():
        base = _median(first, name)
        yield Figure(f"{what}: {plain}", base, "s")
        yield _against(f"{what}: {other}", _median(second, name), "s", plain, base)
    name = "perf/max_memory_allocated_gb"
    if name in first[0]:
        base = max(row[name] for row in first)
        yield Figure(f"peak memory: {plain}", base, "GiB")
        yield _against(f"peak memory: {other}", max(row[name] for row in second), "GiB", plain, base)


def _against(what: str, value: float, unit: str, other: str, base: float) -> Figure:
    return Figure(what, value, unit, (other, value / base) if base else None)


def _median(rows: list[dict[str, Any]], name: str) -> float:
    found = [row[name] for row in rows if name in row]
    return float(statistics.median(found[WARM_UP:] or found))


def _last(rows: list[dict[str, Any]], prefix: str) -> float:
    for row in reversed(rows):
        for name, value in row.items():
            if name.startswith(prefix) and "/mean" in name:
                return float(value)
    raise CaseError(f"no metric {prefix}...")


def _digest(checkpoint: Path) -> str:
    """Digest the weights of a checkpoint."""
    files = sorted(checkpoint.rglob("*.safetensors"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


CASES = (
    Case("toy", "hf", "The toy task, to its end, cut in two, interrupted", toy),
    Case("step", "hf", "A step", step),
    Case("log_probs", "hf", "Log-probabilities", log_probs),
    Case("packing", "hf", "Passes without padding", packing),
    Case("lora", "hf", "An adapter", lora),
    Case("offload", "hf", "Weights and optimizer in CPU memory", offload),
    Case("plan", "hf", "The plan of memory", plan),
    Case("fsdp", "hf", "Weights shared out by FSDP2", fsdp),
    Case("profile", "hf", "What an update spends its time on", profile),
    Case("machine", "hf", "What the machine's memory and attention take", machine),
    Case("checkpoint", "hf", "A checkpoint while training", checkpoint),
    Case("vllm_toy", "vllm", "The toy task by vLLM", toy),
    Case("vllm", "vllm", "A step, in the trainer's process", vllm),
    Case("sleep", "vllm", "Sleeping and waking", sleep),
    Case("hand_over", "vllm", "New weights", hand_over),
    Case("server", "vllm", "A step, by a server", server),
    Case("vllm_lora", "vllm", "An adapter, with vLLM", vllm_lora),
    Case("trl", "hf", "TRL's GRPOTrainer on the same shape", trl),
)
