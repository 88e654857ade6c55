# vextract:template - edit freely
"""A policy loss reads columns of its rows, what a reward reports and the policy's entropy with its gradient."""

from pathlib import Path

import pytest
import torch

from __package__.errors import DataError
from __package__.registries import get_policy_loss_fn, register_policy_loss
from __package__.settings import reward_keys
from __package__.tracking.run_tracker import read_rows
from __package__.workers import actor
from __package__.workers.loss_columns import Columns, of_logits, of_pass

ENTROPY = "actor_rollout_ref.actor.calculate_entropy"  # since 0.7.0; before, it is always there
ACTOR = Path(__file__).resolve().parents[1] / "config/actor/dp_actor.yaml"
GIVEN = [f"{ENTROPY}=true"] if ACTOR.exists() and "calculate_entropy:" in ACTOR.read_text() else []

GIVES_LOGITS = hasattr(actor, "columns_of_logits")  # up to 0.7.1


def make_chosen(logits, rows, config):
    chosen = logits.log_softmax(dim=-1).gather(-1, rows["responses"].unsqueeze(-1))
    return {"chosen": chosen.squeeze(-1)}


if GIVES_LOGITS:
    of_logits(make_chosen)


@register_policy_loss("reading")
def compute_policy_loss_reading(old_log_prob, log_prob, advantages, response_mask, *others, **more):
    now = of_pass.get()
    scores = now["token_level_scores"].sum(dim=-1)
    assert torch.allclose(now["twice"], 2 * scores) and len(scores) == len(log_prob)
    assert now["entropy"].shape == log_prob.shape and now["entropy"].requires_grad
    if GIVES_LOGITS:
        for found, wanted in ((now["chosen"], log_prob), (now["old_chosen"], old_log_prob)):
            assert torch.allclose(found * response_mask, wanted * response_mask, atol=1e-5)
    loss = -0.01 * (now["entropy"] * response_mask).mean()
    figures = {"actor/spread": float(scores.max() - scores.min())}
    reports = "dict" in str(get_policy_loss_fn("clip_cov").__annotations__.get("return"))  # since 0.6.1
    return (loss, figures) if reports else (loss, loss.detach(), loss.detach(), loss.detach())


def test_a_loss_reads_columns(train, tmp_path):
    source = tmp_path / "twice.py"
    source.write_text(
        "def compute_score(solution_str, **others):\n"
        "    score = sum(map(ord, solution_str)) % 7 / 7\n"
        "    return {'score': score, 'twice': 2 * score}\n"
    )
    chosen = "actor_rollout_ref.actor.policy_loss.loss_mode=reading"
    run = train(f"{reward_keys.FUNCTION}.path={source}", chosen, "local.recompute_old_log_probs=true", *GIVEN)
    row = read_rows(run / "metrics.jsonl")[-1]
    assert row["actor/grad_norm"] > 0


def test_a_column_that_is_not_there_is_named():
    now = Columns(advantages=torch.zeros(2, 3))
    with pytest.raises(DataError, match="reads weight, which the batch has not"):
        now["weight"]
    with pytest.raises(DataError) as caught:
        now["entropy"]
    assert caught.value.hint == f"{ENTROPY}=true"
