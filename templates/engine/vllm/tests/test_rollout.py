# vextract:template - edit freely
"""The rollout by vLLM writes what transformers writes, also after the weights have changed; needs vLLM."""

from pathlib import Path

import pytest

pytest.importorskip("vllm")

import torch
from transformers import AutoModelForCausalLM

from __package__.data.toy import ensure_toy_model
from __package__.errors import ConfigError
from __package__.run.distributed import Ranks
from __package__.settings.loading import load_config, settle_device
from __package__.vendored.protocol import DataProto
from __package__.workers.models import load_tokenizer
from __package__.workers.policy import Policy
from __package__.workers.rollout_interface import RolloutError
from __package__.workers.vllm_rollout import RolloutEngine

QUESTIONS = ["1=", "37=", "12345=", "5+6="]
RESPONSE_LENGTH = 6


def configured(model_path, *overrides):
    """The config of a run with this model."""
    config = load_config(
        Path(__file__).parents[1] / "config",
        [
            "scale=toy",
            f"data.max_response_length={RESPONSE_LENGTH}",
            f"actor_rollout_ref.model.path={model_path}",
            "actor_rollout_ref.rollout.calculate_log_probs=true",
            *overrides,
        ],
    )
    settle_device(config)
    return config


@pytest.fixture(scope="module", params=[False, True], ids=["untied", "tied"])
def parts(request, tmp_path_factory):
    """The policy, the rollout on it, the same model as transformers loads it, and its tokenizer."""
    ranks = Ranks()
    path = ensure_toy_model(tmp_path_factory.mktemp("model") / "toy", tie_word_embeddings=request.param)
    config = configured(path)
    tokenizer = load_tokenizer(config.actor_rollout_ref.model, ranks)
    policy = Policy(config, tokenizer, ranks, str(path), total_steps=1)
    model = AutoModelForCausalLM.from_pretrained(path).to(torch.float32).eval()
    rollout = RolloutEngine(config, tokenizer, ranks, policy)
    yield policy, rollout, model, tokenizer, ranks
    rollout.close()  # which ends the group of processes, too
    ranks.close()


def prompts_of(tokenizer, **meta_info):
    """Prompts of different lengths, padded on the left."""
    encoded = tokenizer(QUESTIONS, padding=True, padding_side="left", return_tensors="pt", add_special_tokens=False)
    mask = encoded["attention_mask"]
    return DataProto.from_dict(
        {
            "input_ids": encoded["input_ids"],
            "attention_mask": mask,
            "position_ids": (mask.cumsum(dim=-1) - 1).clamp(min=0),
        },
        meta_info=meta_info,
    )


def check(rollout, model, tokenizer):
    """Greedy tokens are those of transformers, and so are the log-probabilities of every token."""
    prompts = prompts_of(tokenizer, do_sample=False)
    with rollout.session():
        output = rollout.generate_sequences(prompts)
    responses, log_probs = output.batch["responses"], output.batch["rollout_log_probs"]
    assert responses.shape == log_probs.shape == (len(QUESTIONS), RESPONSE_LENGTH)
    for row, question in enumerate(QUESTIONS):
        ids = tokenizer(question, return_tensors="pt", add_special_tokens=False)["input_ids"]
        expected = model.generate(ids, max_new_tokens=RESPONSE_LENGTH, do_sample=False)[0]
        new = expected[ids.shape[1] :]
        assert responses[row, : len(new)].tolist() == new.tolist()
        logits = model(expected[None]).logits[0, ids.shape[1] - 1 : -1]
        chosen = torch.log_softmax(logits, dim=-1).gather(1, new[:, None])[:, 0]
        assert (chosen - log_probs[row, : len(new)]).abs().max() < 1e-4


def test_tokens_and_log_probs_are_those_of_transformers(parts):
    _, rollout, model, tokenizer, _ = parts
    check(rollout, model, tokenizer)


def test_new_weights_are_used_after_they_are_synced(parts):
    policy, rollout, model, tokenizer, _ = parts
    for seed in range(2):
        torch.manual_seed(seed)
        with torch.no_grad():
            for new, weight in zip(model.parameters(), policy.module.parameters(), strict=True):
                weight.add_(0.05 * torch.randn_like(weight))
                new.copy_(weight)
        rollout.sync_weights()
        check(rollout, model, tokenizer)


def test_a_call_may_ask_for_fewer_tokens(parts):
    _, rollout, _, tokenizer, _ = parts
    prompts = prompts_of(tokenizer, response_length=2)
    with rollout.session():
        responses = rollout.generate_sequences(prompts).batch["responses"]
    assert responses.shape == (len(QUESTIONS), RESPONSE_LENGTH)
    assert (responses[:, 2:] == tokenizer.pad_token_id).all()


def test_a_failure_of_the_engine_says_what_to_do(parts, monkeypatch):
    _, rollout, _, tokenizer, _ = parts
    core = rollout.inference_engine.llm_engine
    monkeypatch.setattr(core, "step", lambda: (_ for _ in ()).throw(RuntimeError("the core died")))
    with rollout.session(), pytest.raises(RolloutError, match=r"the core died[\s\S]*hint: "):
        rollout.generate_sequences(prompts_of(tokenizer))
    core.abort_request([request for request in core.output_processor.request_states])


def test_too_little_room_for_the_kv_cache_says_which_setting_gives_more(parts):
    policy, _, _, tokenizer, ranks = parts
    path = policy.config.actor_rollout_ref.model.path
    config = configured(path, "+actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_memory_bytes=1024")
    with pytest.raises(ConfigError, match=r"(?s)cache.*hint: .*kv_cache_memory_bytes"):
        RolloutEngine(config, tokenizer, ranks, policy)
