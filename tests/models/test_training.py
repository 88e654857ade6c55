"""How a model is computed and kept does not change what is trained; what is trained can be taken elsewhere."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.processes.launching import SCORE, drive, overrides, saved
from tests.project.running import check_forked, metrics_of
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
CHECKPOINTING = f"{MODEL}.enable_gradient_checkpointing=true"
WITH_CRITIC = (*CRITIC, *SGD, "critic.optim.optimizer=SGD")
# What computes the same as the case that stands first, in another way: to the last bit, or within a tolerance.
SAME: dict[str, tuple[str, tuple[str, ...], float]] = {
    "resting": ("plain", RESTING, 0.0),
    "resting_by_policy": ("plain", BY_POLICY, 0.0),
    "checkpointing": ("sgd", (*SGD, CHECKPOINTING), 1e-6),
    "without_padding": ("sgd", (*SGD, f"{MODEL}.use_remove_padding=true"), 1e-5),
    "small_passes": ("sgd", (*SGD, f"{ACTOR}.ppo_micro_batch_size_per_gpu=3"), 1e-5),
    "by_tokens": ("sgd", (*SGD, *BY_TOKENS, f"{MODEL}.use_remove_padding=true"), 1e-5),
    "critic_by_tokens": ("critic", (*WITH_CRITIC, *BY_TOKENS, "critic.ppo_max_token_len_per_gpu=40"), 1e-5),
    "critic_resting": (
        "critic",
        (*WITH_CRITIC, *(f"critic.model.fsdp_config.{part}_offload=true" for part in ("param", "optimizer"))),
        0.0,
    ),
    "lora_resting": ("lora", (*LORA, *RESTING), 0.0),
    "qlora_resting": ("qlora", (*QLORA, *RESTING), 0.0),
    "qlora_checkpointing": ("qlora", (*QLORA, CHECKPOINTING), 1e-4),
}
FIRST: dict[str, tuple[str, ...]] = {"plain": (), "sgd": SGD, "critic": WITH_CRITIC, "lora": LORA, "qlora": QLORA}
OTHERS: dict[str, tuple[str, ...]] = {
    "bfloat16": (*SGD, f"{ACTOR}.fsdp_config.dtype=bfloat16", f"{ACTOR}.fsdp_config.model_dtype=bf16"),
    "clipped": (*SGD, f"{ACTOR}.grad_clip=1.0e-9"),
}
MORE = ("trainer.total_training_steps=4",)
# What an ordinary run tries.
QUICK = {"plain", "resting", "sgd", "without_padding", "lora", "2/lora"}
KINDS = ("lora", "qlora")  # of adapters


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
def runs(release: str, project: Path, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """What one process made of the cases, and two processes of some."""
    root = tmp_path_factory.mktemp("runs")
    settings = {**FIRST, **{name: more for name, (_, more, _) in SAME.items()}, **OTHERS}
    section = "" if release == "0.6.1" else "reward."
    common = (*COMMON, f"{section}custom_reward_function.path={SCORE}")
    one = {name: overrides(common, more) for name, more in settings.items()}
    two = {name: one[name] for name in (*KINDS, "lora_resting", "qlora_resting", "resting")}
    two["by_policy"] = overrides(common, BY_POLICY)
    for kind in KINDS:
        whole = overrides(common, FIRST[kind], MORE)
        one |= {f"{kind}_whole": whole, f"{kind}_halves": one[kind], f"{kind}_halves#resumed": whole}
        two[f"{kind}_resumed"] = whole
    resumed = {f"{kind}_resumed": f"1/{kind}" for kind in KINDS}
    if "not thorough" in pytestconfig.option.markexpr:
        one = {name: case for name, case in one.items() if name in QUICK}
        two, resumed = {name: case for name, case in two.items() if f"2/{name}" in QUICK}, {}
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


@pytest.mark.parametrize("name", nightly("plain", "sgd", "critic", "lora", "qlora", "bfloat16"))
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


@pytest.mark.parametrize("name", nightly(*KINDS, "lora_resting", "qlora_resting", of_two=True))
def test_two_processes_train_the_same_adapter(runs: Path, name: str) -> None:
    check_same(weights(runs / "1" / name.removesuffix("_resting")), weights(runs / "2" / name), 1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_go_on_with_an_adapter(runs: Path, kind: str) -> None:
    check_same(weights(runs / "1" / f"{kind}_whole", 4), weights(runs / "2" / f"{kind}_resumed", 4), 1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["by_policy", "resting"])
def test_two_processes_with_resting_weights(runs: Path, name: str) -> None:
    check_same(weights(runs / "1" / "plain"), weights(runs / "2" / name), 1e-5)


PROBE = f"""
import contextlib, io, json, sys
import torch
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer
from peft import PeftModel
from {PACKAGE}.export import main

def logits(model):
    return model.eval()(torch.arange(4, 16).reshape(2, 6)).logits.float().log_softmax(-1)

def difference(one, other):
    return float((logits(one) - logits(other)).abs().max())

runs, out = Path(sys.argv[1]), Path(sys.argv[2])
load = AutoModelForCausalLM.from_pretrained
for name in ("plain", "lora", "qlora"):
    actor = runs / name / "global_step_2" / "actor"
    assert main([str(runs / name), str(out / name)]) == 0
    exported, trained = load(out / name), None
    if name == "plain":
        assert difference(load(actor), exported) == 0
    else:
        base = json.loads((actor / "adapter_config.json").read_text())["base_model_name_or_path"]
        assert difference(load(base), exported) > 1e-3
        assert difference(PeftModel.from_pretrained(load(base), actor), exported) < 1e-5
    assert "library_name: transformers" in (out / name / "README.md").read_text()
    assert len(AutoTokenizer.from_pretrained(out / name)) and exported.generation_config.eos_token_id is not None
assert not [path.name for path in out.iterdir() if path.name.startswith(".")]
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
"""


@pytest.mark.thorough
def test_a_checkpoint_is_exported_as_a_model(project: Path, runs: Path, tmp_path: Path) -> None:
    """Whole or not at all, with the same logits; and what cannot be exported is refused with a hint."""
    cut_short = Path(shutil.copytree(runs / "1" / "plain", runs / "1" / "cut_short"))
    (cut_short / "global_step_2" / "complete.json").unlink()
    check_forked(project, "-c", PROBE, str(runs / "1"), str(tmp_path))
