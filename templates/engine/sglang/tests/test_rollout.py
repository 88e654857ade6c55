# vextract:template - edit freely
"""The rollout by a server: what it writes, with which weights, and what is said when the server fails.

The server stands in for SGLang (sglang_double.py): the tokens and probabilities are real, from transformers.
"""

import threading
from pathlib import Path

import pytest
import torch
from omegaconf import open_dict
from sglang_double import Model, serve
from transformers import AutoModelForCausalLM

from __package__.data.toy import ensure_toy_model
from __package__.errors import ConfigError
from __package__.run.distributed import Ranks
from __package__.settings.loading import load_config, settle_device
from __package__.vendored.protocol import DataProto
from __package__.workers.policy import Policy
from __package__.workers.rollout_engine import build_rollout_engine
from __package__.workers.rollout_interface import RolloutError
from __package__.workers.servers import http

QUESTIONS = ["1=", "37=", "12345=", "5+6="]
RESPONSE_LENGTH = 6


class Parts:
    """A server, the policy, the rollout between them, and the same model as transformers loads it."""

    def __init__(self, path, tokenizer, run_directory, *overrides):
        self.served = Model(str(path))
        self.http = serve(self.served)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        settings = [
            "scale=toy",
            f"data.max_response_length={RESPONSE_LENGTH}",
            f"actor_rollout_ref.model.path={path}",
            "actor_rollout_ref.rollout.calculate_log_probs=true",
            f"trainer.default_local_dir={run_directory}",
            f"local.server.url=http://127.0.0.1:{self.http.server_address[1]}",
        ]
        self.config = load_config(Path(__file__).parents[1] / "config", [*settings, *overrides])
        settle_device(self.config)
        self.tokenizer = tokenizer
        self.ranks = Ranks()
        self.policy = Policy(self.config, tokenizer, self.ranks, str(path), total_steps=1)
        self.model = AutoModelForCausalLM.from_pretrained(path).to(torch.float32).eval()
        self.engine = None

    def build(self):
        self.engine = build_rollout_engine(self.config, self.tokenizer, self.ranks, self.policy)
        return self.engine

    def generate(self, prompts, **meta_info):
        prompts.meta_info = meta_info
        with self.engine.session():
            return self.engine.generate_sequences(prompts).batch

    def close(self):
        if self.engine is not None:
            self.engine.close()
        self.ranks.close()
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture(params=["tied", "untied"])
def parts(request, tmp_path, tokenizer):
    path = ensure_toy_model(tmp_path / "toy", tie_word_embeddings=request.param == "tied")
    parts = Parts(path, tokenizer, tmp_path / "run")
    parts.build()
    yield parts
    parts.close()


@pytest.fixture
def one(tmp_path, tokenizer, model_path):
    """Makes parts on the toy model, with further settings; the engine is for the test to build."""
    made = []

    def make(*overrides):
        made.append(Parts(model_path, tokenizer, tmp_path / "run", *overrides))
        return made[-1]

    yield make
    for parts in made:
        parts.close()


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


def check_greedy(parts, prompts):
    """Tokens are those of transformers, and log-probabilities the model's."""
    batch = parts.generate(prompts, do_sample=False)
    for row, question in enumerate(QUESTIONS):
        ids = parts.tokenizer(question, return_tensors="pt", add_special_tokens=False)["input_ids"]
        whole = parts.model.generate(ids, max_new_tokens=RESPONSE_LENGTH, do_sample=False)
        alone = whole[0, ids.shape[1] :]
        assert batch["responses"][row, : len(alone)].tolist() == alone.tolist()
        with torch.no_grad():
            every = parts.model(whole).logits[0, :-1].log_softmax(-1).gather(-1, whole[0, 1:, None])[:, 0]
        found = batch["rollout_log_probs"][row]
        torch.testing.assert_close(found[: len(alone)], every[-len(alone) :], atol=1e-5, rtol=0)
        assert (found[len(alone) :] == -1).all()


def test_greedy_responses_are_those_of_transformers_also_after_an_update(parts, prompts):
    check_greedy(parts, prompts)
    torch.manual_seed(0)
    with torch.no_grad():
        for new, weight in zip(parts.model.parameters(), parts.policy.module.parameters(), strict=True):
            weight.add_(0.05 * torch.randn_like(weight))
            new.copy_(weight)
    parts.engine.sync_weights()
    check_greedy(parts, prompts)


def test_batches_are_padded_as_the_trainer_expects(parts, prompts):
    torch.manual_seed(0)
    batch = parts.generate(prompts)
    assert batch["responses"].shape == batch["rollout_log_probs"].shape == (len(QUESTIONS), RESPONSE_LENGTH)
    assert torch.equal(batch["input_ids"], torch.cat([batch["prompts"], batch["responses"]], dim=-1))
    assert torch.equal(batch["attention_mask"][:, : batch["prompts"].shape[1]], prompts.batch["attention_mask"])
    answered = batch["attention_mask"][:, batch["prompts"].shape[1] :]
    eos = parts.tokenizer.eos_token_id
    for row, mask in zip(batch["responses"].tolist(), answered.tolist(), strict=True):
        length = row.index(eos) + 1 if eos in row else RESPONSE_LENGTH
        assert mask == [1] * length + [0] * (RESPONSE_LENGTH - length)
    positions = batch["position_ids"]
    assert (positions[:, -1] == prompts.batch["position_ids"][:, -1] + RESPONSE_LENGTH).all()


def test_seeds_repeat_a_batch_and_tell_its_rows_apart(one, prompts):
    parts = one()
    parts.build()
    many = prompts.repeat(8, interleave=True)
    torch.manual_seed(3)
    first = parts.generate(many)["responses"]
    torch.manual_seed(3)
    assert torch.equal(first, parts.generate(many)["responses"])
    assert not torch.equal(first, parts.generate(many)["responses"])
    assert len({tuple(row) for row in first[:8].tolist()}) > 1


def test_sampling_follows_the_config_and_the_call(one, prompts):
    parts = one(
        "actor_rollout_ref.rollout.temperature=0.7",
        "actor_rollout_ref.rollout.val_kwargs.temperature=0.5",
        "actor_rollout_ref.rollout.val_kwargs.do_sample=true",
    )
    parts.build()
    sent = parts.served.requests["/generate"] = []
    for meta_info, temperature in (({}, 0.7), ({"validate": True}, 0.5), ({"temperature": 0.9}, 0.9)):
        parts.generate(prompts, **meta_info)
        assert {body["sampling_params"]["temperature"] for body in sent} == {temperature}
        sent.clear()
    settings = {"min_p": 0.1, "repetition_penalty": 1.2}
    parts.generate(prompts, **settings)
    assert all(body["sampling_params"].items() >= settings.items() for body in sent)
    assert all(body["sampling_params"]["stop_token_ids"] == [parts.tokenizer.eos_token_id] for body in sent)
    sent.clear()
    parts.generate(prompts, do_sample=False, top_p=0.5)
    assert all(body["sampling_params"]["temperature"] == 0 for body in sent)
    assert not any("sampling_seed" in body["sampling_params"] for body in sent)


def test_a_call_may_ask_for_shorter_responses(one, prompts):
    parts = one()
    parts.build()
    assert parts.generate(prompts, response_length=2)["responses"].shape == (len(QUESTIONS), 2)


def test_a_prompt_without_room_for_a_response_is_refused(one, prompts):
    parts = one("actor_rollout_ref.rollout.max_model_len=6")
    parts.build()
    with pytest.raises(ConfigError, match="leaves no room"):
        parts.generate(prompts)


def test_the_server_sleeps_between_sessions(one, prompts):
    parts = one("local.server.sleep=true")
    parts.build()
    assert parts.served.released == set()
    check_greedy(parts, prompts)
    assert parts.served.released == {"kv_cache"}
    parts.engine.sync_weights()
    check_greedy(parts, prompts)


def test_another_model_is_refused(one):
    parts = one()
    parts.served.path = "/models/another"
    with pytest.raises(ConfigError, match="serves another model, /models/another"):
        parts.build()


def test_weights_that_do_not_fit_are_refused(one, tmp_path):
    parts = one()
    larger = ensure_toy_model(tmp_path / "larger" / "toy", layers=2)
    parts.served.module = AutoModelForCausalLM.from_pretrained(larger)
    with pytest.raises(RolloutError, match="did not take the weights"):
        parts.build()


def test_nobody_at_the_url_is_said(one, monkeypatch):
    monkeypatch.setattr(http, "RETRY_SECONDS", (0.01,))
    parts = one()
    with open_dict(parts.config):
        parts.config.local.server.url = "http://127.0.0.1:9"
    with pytest.raises(ConfigError, match="no SGLang server answers"):
        parts.build()


def test_processes_on_other_machines_need_an_address_that_they_can_reach(one, monkeypatch):
    parts = one()
    with open_dict(parts.config):
        parts.config.local.server.url = None
    monkeypatch.setattr(parts.ranks, "gather_objects", lambda value: ["first", "second"])
    with pytest.raises(ConfigError, match="on 2 machines"):
        parts.build()


@pytest.mark.parametrize("url", ["127.0.0.1:30000", "ftp://127.0.0.1"])
def test_a_url_is_http(one, url):
    parts = one()
    with open_dict(parts.config):
        parts.config.local.server.url = url
    with pytest.raises(ConfigError, match="write it as http://HOST:PORT"):
        parts.build()


def test_a_server_that_has_other_weights_is_told(one, prompts):
    parts = one()
    parts.build()
    parts.served.weight_version = "default"  # it was started again
    with pytest.raises(RolloutError, match="has other weights than it was given: default instead of"):
        parts.generate(prompts)
    parts.engine.sync_weights()
    check_greedy(parts, prompts)


def test_tokens_that_the_policy_does_not_have_are_refused(one, prompts, monkeypatch):
    monkeypatch.setattr(http, "RETRY_SECONDS", (0.01,))
    parts = one()
    parts.build()
    monkeypatch.setattr(parts.served, "_write", lambda *_: ([(len(parts.tokenizer), -1.0)], {"type": "stop"}))
    with pytest.raises(RolloutError, match="is none of the policy's"):
        parts.generate(prompts)


def test_weights_leave_nothing_behind(one, tmp_path):
    place = tmp_path / "place"
    parts = one(f"local.server.weights_directory={place}")
    engine = parts.build()
    assert [list(directory.iterdir()) for directory in place.iterdir()] == [[]]
    engine.close()
    assert list(place.iterdir()) == []
