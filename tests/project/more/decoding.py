"""The decoding loop writes what transformers' own does and draws what it should; and logits in pieces."""

import functools
import types
from pathlib import Path

import pytest
import torch
import transformers
from toy.settings.loading import load_config, settle_device
from toy.vendored.protocol import DataProto
from toy.vendored.utils.torch_functional import entropy_from_logits, logprobs_from_logits
from toy.workers.logits import Asked, LogitsInPieces
from toy.workers.rollout_engine import RolloutEngine
from transformers import Qwen2Config, Qwen2ForCausalLM

END, PADDING, WORDS = 1, 0, 40


def make_model(kind="Qwen2", **changes):
    """Weights that are large enough for the likeliest token to be clear, and for rows to end."""
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"pad_token_id": PADDING, "bos_token_id": None, "eos_token_id": END}
    changes |= {"num_key_value_heads": 2, "initializer_range": 0.2, "vocab_size": WORDS}
    torch.manual_seed(0)
    return getattr(transformers, f"{kind}ForCausalLM")(
        getattr(transformers, f"{kind}Config")(**sizes, **ends, **changes)
    ).eval()


@pytest.fixture(scope="module")
def prompts():
    """Twelve prompts of different lengths, each twice, padded on the left; and their mask."""
    ids = torch.randint(3, WORDS, (12, 9), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(9) >= (torch.arange(12) % 6)[:, None]).long()
    return (ids * mask).repeat_interleave(2, 0), mask.repeat_interleave(2, 0)


def write(model, prompts, length, **settings):
    """Responses by our loop, with their random numbers; greedy ones without."""
    from toy.workers.decoding import decode

    ids, mask = prompts
    numbers = torch.rand((len(ids), length), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    loop = functools.partial(decode, uniforms=numbers if settings.get("do_sample") else None)
    output = model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=length,
        return_dict_in_generate=True,
        custom_generate=loop,
        **settings,
    )
    return output.sequences[:, ids.shape[1] :], numbers


@pytest.mark.parametrize(
    ("kind", "changes"), [("Qwen2", {"attn_implementation": "sdpa"}), ("Mistral", {"sliding_window": 6})]
)
def test_the_likeliest_tokens_are_those_of_transformers(prompts, kind, changes, monkeypatch):
    """Over more tokens than there is room for at first, with two tokens that end a row.

    Each row is written alone there: transformers' penalty counts padding as a token that was there before.
    """
    monkeypatch.setattr("toy.workers.decoding.ROOM", 16)
    model, (ids, mask) = make_model(kind, **changes), prompts
    settings = {"do_sample": False, "eos_token_id": [END, 7], "pad_token_id": PADDING, "repetition_penalty": 1.2}
    ours, _ = write(model, prompts, 60, **settings)
    theirs = torch.full_like(ours, PADDING)
    for row, prompt in enumerate(ids[one][None, mask[one].bool()] for one in range(len(ids))):
        alone = model.generate(input_ids=prompt, max_new_tokens=60, **settings)[0, prompt.shape[1] :]
        theirs[row, : len(alone)] = alone
    assert torch.equal(ours, theirs)
    assert 0 < torch.isin(theirs, torch.tensor([END, 7])).any(dim=-1).sum() < len(ids)


@pytest.mark.parametrize("settings", [{"temperature": 0.7, "top_k": 20}, {"temperature": 1.5, "top_p": 0.8}])
def test_each_token_is_where_its_random_number_falls(prompts, settings):
    """A forward pass over the whole sequence gives the distribution that the token was drawn from, within 1e-5."""
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    model, (ids, mask) = make_model(), prompts
    settings = {"top_k": 0, "top_p": 1.0, **settings}
    responses, numbers = write(model, prompts, 40, do_sample=True, eos_token_id=END, pad_token_id=PADDING, **settings)
    kinds = {"temperature": TemperatureLogitsWarper, "top_k": TopKLogitsWarper, "top_p": TopPLogitsWarper}
    changed = {name: value for name, value in settings.items() if value not in (0, 1.0)}
    warp = LogitsProcessorList([kind(changed[name]) for name, kind in kinds.items() if name in changed])
    seen = 0
    for row, response in enumerate(responses):
        length = int((response == END).int().argmax()) + 1 if (response == END).any() else len(response)
        assert (response[length:] == PADDING).all()
        prompt = ids[row][mask[row].bool()]
        with torch.no_grad():
            logits = model(torch.cat([prompt, response[:length]])[None]).logits[0, len(prompt) - 1 : -1]
        upto = warp(None, logits.float()).softmax(-1).double().cumsum(-1)
        for place, token in enumerate(response[:length].tolist()):
            below = upto[place, token - 1] if token else 0.0
            assert below - 1e-5 <= numbers[row, place] <= upto[place, token] + 1e-5
            seen += 1
    assert seen > 100


def test_rows_that_are_written_apart_say_the_same(prompts, tokenizer):
    """Whatever passes a batch is written in, and whoever wrote before: the seed alone decides."""
    ranks = types.SimpleNamespace(world_size=1)
    model, (ids, mask) = make_model(), prompts
    policy = types.SimpleNamespace(module=model, device=torch.device("cpu"))
    written = []
    for rows in (None, 1, 5, 24):
        size = [f"local.rollout_micro_batch_size={rows}"] if rows else []
        config = load_config(Path(__file__).parents[1] / "config", ["scale=toy", "data.max_response_length=30", *size])
        settle_device(config)
        engine = RolloutEngine(config, tokenizer, ranks, policy)
        columns = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
        torch.manual_seed(5)
        output = engine.generate_sequences(DataProto.from_dict({k: v.clone() for k, v in columns.items()}))
        assert "uniforms" not in set(output.batch.keys())
        written.append(output.batch["responses"])
    assert all(torch.equal(written[0], other) for other in written[1:])
    assert len(written[0].unique(dim=0)) > 12  # the same prompt gets different responses


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
