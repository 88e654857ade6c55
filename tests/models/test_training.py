"""How a model is computed and kept does not change what is trained; what is trained can be taken elsewhere."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.processes.launching import SCORE, drive, overrides, saved
from tests.project.running import check_forked, forked, metrics_of
from tests.project.support import PACKAGE, Configuration, make

pytestmark = pytest.mark.slow

ACTOR = "actor_rollout_ref.actor"
MODEL = "actor_rollout_ref.model"
# 12 responses of 1 to 9 tokens; every row counts the same, however rows are put together.
COMMON = (
    "algorithm.adv_estimator=grpo",
    "data.max_response_length=9",
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=3",
    f"{ACTOR}.ppo_mini_batch_size=4",
    f"{ACTOR}.ppo_micro_batch_size_per_gpu=12",
    f"{ACTOR}.optim.lr=0.0001",
    f"{ACTOR}.loss_agg_mode=seq-mean-token-mean",
    f"{ACTOR}.use_kl_loss=true",
    "trainer.total_training_steps=2",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=2",
    "trainer.logger=[]",
    "local.recompute_old_log_probs=true",
)
CRITIC = (
    "algorithm.adv_estimator=gae",
    "actor_rollout_ref.rollout.n=1",
    "data.train_batch_size=12",
    f"{ACTOR}.ppo_mini_batch_size=12",
)
SGD = (f"{ACTOR}.optim.optimizer=SGD", f"{ACTOR}.optim.lr=0.5", f"{ACTOR}.optim.weight_decay=0.0")
RESTING = (
    f"{ACTOR}.fsdp_config.param_offload=true",
    f"{ACTOR}.fsdp_config.optimizer_offload=true",
    "actor_rollout_ref.ref.fsdp_config.param_offload=true",
)
BY_POLICY = (f"{ACTOR}.fsdp_config.offload_policy=true", "actor_rollout_ref.ref.fsdp_config.offload_policy=true")
BY_TOKENS = (f"{ACTOR}.use_dynamic_bsz=true", f"{ACTOR}.ppo_max_token_len_per_gpu=40")
LORA = (f"{MODEL}.lora_rank=4", f"{ACTOR}.optim.lr=0.01")
QLORA = (*LORA, "local.quantization.load_in_4bit=true")
TIED = f"{MODEL}.path=TIED"
# What computes the same as the case that stands first, in another way: to the last bit, or within a tolerance.
SAME: dict[str, tuple[str, tuple[str, ...], float]] = {
    "resting": ("plain", RESTING, 0.0),
    "resting_by_policy": ("plain", BY_POLICY, 0.0),
    "tied_resting": ("tied", (*RESTING, TIED), 0.0),
    "checkpointing": ("sgd", (*SGD, f"{MODEL}.enable_gradient_checkpointing=true"), 1e-6),
    "eager": ("sgd", (*SGD, f"{MODEL}.override_config.attn_implementation=eager"), 1e-5),
    "without_padding": ("sgd", (*SGD, f"{MODEL}.use_remove_padding=true"), 1e-5),
    "small_passes": ("sgd", (*SGD, f"{ACTOR}.ppo_micro_batch_size_per_gpu=3"), 1e-5),
    "by_tokens": ("sgd", (*SGD, *BY_TOKENS), 1e-5),
    "by_tokens_without_padding": ("sgd", (*SGD, *BY_TOKENS, f"{MODEL}.use_remove_padding=true"), 1e-5),
    "critic_by_tokens": (
        "critic",
        (*CRITIC, *SGD, *BY_TOKENS, "critic.ppo_max_token_len_per_gpu=40", "critic.optim.optimizer=SGD"),
        1e-5,
    ),
    "critic_resting": (
        "critic",
        (
            *CRITIC,
            *SGD,
            "critic.optim.optimizer=SGD",
            "critic.model.fsdp_config.param_offload=true",
            "critic.model.fsdp_config.optimizer_offload=true",
        ),
        0.0,
    ),
    "lora_resting": ("lora", (*LORA, *RESTING), 0.0),
    "qlora_resting": ("qlora", (*QLORA, *RESTING), 0.0),
    "qlora_checkpointing": ("qlora", (*QLORA, f"{MODEL}.enable_gradient_checkpointing=true"), 1e-4),
    "lora_checkpointing": ("lora", (*LORA, f"{MODEL}.enable_gradient_checkpointing=true"), 1e-4),
}
FIRST: dict[str, tuple[str, ...]] = {
    "plain": (),
    "tied": (TIED,),
    "sgd": SGD,
    "critic": (*CRITIC, *SGD, "critic.optim.optimizer=SGD"),
    "lora": LORA,
    "qlora": QLORA,
}
OTHERS: dict[str, tuple[str, ...]] = {
    "bfloat16": (*SGD, f"{ACTOR}.fsdp_config.dtype=bfloat16"),
    "bfloat16_weights": (*SGD, f"{ACTOR}.fsdp_config.dtype=bfloat16", f"{ACTOR}.fsdp_config.model_dtype=bf16"),
    "tied_lora": (*LORA, TIED),
    "cosine": (
        f"{ACTOR}.optim.lr_scheduler_type=cosine",
        f"{ACTOR}.optim.lr_warmup_steps=1",
        f"{ACTOR}.optim.min_lr_ratio=0.5",
    ),
    "clipped": (*SGD, f"{ACTOR}.grad_clip=1.0e-9"),
    "lora_own_rollouts": (*LORA, "rollouts=own"),
    "qlora_own_rollouts": (*QLORA, "rollouts=own"),
}
MORE = ("trainer.total_training_steps=4",)
# What an ordinary run tries.
QUICK = {"plain", "resting", "sgd", "without_padding", "lora", "2/lora"}
TRAINED = ("lora", "lora_resting", "lora_by_policy", "tied_lora", "qlora", "qlora_resting", "qlora_by_policy")
KINDS = ("lora", "qlora")  # of adapters, in what takes four steps


def nightly(*names: str, of_two: bool = False) -> list[Any]:
    """Parameters: names of cases of one process or two, of which an ordinary run has a few only."""
    place = "2/" if of_two else ""
    marks = {name: () if place + name in QUICK else pytest.mark.thorough for name in names}
    return [pytest.param(name, marks=marks[name], id=name) for name in names]


@pytest.fixture(scope="module")
def project(verl: None, release: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with every feature."""
    return make(Configuration(release, everything=True), tmp_path_factory.mktemp("m") / "p").root


@pytest.fixture(scope="module")
def tied_model(project: Path) -> Path:
    """The toy model with one matrix for input and output embeddings."""
    code = f"from {PACKAGE}.data.toy import ensure_toy_model; ensure_toy_model('tied', tie_word_embeddings=True)"
    assert forked(project, "-c", code).returncode == 0
    return project / "tied"


@pytest.fixture(scope="module")
def runs(
    release: str, project: Path, tied_model: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Path:
    """What one process made of the cases, and two processes of some."""
    root = tmp_path_factory.mktemp("runs")
    settings = {**FIRST, **{name: more for name, (_, more, _) in SAME.items()}, **OTHERS}
    section = "" if release == "0.6.1" else "reward."
    common = (*COMMON, f"{section}custom_reward_function.path={SCORE}")
    one = {name: overrides(common, more) for name, more in settings.items()}
    two = {name: one[name] for name in (*TRAINED, "resting", "lora_own_rollouts", "qlora_own_rollouts") if name in one}
    for name, more in {"qlora_by_policy": QLORA, "lora_by_policy": LORA, "by_policy": ()}.items():
        two[name] = overrides(common, more, BY_POLICY)
    for kind in KINDS:
        whole = overrides(common, FIRST[kind], MORE)
        one |= {f"{kind}_whole": whole, f"{kind}_halves": one[kind], f"{kind}_halves#resumed": whole}
        two[f"{kind}_resumed"] = whole
    resumed = {f"{kind}_resumed": f"1/{kind}" for kind in KINDS}
    if "not thorough" in pytestconfig.option.markexpr:
        one = {name: case for name, case in one.items() if name in QUICK}
        two, resumed = {name: case for name, case in two.items() if f"2/{name}" in QUICK}, {}
    for cases in (one, two):
        for name, case in cases.items():
            cases[name] = [setting.replace("TIED", str(tied_model)) for setting in case]
    drive(project, [("1", 1, one, {}), ("2", 2, two, resumed)], root)
    return root


def weights(run: Path, step: int = 2) -> dict[str, torch.Tensor]:
    """What a checkpoint holds of its models: all weights, or an adapter's."""
    found: dict[str, torch.Tensor] = {}
    for model in sorted((run / f"global_step_{step}").glob("*/")):
        adapter = model / "adapter_model.safetensors"
        there = load_file(adapter) if adapter.exists() else saved(model)
        found |= {f"{model.name}.{name}": weight for name, weight in there.items()}
    return found


def check_same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor], tolerance: float) -> None:
    assert left
    torch.testing.assert_close(left, right, atol=tolerance, rtol=0)


def toy_model(run: Path) -> dict[str, torch.Tensor]:
    (file,) = run.glob("toy_model_*/model.safetensors")
    return load_file(file)


@pytest.mark.parametrize("name", nightly(*SAME))
def test_another_way_to_the_same_weights(runs: Path, name: str) -> None:
    first, _, tolerance = SAME[name]
    check_same(weights(runs / "1" / first), weights(runs / "1" / name), tolerance)


@pytest.mark.parametrize("name", nightly("plain", "sgd", "critic", "lora", "qlora", "bfloat16", "bfloat16_weights"))
def test_the_weights_do_change(runs: Path, name: str) -> None:
    """So that the tests of equality compare something."""
    run = runs / "1" / name
    if "lora" in name:
        assert all(weight.abs().max() > 1e-3 for weight in weights(run).values())
        return
    before, after = toy_model(run), weights(run)
    moved = [(after[f"actor.{layer}"].float() - weight).abs().max() for layer, weight in before.items()]
    assert max(moved) > 1e-4


@pytest.mark.thorough
def test_bfloat16_is_near_float32(runs: Path) -> None:
    exact, near = metrics_of(runs / "1" / "sgd"), metrics_of(runs / "1" / "bfloat16")
    for left, right in zip(exact, near, strict=True):
        assert left["actor/grad_norm"] != right["actor/grad_norm"]
        assert left["actor/grad_norm"] == pytest.approx(right["actor/grad_norm"], rel=0.05)
    check_same(weights(runs / "1" / "sgd"), weights(runs / "1" / "bfloat16"), 0.02)
    assert {weight.dtype for weight in weights(runs / "1" / "bfloat16_weights").values()} == {torch.bfloat16}


@pytest.mark.thorough
def test_the_learning_rate_follows_its_course(runs: Path) -> None:
    """Warm-up from 0 in one step; then the first half of a cosine down to half, of which two steps saw the top."""
    rates = [row["actor/lr"] for row in metrics_of(runs / "1" / "cosine")]
    assert rates == pytest.approx([0.0, 1e-4])


@pytest.mark.thorough
def test_gradients_are_clipped(runs: Path) -> None:
    """There is as much to learn as without clipping, and next to nothing of it is taken."""
    run = runs / "1" / "clipped"
    clipped, plain = (metrics_of(runs / "1" / name)[0]["actor/grad_norm"] for name in ("clipped", "sgd"))
    assert clipped == plain > 1e-3
    check_same({f"actor.{name}": weight for name, weight in toy_model(run).items()}, weights(run), 1e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_is_resumed_bit_for_bit(runs: Path, kind: str) -> None:
    whole, halves = runs / "1" / f"{kind}_whole", runs / "1" / f"{kind}_halves"
    check_same(weights(whole, 4), weights(halves, 4), 0.0)
    names = ("actor/grad_norm", "actor/kl_loss", "actor/lr", "actor/pg_loss")
    assert [[row[name] for name in names] for row in metrics_of(whole)] == [
        [row[name] for name in names] for row in metrics_of(halves)
    ]


def test_the_reference_is_the_model_without_the_adapter(runs: Path) -> None:
    """Its log-probabilities are those of a copy of the model: the same in the first step, and in every later one."""
    plain, lora = (torch.load(runs / "1" / name / "steps-0.pt", weights_only=False) for name in ("plain", "lora"))
    for left, right in zip(plain, lora, strict=True):
        torch.testing.assert_close(left["columns"]["ref_log_prob"], right["columns"]["ref_log_prob"], atol=0, rtol=0)
    last = lora[-1]["columns"]
    assert (last["ref_log_prob"] - last["old_log_probs"]).abs().max() > 1e-3


@pytest.mark.parametrize("name", nightly(*TRAINED, of_two=True))
def test_two_processes_train_the_same_adapter(runs: Path, name: str) -> None:
    alone = name.removesuffix("_resting").removesuffix("_by_policy")
    check_same(weights(runs / "1" / alone), weights(runs / "2" / name), 1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_go_on_with_an_adapter(runs: Path, kind: str) -> None:
    check_same(weights(runs / "1" / f"{kind}_whole", 4), weights(runs / "2" / f"{kind}_resumed", 4), 1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["by_policy", "resting"])
def test_two_processes_with_resting_weights(runs: Path, name: str) -> None:
    check_same(weights(runs / "1" / "plain"), weights(runs / "2" / name), 1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("processes", ["1", "2"])
def test_rollouts_of_the_adapted_policy(runs: Path, processes: str, kind: str) -> None:
    """Each process writes its own share, and what it wrote is learned from."""
    run = runs / processes / f"{kind}_own_rollouts"
    rows = metrics_of(run)
    assert [row["step"] for row in rows] == [1, 2]
    assert all(1 <= row["response_length/mean"] <= 9 for row in rows)
    assert all(row["actor/grad_norm"] > 0 for row in rows)
    assert any(weight.abs().max() > 1e-3 for weight in weights(run).values())


PROBE = f"""
import contextlib, io, json, sys
import torch
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer
from peft import PeftModel
from {PACKAGE}.export import main

def log_probs(model):
    ids = torch.arange(4, 16).reshape(2, 6)
    with torch.no_grad():
        return model.eval()(ids).logits.float().log_softmax(-1)

def difference(a, b):
    return float((log_probs(a) - log_probs(b)).abs().max())

runs, out = Path(sys.argv[1]), Path(sys.argv[2])
found = {{}}
for name in ("plain", "tied", "lora", "qlora", "tied_lora"):
    step = runs / name / "global_step_2"
    code = main([str(runs / name), str(out / name)])
    exported = AutoModelForCausalLM.from_pretrained(out / name)
    if "lora" in name:
        base = json.loads((step / "actor" / "adapter_config.json").read_text())["base_model_name_or_path"]
        trained = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), step / "actor")
        start = difference(AutoModelForCausalLM.from_pretrained(base), exported)
    else:
        trained, start = AutoModelForCausalLM.from_pretrained(step / "actor"), 1.0
    found[name] = {{
        "code": code,
        "difference": difference(trained, exported),
        "from_the_start": start,
        "tokens": len(AutoTokenizer.from_pretrained(out / name)),
        "eos": exported.generation_config.eos_token_id,
        "left": [p.name for p in out.iterdir() if p.name.startswith(".")],
    }}
half = out / "half"
refused = {{
    "has no checkpoint": [str(out / "nowhere"), str(out / "new")],
    "is there already": [str(runs / "plain"), str(out / "plain")],
    "no checkpoint with a validation score": ["--best", str(runs / "plain"), str(out / "new")],
    "not a complete checkpoint": [str(runs / "cut_short" / "global_step_2"), str(out / "new")],
    "the model that the adapter belongs to is not at": [str(runs / "lora"), str(out / "new"), "--base", "/nowhere"],
}}
for message, arguments in refused.items():
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        code = main(arguments)
    assert code == 2 and message in errors.getvalue() and "hint: " in errors.getvalue(), errors.getvalue()
assert not (out / "new").exists()
found["dtype"] = main([str(runs / "lora" / "global_step_2" / "actor"), str(half), "--dtype", "bfloat16"])
weights = AutoModelForCausalLM.from_pretrained(half, dtype="auto").parameters()
found["dtypes"] = sorted({{str(weight.dtype) for weight in weights}})
print(json.dumps(found))
"""


@pytest.mark.thorough
def test_a_checkpoint_is_exported_as_a_model(project: Path, runs: Path, tmp_path: Path) -> None:
    """Whole or not at all, with the same logits; and what cannot be exported is refused with a hint."""
    cut_short = Path(shutil.copytree(runs / "1" / "plain", runs / "1" / "cut_short"))
    (cut_short / "global_step_2" / "complete.json").unlink()
    done = check_forked(project, "-c", PROBE, str(runs / "1"), str(tmp_path))
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found.pop("dtype"), found.pop("dtypes")) == (0, ["torch.bfloat16"])
    for name, seen in found.items():
        assert seen["code"] == 0
        assert seen["difference"] <= (1e-5 if "lora" in name else 0.0)
        assert seen["from_the_start"] > 1e-3
        assert seen["tokens"] > 0
        assert seen["eos"] is not None
        assert seen["left"] == []
