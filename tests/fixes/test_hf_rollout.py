"""Named fixes of the rollout by transformers."""

from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from tests.fixes.support import Case, Part, Vendored, tiny_model, token_batch

PART = Part(roles=("rollout_hf",))
pytestmark = pytest.mark.filterwarnings("ignore:In CPU autocast")
PROMPT = 5
RESPONSE = 6


def construct(package: Vendored, model: Any, dtype: str = "float32") -> Any:
    """A rollout around a model; where the class is abstract (another fix repairs that) without its constructor."""
    rollout_class = package.get("vendored.workers.hf_rollout", "HFRollout")
    config = OmegaConf.create(
        {"do_sample": False, "temperature": 1.0, "response_length": RESPONSE, "dtype": dtype, "n": 1}
    )
    if rollout_class.__abstractmethods__:
        rollout_class = type("Complete", (rollout_class,), {"__init__": lambda self: None})
        rollout_class.__abstractmethods__ = frozenset()
        made = rollout_class()
        made.config, made.module = config, model
        return made
    return rollout_class(model, config)


def generate(package: Vendored, model: Any, dtype: str = "float32") -> Any:
    """Greedy responses, (3, RESPONSE) int64."""
    batch = token_batch(PROMPT, 0)
    prompts = package.get("vendored.protocol", "DataProto").from_dict(
        tensors={key: batch[key] for key in ("input_ids", "attention_mask", "position_ids")},
        meta_info={"eos_token_id": 1, "pad_token_id": 0},
    )
    return construct(package, model, dtype).generate_sequences(prompts).batch["responses"]


@pytest.fixture
def _no_cache_to_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the tests of other fixes apart from that of the cache."""
    monkeypatch.setattr(torch.cpu, "empty_cache", lambda: None, raising=False)


def test_rollout_can_be_constructed(case: Case, fixed: Vendored, broken: Vendored) -> None:
    model = tiny_model()
    made = fixed.get("vendored.workers.hf_rollout", "HFRollout")(model, OmegaConf.create({}))
    assert made.module is model
    with pytest.raises(TypeError, match=r"abstract|missing 3 required"):
        broken.get("vendored.workers.hf_rollout", "HFRollout")(model, OmegaConf.create({}))


class AsTransformers4:
    """A model whose decoding keeps the position ids that it is given, as transformers 4 does."""

    def __new__(cls) -> Any:
        model = tiny_model()
        advance = model._update_model_kwargs_for_generation

        def keep(outputs: Any, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
            given = model_kwargs.get("position_ids")
            updated: dict[str, Any] = advance(outputs, model_kwargs, *args, **kwargs)
            if model.given_positions:
                updated["position_ids"] = given
            return updated

        generate = model.generate

        def remember(*args: Any, **kwargs: Any) -> Any:
            model.given_positions = "position_ids" in kwargs
            return generate(*args, **kwargs)

        model._update_model_kwargs_for_generation = keep
        model.generate = remember
        return model


@pytest.mark.usefixtures("_no_cache_to_empty")
def test_greedy_decoding_equals_plain_generate(case: Case, fixed: Vendored, broken: Vendored) -> None:
    """Upstream passes position_ids, which newer releases of transformers advance; the model is as with older ones."""
    batch = token_batch(PROMPT, 0)
    wanted = tiny_model().generate(
        input_ids=batch["input_ids"],
        attention_mask=batch["attention_mask"],
        do_sample=False,
        max_new_tokens=RESPONSE,
        pad_token_id=0,
    )[:, PROMPT:]
    wanted = torch.nn.functional.pad(wanted, (0, RESPONSE - wanted.shape[1]))
    model = AsTransformers4()
    assert torch.equal(generate(fixed, model), wanted)
    assert not model.given_positions
    assert not torch.equal(generate(broken, model), wanted)
    assert model.given_positions


@pytest.mark.usefixtures("_no_cache_to_empty")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rollout_follows_the_configured_dtype(case: Case, fixed: Vendored, broken: Vendored, dtype: str) -> None:
    assert logits_dtype(fixed, dtype) == getattr(torch, dtype)
    assert logits_dtype(broken, dtype) == torch.bfloat16


@pytest.mark.usefixtures("_no_cache_to_empty")
def test_rollout_on_a_cpu_follows_the_configured_dtype(case: Case, fixed: Vendored, broken: Vendored) -> None:
    assert logits_dtype(fixed, "bfloat16") == torch.bfloat16
    assert logits_dtype(broken, "bfloat16") == torch.float32


def logits_dtype(package: Vendored, dtype: str) -> torch.dtype:
    model = tiny_model()
    seen = []
    model.lm_head.register_forward_hook(lambda module, args, output: seen.append(output.dtype))
    generate(package, model, dtype)
    assert len(set(seen)) == 1
    return seen[0]


def test_rollout_runs_on_a_cpu(case: Case, fixed: Vendored, broken: Vendored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "empty_cache", raising=False)
    assert generate(fixed, tiny_model()).shape == (3, RESPONSE)
    with pytest.raises(AttributeError, match="empty_cache"):
        generate(broken, tiny_model())
