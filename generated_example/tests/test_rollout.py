# vextract:template engine/hf/tests/test_rollout.py - edit freely
"""The rollout writes what transformers writes, and the actor gives it the probabilities that the model does."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from generated_example.run.distributed import Ranks
from generated_example.settings.loading import load_config, settle_device
from generated_example.vendored.protocol import DataProto
from generated_example.workers.policy import Policy
from generated_example.workers.rollout_engine import RolloutEngine

QUESTIONS = ["1=", "37=", "12345=", "5+6="]
RESPONSE_LENGTH = 6


@pytest.fixture
def parts(model_path, tokenizer):
    """The policy, the rollout on it, and the same model as transformers loads it."""
    overrides = [
        "scale=toy",
        f"data.max_response_length={RESPONSE_LENGTH}",
        f"actor_rollout_ref.model.path={model_path}",
    ]
    config = load_config(Path(__file__).parents[1] / "config", overrides)
    settle_device(config)
    ranks = Ranks()
    policy = Policy(config, tokenizer, ranks, str(model_path), total_steps=1)
    model = AutoModelForCausalLM.from_pretrained(model_path).to(torch.float32).eval()
    yield policy, RolloutEngine(config, tokenizer, ranks, policy), model
    ranks.close()


@pytest.fixture
def prompts(tokenizer):
    """Prompts of different lengths, padded on the left."""
    encoded = tokenizer(QUESTIONS, padding=True, padding_side="left", return_tensors="pt", add_special_tokens=False)
    mask = encoded["attention_mask"]
    return DataProto.from_single_dict(
        {
            "input_ids": encoded["input_ids"],
            "attention_mask": mask,
            "position_ids": (mask.cumsum(dim=-1) - 1).clamp(min=0),
        }
    )


def test_greedy_responses_are_those_of_transformers(parts, prompts, tokenizer):
    _, rollout, model = parts
    prompts.meta_info["do_sample"] = False
    responses = rollout.generate_sequences(prompts).batch["responses"]
    assert responses.shape == (len(QUESTIONS), RESPONSE_LENGTH)
    for question, response in zip(QUESTIONS, responses, strict=True):
        ids = tokenizer(question, return_tensors="pt", add_special_tokens=False)["input_ids"]
        alone = model.generate(ids, max_new_tokens=RESPONSE_LENGTH, do_sample=False)[0, ids.shape[1] :]
        assert response[: len(alone)].tolist() == alone.tolist()


def test_log_probabilities_are_the_models(parts, prompts):
    policy, rollout, model = parts
    torch.manual_seed(0)
    batch = rollout.generate_sequences(prompts)
    log_probs = policy.compute_log_prob(batch).batch["old_log_probs"]
    prompt_length = batch.batch["prompts"].shape[1]
    for row, mask in enumerate(batch.batch["attention_mask"].bool()):
        ids = batch.batch["input_ids"][row][mask][None]
        written = int(mask[prompt_length:].sum())
        with torch.no_grad():
            expected = model(ids).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])[-written:, 0]
        torch.testing.assert_close(log_probs[row, :written], expected, atol=1e-5, rtol=0)
