"""What `vextract plan` says that a run holds in memory, against what it then holds, for several models (Linux)."""

import json
import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.environment import python_in
from benchmarks.training import make_project
from extractor.values import resources

LIMIT = 0.15
STEPS = 2
MB = 1e6
ACTOR, ROLLOUT, MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
KEPT = f"{MODEL}.enable_gradient_checkpointing=false"
AGAIN = f"{MODEL}.enable_gradient_checkpointing=true"
# Makes a model of Qwen2's architecture with the toy task's tokenizer.
MAKE = """
import json, sys
from transformers import Qwen2Config, Qwen2ForCausalLM
from bench.data.toy import ensure_toy_model
path = ensure_toy_model(sys.argv[1], task="add1")
config = Qwen2Config.from_pretrained(path).to_dict() | json.loads(sys.argv[2]) | {"layer_types": None}
Qwen2ForCausalLM(Qwen2Config(**config)).save_pretrained(path)
"""


def _qwen(hidden: int, inner: int, layers: int, vocabulary: int) -> dict[str, int | bool]:
    sizes = {"hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers, "vocab_size": vocabulary}
    return {**sizes, "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 4096}


@dataclass(frozen=True)
class Shape:
    """A model and what it is trained on.

    Attributes:
        name: says what is large.
        model: settings of its config.
        prompts, generations, length: prompts of a step, responses to each, tokens of a response.
        settings: further ones.
        processes: how many train it.
    """

    name: str
    model: dict[str, int | bool]
    prompts: int
    generations: int
    length: int
    settings: tuple[str, ...]
    processes: int = 1


WIDE, DEEP, MIDDLE = _qwen(384, 1024, 2, 100_000), _qwen(512, 1536, 24, 1_000), _qwen(768, 2048, 10, 2_000)
LORA = (f"{MODEL}.lora_rank=16", AGAIN)
SHAPES = (
    Shape("a large vocabulary", WIDE, 4, 4, 48, (KEPT,)),
    Shape("a large vocabulary, logits whole", WIDE, 4, 4, 24, (KEPT, "local.max_logits_mb=null")),
    Shape("long responses, activations kept", _qwen(512, 1536, 14, 1_000), 2, 2, 512, (KEPT,)),
    Shape("long responses, activations computed again", _qwen(512, 1536, 14, 1_000), 2, 2, 512, (AGAIN,)),
    Shape("a deep model, two passes", DEEP, 4, 4, 64, (KEPT, f"{ACTOR}.ppo_micro_batch_size_per_gpu=8")),
    Shape("a deep model, a reference", DEEP, 4, 4, 64, (AGAIN, f"{ACTOR}.use_kl_loss=true")),
    Shape("LoRA", MIDDLE, 4, 4, 64, LORA),
    Shape("a critic", _qwen(512, 1536, 12, 1_000), 4, 4, 64, (KEPT, "preset=ppo")),
    Shape("two processes", MIDDLE, 4, 4, 64, (KEPT,), 2),
    Shape("two processes, a large vocabulary", WIDE, 4, 4, 48, (AGAIN,), 2),
)


def run(names: tuple[str, ...] = ()) -> bool:
    """Print both; True where the plan is right within the limit."""
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "bench", algorithm="ppo", features=("logits_in_pieces", "lora"))
        print("MB of resident size, above that of the program before it loads anything.\n")
        print("| | phase | planned | measured | planned / measured | with the program |")
        print("|---|---|---|---|---|---|", flush=True)
        held = [_compare(shape, project) for shape in SHAPES if not names or shape.name in names]
        return all(held)


def _compare(shape: Shape, project: Path) -> bool:
    model = project.parent / re.sub(r"\W+", "_", shape.name)
    python_in(project, "-c", MAKE, str(model), json.dumps(shape.model))
    settings = _settings(shape, model)
    script = str(resources.find_templates() / "command" / "in_project.py")
    asked = (str(project), "bench", "plan", f"--processes={shape.processes}", "--json", *settings)
    found = json.loads(python_in(project, script, *asked))
    planned = {**found["total"], "before": found["lines"]["the program itself"][found["phases"][0]]}
    out = project.parent / "measured"
    script = str(Path(__file__).with_name("peers") / "ours_phases.py")
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", str(shape.processes))
    python_in(project, *(torchrun if shape.processes > 1 else ()), script, str(out), *settings)
    measured = json.loads(Path(f"{out}-0.json").read_text(encoding="utf-8"))
    holds = True
    phases = [phase for phase in planned if phase in measured and phase != "before"]
    peak = max(phases, key=lambda phase: measured[phase])
    for phase in phases:
        ours, real = (found[phase] - found["before"] for found in (planned, measured))
        ratio, whole = ours / real, planned[phase] / measured[phase]
        mark = " (peak)" if phase == peak else ""
        row = f"| {shape.name} | {phase}{mark} | {ours / MB:,.0f} | {real / MB:,.0f} | {ratio:.2f} | {whole:.2f} |"
        print(row, flush=True)
        holds = holds and (phase != peak or abs(ratio - 1) <= LIMIT)
    return holds


def _settings(shape: Shape, model: Path) -> list[str]:
    given = {
        f"{MODEL}.path": model,
        "scale": "toy",
        "data.env.task": "add1",
        "data.train_batch_size": shape.prompts,
        "data.max_prompt_length": 8,
        "data.max_response_length": shape.length,
        f"{ROLLOUT}.n": shape.generations,
        f"{ACTOR}.ppo_mini_batch_size": shape.prompts,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu": shape.prompts * shape.generations,
        "trainer.total_training_steps": STEPS,
        "trainer.val_before_train": "false",
        "trainer.test_freq": -1,
        "trainer.logger": "[console]",
        "trainer.resume_mode": "disable",
        "trainer.default_local_dir": model.with_name(f"{model.name}_run"),
        "preset": "grpo",
        "local.save_last": "false",
    }
    changed = {setting.partition("=")[0]: setting for setting in shape.settings}
    plain = {name: f"{name}={value}" for name, value in given.items()}
    return [*{**plain, **changed}.values()]


if __name__ == "__main__":
    sys.exit(0 if run(tuple(sys.argv[1:])) else 1)
