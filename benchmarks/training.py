"""How fast a generated project trains, against other libraries on the same model, data, batch and lengths.

All run in one environment, `.venv-peers`: how long transformers takes to import depends on what is installed beside it.
"""

import contextlib
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.environment import on_one_thread
from extractor.pipeline import apply
from extractor.pipeline.generate import complete, generate
from extractor.pipeline.plan import plan_new
from extractor.pipeline.source import open_source
from extractor.project import base, lock
from extractor.values import releases
from extractor.values.options import Options

ROUNDS = 5
RATE = 1e-3
LIMIT_START = 0.64
LIMIT_OUTSIDE = 0.12
SCRIPTS = Path(__file__).with_name("peers")
PEERS = {"TRL's GRPOTrainer": "trl_grpo.py", "miniVERL's GRPO": "miniverl_grpo.py"}
PEERS_PYTHON = Path(__file__).resolve().parents[1] / ".venv-peers" / "bin" / "python"
# Gives the toy model another shape.
RESHAPE = """
import json, sys
from transformers import Qwen2Config, Qwen2ForCausalLM
path, changed = sys.argv[1], json.loads(sys.argv[2])
config = Qwen2Config.from_pretrained(path).to_dict() | changed | {"layer_types": None}
Qwen2ForCausalLM(Qwen2Config(**config)).save_pretrained(path)
"""
WRITE_DATA = """
import sys
from pathlib import Path
import pyarrow, pyarrow.parquet
from bench import load_config
from bench.custom.env_dataset import environment_rows
env = load_config("scale=full", "data.env.task=add1").data.env
for split in ("train", "val"):
    rows = pyarrow.Table.from_pylist(environment_rows(split, env))
    pyarrow.parquet.write_table(rows, Path(sys.argv[1], f"{split}.parquet"))
"""
MODEL_WORK = ("timing_s/gen", "timing_s/old_log_prob", "timing_s/ref", "timing_s/values", "timing_s/update_actor")


@dataclass(frozen=True)
class Size:
    """What is trained.

    Attributes:
        shape: settings of the model's config, in which it differs from the toy model.
        prompts: of a step.
        generations: responses to each.
        length: tokens of a response, at most.
        steps: how many are taken.
        warm_up: of these, which do not count.
        limit: of a step against others'.
        peers: whom it is compared with.
        rows: responses of a pass that are tried: each library has those that it is fastest with. How many there are is
            a matter of speed and memory, and changes no gradient. Empty: a pass has all.
    """

    shape: dict[str, int]
    prompts: int
    generations: int
    length: int
    steps: int
    warm_up: int
    limit: float
    peers: tuple[str, ...]
    rows: tuple[int, ...] = ()


TOY = Size({}, prompts=32, generations=16, length=2, steps=40, warm_up=5, limit=0.65, peers=tuple(PEERS))
# 1.3 million weights. One word of its vocabulary ends a response, so that nearly all have their full length.
LONG = Size(
    {"vocab_size": 2048, "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4},
    prompts=4,
    generations=8,
    length=256,
    steps=6,
    warm_up=1,
    limit=0.8,
    peers=("TRL's GRPOTrainer",),
    rows=(32, 8, 4, 2),
)


@dataclass(frozen=True)
class Run:
    """Seconds from process start to the end of the first optimizer step, and per step after the warm-up.

    Attributes:
        processor_first, processor_step: the same in processor time, which does not count waiting for others.
    """

    first: float
    step: float
    processor_first: float
    processor_step: float


def run() -> bool:
    """Print the ratios; True where every limit holds."""
    if not PEERS_PYTHON.exists():
        return left_out()
    toy_held = _against_peers(TOY, floor=True)
    print()
    return _against_peers(LONG) and toy_held


def _against_peers(size: Size, *, floor: bool = False) -> bool:
    """Print the ratios of one size; with `floor` those of the start as well."""
    with a_project() as project:
        model, data = model_and_data(project, size.shape)
        run_ours = _of_fastest_pass(size, "this project", partial(_ours, size, project, model, data))
        run_peers = {
            name: _of_fastest_pass(size, name, partial(_peer, size, PEERS[name], model, data)) for name in size.peers
        }
        ours: list[Run] = []
        least: list[float] = []
        peers: dict[str, list[Run]] = {name: [] for name in size.peers}
        for _ in range(ROUNDS):  # in turn, so that a machine's drift meets all alike
            ours.append(run_ours())
            if floor:
                least.append(reported(project, str(SCRIPTS / "least.py"), str(model))["first"])
            for name, runs in peers.items():
                runs.append(run_peers[name]())
        outside = _share_outside(project, size.warm_up)
    return _print(size, ours, peers, least, outside)


def _of_fastest_pass(size: Size, name: str, run: Callable[[int], Run]) -> Callable[[], Run]:
    """Return a library's run with passes of as many responses as it is fastest with, of those that are tried."""
    if not size.rows:
        return partial(run, size.prompts * size.generations)
    seconds = {rows: run(rows).processor_step for rows in size.rows}
    fastest = min(seconds, key=lambda rows: seconds[rows])
    found = ", ".join(f"{rows}: {seconds[rows] / seconds[fastest]:.2f}x" for rows in size.rows)
    print(f"{name}, a step by the responses of a pass, against its fastest: {found}")
    return partial(run, fastest)


def left_out() -> bool:
    """Say that there is nothing to compare with; no limit is missed."""
    print(f"left out: {PEERS_PYTHON.parents[1].name} is missing (`make bench` makes it)")
    return True


@contextlib.contextmanager
def a_project(*features: str) -> Iterator[Path]:
    """Make a project, called bench, with these features; it is there within a `with` statement."""
    with tempfile.TemporaryDirectory() as folder:
        yield make_project(Path(folder) / "bench", features=features)


def _print(size: Size, ours: list[Run], peers: dict[str, list[Run]], least: list[float], outside: float) -> bool:
    sizes = f"{size.prompts} prompts x {size.generations} responses of {size.length} tokens"
    passes = ", passes of the size that each is fastest with" if size.rows else ""
    print(f"{sizes}{passes}, one thread, {ROUNDS} rounds in turn.\n")
    print("| ours against | step (median) | limit |" + " start to first optimizer step | limit |" * bool(least))
    print("|---|---|---|" + "---|---|" * bool(least))
    steps, starts, floors = [], [], []
    for name, runs in peers.items():
        steps.append(statistics.median(one.step / other.step for one, other in zip(ours, runs, strict=True)))
        line = f"| {name} | {steps[-1]:.2f}x | {size.limit}x |"
        if least:
            starts.append(statistics.median(one.first / other.first for one, other in zip(ours, runs, strict=True)))
            line += f" {starts[-1]:.2f}x | {LIMIT_START}x |"
            ratio = statistics.median(one / other.first for one, other in zip(least, runs, strict=True))
            floors.append(f"{ratio:.2f}x of {name}")
        print(line)
    print("\nIn processor time, which does not count waiting for others:")
    for name, runs in peers.items():
        pairs = [*zip(ours, runs, strict=True)]
        step = statistics.median(one.processor_step / other.processor_step for one, other in pairs)
        start = statistics.median(one.processor_first / other.processor_first for one, other in pairs)
        print(f"- {name}: step {step:.2f}x, start {start:.2f}x")
    if least:
        print(f"\nOnly torch, transformers, the model and one AdamW step: a start of {' and '.join(floors)}")
    print(f"\nShare of a step outside the models' work: {outside:.0%} (limit {LIMIT_OUTSIDE:.0%})")
    return max(steps) <= size.limit and max(starts, default=0) <= LIMIT_START and outside <= LIMIT_OUTSIDE


def make_project(
    root: Path,
    *,
    release: str | None = None,
    engine: str = "hf",
    algorithm: str = "grpo",
    recipe: str = "toy",
    package: str = "bench",
    features: tuple[str, ...] = (),
) -> Path:
    """Write a project; with the newest release by default."""
    release = release or releases.find_default()
    manifest = releases.load(release)
    source = open_source(manifest.pin)
    options = complete(Options(package, release, engine, algorithm, recipe=recipe, features=features), manifest)
    tree = generate(options, source, manifest).tree
    locked = lock.Lock.of(tree, options, vextract="0", source_kind=source.kind, source_sha256=source.sha256)
    apply.create(root, plan_new(tree), lock_data=lock.dump(locked), base_data=base.dump(base.collect_from_tree(tree)))
    return root


def model_and_data(project: Path, shape: dict[str, int] | None = None) -> tuple[Path, Path]:
    """Make the toy model, and its exercises as parquet in verl's schema; both serve every library.

    Args:
        project: a generated one.
        shape: settings of the model's config, in which it differs from the toy model.
    """
    model, data = project.parent / "model", project.parent / "data"
    code = f"from bench.data.toy import ensure_toy_model; ensure_toy_model({str(model)!r}, task='add1')"
    _run(project, "-c", code)
    if shape:
        _run(project, "-c", RESHAPE, str(model), json.dumps(shape))
    data.mkdir()
    _run(project, "-c", WRITE_DATA, str(data))
    return model, data / "train.parquet"


def settings_of(
    model: Path, data: Path, *, steps: int, prompts: int, generations: int, length: int, rows: int | None = None
) -> list[str]:
    """Return what main.py takes for the same work as the peers'; a pass has so many rows, or all."""
    return [
        f"actor_rollout_ref.model.path={model}",
        f"data.train_files={data}",
        f"data.val_files={data.with_name('val.parquet')}",
        "scale=toy",
        f"data.train_batch_size={prompts}",
        f"data.max_response_length={length}",
        f"actor_rollout_ref.rollout.n={generations}",
        f"actor_rollout_ref.actor.ppo_mini_batch_size={prompts}",
        f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={rows or prompts * generations}",
        f"actor_rollout_ref.actor.optim.lr={RATE}",
        f"trainer.total_training_steps={steps}",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "trainer.logger=[console]",
        "trainer.resume_mode=disable",
    ]


def _ours(size: Size, project: Path, model: Path, data: Path, rows: int) -> Run:
    sizes = {"prompts": size.prompts, "generations": size.generations, "length": size.length}
    settings = settings_of(model, data, steps=size.steps, rows=rows, **sizes)
    return _timed(size, project, str(SCRIPTS / "ours.py"), *settings)


def _peer(size: Size, script: str, model: Path, data: Path, rows: int) -> Run:
    numbers = map(str, (size.steps, size.prompts, size.generations, size.length, rows, RATE))
    return _timed(size, model.parent, str(SCRIPTS / script), str(model), str(data), *numbers)


def _share_outside(project: Path, warm_up: int) -> float:
    """The share of our steps in which no model computes, over the last run."""
    (file,) = project.glob("checkpoints/*/*/metrics.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    shares = [1 - sum(row.get(name, 0.0) for name in MODEL_WORK) / row["timing_s/step"] for row in rows[warm_up:]]
    return statistics.median(shares)


def _timed(size: Size, folder: Path, *arguments: str) -> Run:
    result = reported(folder, *arguments)
    step, processor_step = (statistics.median(result[name][size.warm_up :]) for name in ("steps", "processor_steps"))
    return Run(result["first"], step, result["processor_first"], processor_step)


def reported(folder: Path, *arguments: str) -> dict[str, Any]:
    """Return what a script's clock printed as its last line."""
    report: dict[str, Any] = json.loads(_run(folder, *arguments).splitlines()[-1])
    return report


def _run(folder: Path, *arguments: str) -> str:
    environment = on_one_thread(
        BENCHMARK_STARTED=repr(time.time()),
        PYTHONDONTWRITEBYTECODE="",  # what is imported is compiled once, not in every start
    )
    done = subprocess.run(
        [str(PEERS_PYTHON), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments[:1])} failed:\n{done.stderr[-2000:]}")
    return done.stdout
