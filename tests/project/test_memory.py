"""What a run asks of torch and of the system, as far as it can be seen without a GPU; and `vextract plan`."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from extractor.values import resources
from tests.project.running import forked, inside, python
from tests.project.support import TOGETHER, Configuration, Maker
from tests.releases import LAST_WITH_ENGINES_IN_PROCESS, NEWEST, newest_release

pytestmark = pytest.mark.slow

KEY = "actor_rollout_ref.actor.fsdp_config.full_determinism"
DETERMINISTIC = f"""
import json, os, sys
from pathlib import Path
from toy import LocalPPOTrainer, load_config
import torch
found = []
for value in "false", "true":
    own = "trainer.default_local_dir=" + sys.argv[1] + value, "trainer.total_training_steps=2", "{KEY}=" + value
    with LocalPPOTrainer(load_config(*own, "trainer.test_freq=-1", "trainer.logger=[console]")) as trainer:
        result = trainer.fit()
    enabled = torch.are_deterministic_algorithms_enabled()
    norms = [result.metrics[step]["actor/grad_norm"] for step in (1, 2)]
    found.append([enabled, os.environ.get("CUBLAS_WORKSPACE_CONFIG"), norms])
print(json.dumps(found))
"""
ONE_TOO_MANY = """
import torch
torch.cuda.is_available, torch.cuda.device_count = (lambda: True), (lambda: 1)
from toy.errors import ConfigError
from toy.run.distributed import Ranks
try:
    Ranks()
except ConfigError as error:
    print(error)
"""
GIVEN_BACK = """
import json
from types import SimpleNamespace
import torch
from toy.workers.policy import Policy
torch.cuda.max_memory_allocated, torch.cuda.max_memory_reserved = (lambda at: 3 * 2**30), (lambda at: 4 * 2**30)
print(json.dumps(Policy.memory_metrics(SimpleNamespace(device=None, given_back=lambda: 2**30))))
"""
FREED = """
import json, resource
from toy.run.heap import SMALL, freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        b"x" * 2**23
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

found = []
freed_memory.after_step()  # nobody asked for it
found.append(freed_memory.mapped_from)
freed_memory.give_back()
found.append(faults())
freed_memory.after_step()
faults()
found.append(faults())
b"x" * (SMALL + 2**23)
freed_memory.after_step()
found.append(faults())
print(json.dumps(found))
"""
SETTLED = """
from pathlib import Path
from toy.run.heap import freed_memory
import toy
toy.__path__.append("COMMANDS")
from toy.plan.plan import plan_memory
from toy.settings.loading import load_config, settle_device
for kept in True, False:
    config = load_config(Path("config"), ["scale=toy", f"local.keep_freed_memory={kept}", "local.device=cpu"])
    settle_device(config)
    notes = plan_memory(config).notes
    print(freed_memory.mapped_from is None, any("local.keep_freed_memory" in note for note in notes))
"""


def printed(root: Path, program: str, *arguments: str, start: Any = forked, **variables: str) -> list[str]:
    """The lines that a program prints in a project."""
    done = start(root, "-c", program, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("release", newest_release())
def test_kernels_that_add_up_in_one_order(
    made: Maker, tmp_path: Path, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    *_, found = printed(made(Configuration(release, "hf", features=("provenance",))).root, DETERMINISTIC, str(tmp_path))
    (before, nothing, first), (after, workspace, second) = json.loads(found)
    assert (before, nothing) == (False, None)
    assert (after, workspace) == (True, ":4096:8")
    assert first == second


def test_more_processes_than_gpus(root: Path) -> None:
    shown = printed(root, ONE_TOO_MANY, LOCAL_RANK="1", RANK="1", WORLD_SIZE="2")
    assert "process 2 of this machine has no GPU of its own: torch finds 1" in "\n".join(shown)


def test_memory_that_an_engine_has_given_back_is_not_the_trainers(made: Maker) -> None:
    shown = printed(made(Configuration(NEWEST[-1], "vllm")).root, GIVEN_BACK)
    assert json.loads(shown[-1]) == {"perf/max_memory_allocated_gb": 2.0, "perf/max_memory_reserved_gb": 3.0}


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
def test_freed_memory_is_kept_by_small_runs_alone_or_where_that_is_asked_for_and_the_plan_says_so(made: Maker) -> None:
    root = made(Configuration(NEWEST[-1], "hf", features=TOGETHER)).root
    *_, kept, not_kept = printed(root, SETTLED.replace("COMMANDS", str(resources.find_templates() / "command")))
    assert (kept, not_kept) == ("True True", "False False")
    untouched, first, small, large = json.loads(printed(root, FREED, start=python)[-1])
    pages = 10 * 2**23 // 4096
    assert untouched is None
    assert first >= pages / 2  # all of it is asked for anew each time
    assert small < pages / 20
    assert large >= pages / 2


GIB = 2**30
EVERYTHING = Configuration(NEWEST[-1], everything=True)
# Qwen2.5-7B's config.json, without the keys that no size depends on.
QWEN_7B = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
WEIGHTS_7B = 7_615_616_512
SMALL = {**QWEN_7B, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": 1000}
SMALL |= {"num_hidden_layers": 2, "num_key_value_heads": 2}
OF_7B = (
    "local.device=cuda",
    "data.train_batch_size=16",
    "data.max_prompt_length=32",
    "data.max_response_length=32",
    "actor_rollout_ref.rollout.n=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=16",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
)


def model(folder: Path, config: dict[str, object]) -> str:
    """A directory with a config.json and nothing else."""
    path = folder / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return f"actor_rollout_ref.model.path={path}"


def planned(root: Path, *arguments: str) -> tuple[int, dict[str, list[float]], str]:
    """The exit code of `vextract plan`, the table in GiB, and all that was printed."""
    done = inside(root, "plan", *arguments)
    rows = re.findall(r"^(\w.*?)((?: +(?:[\d.]+|-))+)$", done.stdout, re.M)
    table = {name: [0.0 if cell == "-" else float(cell) for cell in cells.split()] for name, cells in rows}
    return done.returncode, table, done.stdout + done.stderr


def test_seven_billion_weights_on_eight_devices(made: Maker, tmp_path: Path) -> None:
    root = made(EVERYTHING).root
    settings = ("preset=grpo", "algorithm.use_kl_in_reward=true")
    code, table, text = planned(root, "--processes", "8", "--memory", "80", model(tmp_path, QWEN_7B), *OF_7B, *settings)
    assert code == 0, text
    assert "it fits" in text
    phases = re.search(r"^ +(gen.*)$", text, re.M)
    assert phases[1].split() == ["gen", "old_log_prob", "ref", "update"]
    share = 4 * WEIGHTS_7B / 8 / GIB  # float32
    for name, expected in (("policy: weights", share), ("policy: optimizer", 2 * share), ("reference: weights", share)):
        assert table[name] == pytest.approx([expected] * 4, abs=0.01), name
    assert table["policy: gradients"] == pytest.approx([0, 0, 0, share], abs=0.01)
    assert table["rollout: a copy of the weights"] == pytest.approx([8 * share] * 4, abs=0.01)
    # 16 responses of 64 tokens, keys and values of 28 layers in bfloat16, and one layer that moves.
    cache = 16 * 64 * 2 * 28 * 4 * 128 * 2 / GIB
    assert table["keys and values"] == pytest.approx([cache * 29 / 28, 0, 0, 0], abs=0.01)
    # At the end of a backward pass: the embeddings, their gradient, and this in float32 to be sent.
    assert table["gathered"][3] == pytest.approx(152064 * 3584 * (2 + 2 + 4) / GIB, rel=0.01)
    parts = [row for name, row in table.items() if name not in ("all", "besides, in CPU memory")]
    assert table["all"] == pytest.approx([sum(column) for column in zip(*parts, strict=True)], abs=0.05)


def test_a_teacher_is_counted(made: Maker, tmp_path: Path) -> None:
    root = made(EVERYTHING).root
    student, teacher = (tmp_path / name for name in ("student", "teacher"))
    for folder in (student, teacher):
        folder.mkdir()
    _, _, path = model(teacher, QWEN_7B).partition("=")
    teaching = f"distillation.teacher_models.teacher_model.model_path={path}"
    by_topk = ("distillation.distillation_loss.loss_mode=forward_kl_topk", "distillation.distillation_loss.topk=1000")
    arguments = ("--memory", "80", model(student, SMALL), *OF_7B, "preset=distill")
    code, table, text = planned(
        root, *arguments, *by_topk, teaching, "actor_rollout_ref.ref.fsdp_config.model_dtype=bf16"
    )
    assert code == 0, text
    assert re.search(r"^ +gen +teacher +update$", text, re.M)
    assert table["teacher: weights"] == pytest.approx([2 * WEIGHTS_7B / GIB] * 3, abs=0.01)
    assert table["batch"][0] == pytest.approx(16 * 8 * 64 * 12 * 1000 / GIB, abs=0.01)


@pytest.mark.thorough
def test_primes_model_and_reference_are_counted(made: Maker, tmp_path: Path) -> None:
    root = made(EVERYTHING).root
    arguments = ("--memory", "300", model(tmp_path, QWEN_7B), *OF_7B, "preset=prime")
    code, table, text = planned(root, *arguments, "actor_rollout_ref.ref.fsdp_config.model_dtype=bf16")
    assert code == 0, text
    assert re.search(r"^ +gen +ref +reward_model +update$", text, re.M)
    assert table["reference: weights"] == pytest.approx([2 * WEIGHTS_7B / GIB] * 4, abs=0.01)
    assert table["implicit reward: weights"] == pytest.approx([4 * WEIGHTS_7B / GIB] * 4, abs=0.01)
    assert table["implicit reward: optimizer"] == pytest.approx([8 * WEIGHTS_7B / GIB] * 4, abs=0.01)
    assert table["implicit reward: gradients"][2] > 0


def test_what_does_not_fit_says_what_to_change_and_then_it_fits(made: Maker, tmp_path: Path) -> None:
    root = made(EVERYTHING).root
    room = ("--memory", "0.45", "local.device=cuda", "data.train_batch_size=64", "data.max_response_length=512")
    sizes = ("actor_rollout_ref.rollout.n=8", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=64")
    more = ("actor_rollout_ref.actor.ppo_mini_batch_size=64", "local.max_logits_mb=null")
    arguments = [
        *room,
        *sizes,
        *more,
        model(tmp_path, SMALL),
        "actor_rollout_ref.model.enable_gradient_checkpointing=false",
    ]
    code, _, text = planned(root, *[one.replace("0.45", "1.5") for one in arguments])
    assert code == 1, text
    changes = re.search(r"^change: (.*)$", text, re.M)
    assert changes is not None, text
    keys = {change.partition("=")[0] for change in changes[1].split()}
    assert "actor_rollout_ref.model.enable_gradient_checkpointing" in keys
    kept = [one.replace("0.45", "1.5") for one in arguments if one.partition("=")[0] not in keys]
    code, _, text = planned(root, *kept, *changes[1].split())
    assert code == 0, text


@pytest.mark.thorough
def test_vllm_has_its_share_of_the_device_while_it_writes(made: Maker, tmp_path: Path) -> None:
    root = made(Configuration(LAST_WITH_ENGINES_IN_PROCESS, "vllm", everything=True)).root
    device = ("local.device=cuda", "--processes", "8", "--memory", "80", "preset=grpo", "data.train_batch_size=64")
    group = "actor_rollout_ref.actor.ppo_mini_batch_size=64"
    memory = "actor_rollout_ref.rollout.gpu_memory_utilization=0.4"
    rests = "actor_rollout_ref.actor.fsdp_config.param_offload=true"
    code, table, text = planned(root, *device, group, memory, rests, model(tmp_path, SMALL))
    assert code == 0, text
    parts = ("engine: weights", "engine: keys and values, and the rest")
    assert sum(table[name][0] for name in parts) == pytest.approx(0.4 * 80, abs=0.02)
    assert sum(table[name][-1] for name in parts) == 0
    assert "rollout: a copy of the weights" not in table


@pytest.mark.thorough
def test_passes_of_more_tokens_and_larger_pieces_of_logits_take_more(made: Maker, tmp_path: Path) -> None:
    root, actor = made(EVERYTHING).root, "actor_rollout_ref.actor"
    sizes = ("--memory", "80", "preset=grpo", "data.train_batch_size=64", "local.device=cuda")
    dynamic = (*sizes, f"{actor}.use_dynamic_bsz=true", f"{actor}.ppo_mini_batch_size=64", "local.max_logits_mb=128")
    dynamic = (*dynamic, "actor_rollout_ref.rollout.n=8", model(tmp_path, SMALL))
    fewer, more = (
        planned(root, *dynamic, f"{actor}.ppo_max_token_len_per_gpu={tokens}")[1]["activations"][-1]
        for tokens in (16_384, 65_536)
    )
    assert more >= 4 * fewer > 0
    (tmp_path / "wide").mkdir()
    sizes = (*sizes, "data.max_response_length=256", f"{actor}.ppo_micro_batch_size_per_gpu=16")
    sizes = (*sizes, model(tmp_path / "wide", {**SMALL, "vocab_size": 150_000}))
    auto, large, small = (
        planned(root, *sizes, *more)[1]["logits"]
        for more in ((), ("local.max_logits_mb=512",), ("local.max_logits_mb=128",))
    )
    assert auto == large, "on a GPU"
    assert auto[-1] > small[-1] > 0


@pytest.mark.parametrize("release", newest_release())
def test_any_release_plans_what_it_was_made_with(made: Maker, tmp_path: Path, release: str) -> None:
    root = made(Configuration(release, "hf", everything=True)).root
    settings = ("preset=ppo", "actor_rollout_ref.actor.use_kl_loss=true", "scale=toy", model(tmp_path, SMALL))
    code, table, text = planned(root, *settings)
    assert code == 0, text
    assert {"policy: weights", "critic: weights", "reference: weights", "critic: optimizer", "activations"} <= set(
        table
    )
    weights = table["policy: weights"][0]
    code, table, text = planned(root, *settings, "preset=grpo", "actor_rollout_ref.model.lora_rank=8")
    assert code == 0, text
    assert "reference: weights" not in table
    assert table["policy: weights"][0] >= weights


NO_PLAN = (
    (["actor_rollout_ref.model.path=./nothing"], "no config.json of ./nothing"),
    (["actor_rollout_ref.model.path=nobody/nothing"], "no config.json of nobody/nothing"),
    (["--processes", "0"], "processes is 0"),
    (["--memory", "0"], "memory of a device is 0"),
    (["local.sed=1"], "unknown key"),
    (["local.device=cuda"], "--memory 80"),
    (["local.max_logits_mb=whole"], "give a number of MiB, auto, or null"),
)


def test_what_no_plan_can_be_made_of_is_said(made: Maker) -> None:
    root = made(EVERYTHING).root
    for arguments, message in NO_PLAN:
        done = inside(root, "plan", *arguments)
        assert (done.returncode, message in done.stderr, "hint: " in done.stderr) == (2, True, True), done.stderr
        assert "Traceback" not in done.stderr
