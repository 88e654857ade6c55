# vextract:template - edit freely
"""On-policy distillation: what a teacher is asked, and that the policy becomes like it."""

from statistics import fmean

import pytest
import torch
from conftest import CONFIG_DIRECTORY
from transformers import AutoModelForCausalLM

from __package__.data.toy import ensure_toy_model
from __package__.errors import DataError
from __package__.settings.loading import load_config
from __package__.tracking.run_tracker import read_rows
from __package__.training.trainer import LocalPPOTrainer

LOSS = "distillation.distillation_loss"
BY_TOPK = (f"{LOSS}.loss_mode=forward_kl_topk", f"{LOSS}.use_policy_gradient=false", f"{LOSS}.topk=5")
SHORT = (
    "preset=distill",
    "data.train_batch_size=4",
    "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.logger=[]",
)
IN_PIECES, WHOLE = "local.max_logits_mb=0.001", "local.max_logits_mb=null"


def started(directory, *settings):
    return LocalPPOTrainer(load_config(CONFIG_DIRECTORY, [*SHORT, f"trainer.default_local_dir={directory}", *settings]))


@pytest.mark.parametrize("limit", [WHOLE, IN_PIECES], ids=["whole", "pieces"])
@pytest.mark.parametrize("loss", [(), BY_TOPK], ids=["estimator", "topk"])
def test_the_teacher_says_how_likely_each_token_is(tmp_path, loss, limit):
    with started(tmp_path, *loss, limit, "actor_rollout_ref.rollout.temperature=0.7") as trainer:
        batch = next(iter(trainer.steps())).batch.batch
    teacher = AutoModelForCausalLM.from_pretrained(tmp_path / "toy_teacher_succ2", dtype=torch.float32).eval()
    with torch.no_grad():
        logits = teacher(**{name: batch[name] for name in ("input_ids", "attention_mask", "position_ids")}).logits
    wanted = logits.log_softmax(dim=-1)
    said = batch["attention_mask"].bool().clone()
    said[:, : batch["prompts"].shape[1] - 1] = False  # by the prompt's last token and those behind it, but for the last
    said = said & said.roll(-1, dims=1)
    said[:, -1] = False
    log_probs, tokens = batch["teacher_logprobs"][said], batch["teacher_ids"][said]
    torch.testing.assert_close(log_probs, wanted[said].gather(-1, tokens), rtol=1e-4, atol=1e-5)
    if loss:
        torch.testing.assert_close(log_probs, wanted[said].topk(5, dim=-1).values, rtol=1e-4, atol=1e-5)
    else:
        torch.testing.assert_close(tokens.squeeze(-1), batch["input_ids"].roll(-1, dims=1)[said])
    assert said.sum() == batch["attention_mask"][:, -batch["responses"].shape[1] :].sum()


@pytest.mark.parametrize("loss", [(), BY_TOPK], ids=["k1", "forward_kl_topk"])
def test_the_policy_becomes_like_its_teacher(train, loss):
    run = train("preset=distill", *loss, "trainer.total_training_steps=40", "trainer.test_freq=-1")
    rows = read_rows(run / "metrics.jsonl")
    losses = [row["actor/distillation/loss"] for row in rows]
    assert fmean(losses[-5:]) < 0.6 * fmean(losses[:3])
    assert len({row["timing_s/teacher"] > 0 for row in rows}) == 1


def test_a_run_goes_on_exactly_after_a_checkpoint(train, tmp_path):
    settings = ("preset=distill", *BY_TOPK, "trainer.test_freq=-1", "trainer.save_freq=2")
    whole = train(*settings, "trainer.total_training_steps=4")
    train(*settings, "trainer.total_training_steps=2", directory=tmp_path / "parts")
    parts = train(*settings, "trainer.total_training_steps=4", directory=tmp_path / "parts")
    weights = [(run / "global_step_4" / "actor" / "model.safetensors").read_bytes() for run in (whole, parts)]
    assert weights[0] == weights[1]


def test_rows_go_to_the_teacher_that_is_for_them(tmp_path):
    models = [ensure_toy_model(tmp_path / name, task="succ2", seed=seed) for seed, name in enumerate("ab", 5)]
    teachers = []
    for name, key, model in zip("ab", ("toy_succ2", "other"), models, strict=True):
        teachers += [f"+distillation.teacher_models.{name}.{item}" for item in (f"key={key}", f"model_path={model}")]
    with started(tmp_path / "run", *teachers) as trainer:
        batch = next(iter(trainer.steps())).batch
        batch.non_tensor_batch["data_source"][::2] = "other"
        trainer.distillation.add(batch)
        for key, rows in (("other", slice(0, None, 2)), ("toy_succ2", slice(1, None, 2))):
            said = trainer.distillation.teachers[key].probabilities(batch).batch["teacher_logprobs"]
            start = batch.batch["prompts"].shape[1] - 1
            torch.testing.assert_close(batch.batch["teacher_logprobs"][rows, start:-1], said[rows])
        batch.non_tensor_batch["data_source"][3] = "neither"
        with pytest.raises(DataError, match="no teacher for a row where that is 'neither'"):
            trainer.distillation.add(batch)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((f"{LOSS}.loss_mode=k9",), "which is not registered"),
        ((f"{LOSS}.use_policy_gradient=false",), "k1 loss is incorrect"),
        ((*BY_TOPK[:2], f"{LOSS}.topk=1000"), "topk is 1000, and the policy has"),
        (("distillation.teacher_models.teacher_model.model_path=OTHER",), "has another vocabulary than the policy"),
        (("distillation.teacher_models.teacher_model.model_path=/none",), "no model at /none"),
        (("+distillation.teacher_models.a.key=x", "+distillation.teacher_models.b.key=x"), "as another teacher's is"),
    ],
)
def test_what_cannot_be_is_refused(train, capsys, tmp_path, settings, message):
    if "OTHER" in settings[0]:
        other = ensure_toy_model(tmp_path / "other", task="another")
        settings = [settings[0].replace("OTHER", str(other))]
    train("preset=distill", *settings, code=2)
    error = capsys.readouterr().err
    assert message in error and "hint: " in error
