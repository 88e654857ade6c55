"""Log-probabilities from logits that are computed in pieces."""

import pytest
import torch
from toy.vendored.utils.torch_functional import entropy_from_logits, logprobs_from_logits
from toy.workers.logits import Asked, LogitsInPieces
from transformers import Gemma2Config, Gemma2ForCausalLM, Qwen2Config, Qwen2ForCausalLM

VOCABULARY, ROWS, LENGTH = 509, 3, 40
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 2}
SMALL = {**SIZES, "vocab_size": VOCABULARY, "num_hidden_layers": 1}
SEVEN_TOKENS = 7 * VOCABULARY * 4 / 2**20


@pytest.fixture
def tokens():
    return torch.randint(0, VOCABULARY, (ROWS, LENGTH), generator=torch.Generator().manual_seed(0))


def gradients(model, outputs):
    model.zero_grad()
    sum(output.square().sum() for output in outputs).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters()])


@pytest.mark.parametrize("tied", [False, True], ids=["own_head", "tied"])
def test_numbers_and_gradients_are_those_of_whole_logits(tokens, tied):
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**SMALL, tie_word_embeddings=tied, initializer_range=0.3)).double()
    labels = tokens.roll(-1, dims=-1)
    logits = model(input_ids=tokens).logits / 0.7
    whole = logprobs_from_logits(logits, labels), entropy_from_logits(logits)
    wanted = gradients(model, whole)
    pieces = LogitsInPieces(model, SEVEN_TOKENS)
    kept = []
    keeping = torch.autograd.graph.saved_tensors_hooks(lambda value: kept.append(value.numel()) or value, lambda v: v)
    with pieces.in_use(), keeping:
        assert [pieces.wanted(7), pieces.wanted(8)] == [False, True]
        pieces.asked = Asked(labels, 0.7, entropy=True)
        found = model(input_ids=tokens).logits.unbind(-1)
    torch.testing.assert_close(found, whole)
    torch.testing.assert_close(gradients(model, found), wanted)
    assert max(kept) <= max(weight.numel() for weight in model.parameters()) < tokens.numel() * VOCABULARY
    assert model(input_ids=tokens).logits.shape == (ROWS, LENGTH, VOCABULARY)


def test_logits_that_a_model_caps_stay_whole(tokens):
    model = Gemma2ForCausalLM(Gemma2Config(**SMALL, head_dim=8, final_logit_softcapping=30.0))
    pieces = LogitsInPieces(model, SEVEN_TOKENS)
    with pieces.in_use():
        assert not pieces.wanted(tokens.numel())
