# vextract:template base/tests/test_logits.py.jinja - edit freely
"""Logits in pieces: the same numbers and gradients, and nothing of the size of all logits is held."""

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, Qwen2Config, Qwen2ForCausalLM

from generated_example.vendored.utils.torch_functional import entropy_from_logits, logprobs_from_logits
from generated_example.workers.logits import LogitsInPieces, TokenOutputs

VOCABULARY, ROWS, LENGTH = 509, 3, 40
SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
SEVEN_TOKENS = 7 * VOCABULARY * 4 / 2**20


@pytest.fixture
def tokens():
    return torch.randint(0, VOCABULARY, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))


def qwen2(tied=False):
    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(**SMALL, tie_word_embeddings=tied, initializer_range=0.3)).double()


def gradients(model, outputs):
    model.zero_grad()
    sum(output.square().sum() for output in outputs).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


@pytest.mark.parametrize("tied", [False, True], ids=["own_head", "tied"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_numbers_and_gradients_are_those_of_whole_logits(tokens, tied, temperature):
    model = qwen2(tied)
    logits = model(input_ids=tokens).logits / temperature
    whole = logprobs_from_logits(logits, tokens.roll(-1, dims=-1)), entropy_from_logits(logits)
    wanted = gradients(model, whole)
    pieces = LogitsInPieces.before(model, SEVEN_TOKENS)
    pieces.prepare()
    assert pieces.wanted(8)
    assert not pieces.wanted(7)
    pieces.calculate_entropy = True
    found = model(input_ids=tokens, temperature=temperature)
    assert isinstance(found, TokenOutputs)
    torch.testing.assert_close((found.log_probs, found.entropy), whole)
    torch.testing.assert_close(gradients(model, (found.log_probs, found.entropy)), wanted)
    assert model(input_ids=tokens).logits.shape == (ROWS, LENGTH, VOCABULARY)


def test_what_is_kept_for_the_backward_pass_is_smaller_than_the_logits(tokens):
    def largest(**settings):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda value: kept.append(value.numel()) or value, lambda v: v):
            outputs = model(input_ids=tokens, **settings)
            if not settings:
                logprobs_from_logits(outputs.logits, tokens)
        return max(kept)

    model = qwen2()
    assert largest() == tokens.numel() * VOCABULARY
    pieces = LogitsInPieces.before(model, SEVEN_TOKENS)
    pieces.prepare()
    assert largest(temperature=1.0) <= max(weight.numel() for weight in model.parameters())


def test_logits_that_a_model_caps_stay_whole(tokens):
    model = Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=8, final_logit_softcapping=30.0))
    pieces = LogitsInPieces.before(model, SEVEN_TOKENS)
    pieces.prepare()
    assert not pieces.wanted(tokens.numel())
