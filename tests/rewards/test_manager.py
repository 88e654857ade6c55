"""The reward manager and the model as judge, on batches of a few tokens."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

Library = Callable[[str], ModuleType]
LETTERS = "_abcdefghij"


class Letters:
    """A tokenizer of single letters; 0 pads."""

    def get_vocab(self) -> dict[str, int]:
        return {letter: number for number, letter in enumerate(LETTERS)}

    def decode(self, ids: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(LETTERS[index] for index in ids if index)

    def batch_decode(self, rows: list[list[int]], skip_special_tokens: bool = False) -> list[str]:
        return [self.decode(row) for row in rows]


def batch_of(*texts: str, width: int = 4, **columns: Any) -> SimpleNamespace:
    """Prompts `ab`, padded on the left to 3, and responses, padded on the right."""
    responses = torch.tensor([[LETTERS.index(c) for c in text.ljust(width, "_")] for text in texts])
    prompts = torch.tensor([[0, 1, 2]] * len(texts))
    mask = torch.tensor([[0, 1, 1] + [1] * len(text) + [0] * (width - len(text)) for text in texts])
    tensors = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": torch.cat([prompts, responses], dim=-1),
        "attention_mask": mask,
    }
    others = {
        "data_source": np.array(["s"] * len(texts), dtype=object),
        "reward_model": np.array([{"ground_truth": "abc"}] * len(texts), dtype=object),
        **{name: np.array(values, dtype=object) for name, values in columns.items()},
    }
    return SimpleNamespace(batch=tensors, non_tensor_batch=others, meta_info={})


def score_length(solution_str: str, **sample: Any) -> dict[str, Any]:
    if solution_str == "j":
        raise KeyError("j")
    return {
        "score": float(len(solution_str)),
        "acc": float(solution_str == sample["ground_truth"]),
        "pred": solution_str,
    }


@pytest.fixture
def manager(library: Library) -> Callable[..., Any]:
    class Manager(library("manager").TextRewardManager):  # type: ignore[misc]
        score = staticmethod(score_length)

    return lambda **settings: Manager(Letters(), 0, **settings)


def test_the_score_is_on_the_last_token(manager: Callable[..., Any], library: Library) -> None:
    """Weights make the reward of components; a sample that raises is named."""
    result = manager()(batch_of("abc", "de", ""), return_dict=True)
    assert result["reward_tensor"].tolist() == [[0, 0, 3, 0], [0, 2, 0, 0], [0, 0, 0, 0]]
    assert result["reward_extra_info"] == {"score": [3, 2, 0], "acc": [1, 0, 0], "pred": ["abc", "de", ""]}
    weighted = manager(weights={"acc": 2.0, "score": 0.5})
    assert weighted(batch_of("abc", "de")).sum(-1).tolist() == [3.5, 1.0]
    for weights, texts, said in (
        ({"pred": 1.0}, ("abc",), "no component named 'pred'"),
        (None, ("a", "j"), "raised KeyError: 'j'"),
    ):
        with pytest.raises(library("scoring").ScoringError, match=said) as caught:
            manager(**({"weights": weights} if weights else {}))(batch_of(*texts))
        assert caught.value.row == len(texts) - 1


def score_some(data_source: str, solution_str: str, **sample: Any) -> Any:
    """A number for one source, a dictionary for the other."""
    return 0.25 if data_source == "numbers" else {"score": 2.0, "acc": float(solution_str == "abc"), "pred": "x"}


def test_a_component_that_a_sample_lacks_is_no_zero(library: Library, tmp_path: Path, capsys: Any) -> None:
    """Neither in the components nor in the table and the files; and no reward can be made of it."""
    module = library("manager")

    def scored(sources: list[str], texts: list[str], **settings: Any) -> Any:
        cls = type("Manager", (module.TextRewardManager,), {"score": staticmethod(score_some)})
        return cls(Letters(), 0, **settings)(batch_of(*texts, data_source=sources), return_dict=True)

    found = scored(["numbers", "dicts", "dicts"], ["a", "abc", "b"], log_dir=str(tmp_path), log_every=1)
    assert found["reward_tensor"].sum(-1).tolist() == [0.25, 2.0, 2.0]
    assert found["reward_extra_info"] == {
        "score": [0.25, 2.0, 2.0],
        "acc": [None, 1.0, 0.0],
        "pred": [None, "x", "x"],
    }
    lines = capsys.readouterr().out.splitlines()
    shown = [line.split()[:2] for line in lines[1:]]
    assert shown == [["reward", "acc"], ["2.00", "1.00"], ["2.00", "0.00"], ["0.25", "-"]]
    written = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [len(row["components"]) for row in written] == [3, 3, 1]
    assert (written[0]["prompt"], written[0]["response"], written[0]["reward"]) == ("ab", "abc", 2.0)
    said = "data source 'numbers': no component named 'acc'"
    with pytest.raises(library("scoring").ScoringError, match=said) as caught:
        scored(["dicts", "numbers"], ["a", "b"], weights={"acc": 1.0})
    assert caught.value.row == 1
    assert "test_manager.py:" in caught.value.hook_file


def test_rewards_that_are_given_are_the_reward_or_a_component_of_it(manager: Callable[..., Any]) -> None:
    batch = batch_of("abc", "de", turns=[1, 2])
    batch.batch["rm_scores"] = torch.tensor([[0.5, 0, 0.25, 0], [0, -1.0, 0, 0]])
    batch.meta_info["reward_extra_keys"] = ["turns"]
    result = manager()(batch, return_dict=True)
    assert result["reward_tensor"] is batch.batch["rm_scores"]
    assert result["reward_extra_info"] == {"turns": [1, 2]}
    mixed = manager(weights={"rm": 2.0, "acc": 1.0})(batch, return_dict=True)
    assert mixed["reward_tensor"].sum(-1).tolist() == [2.5, -2.0]
    assert mixed["reward_extra_info"]["rm"] == [0.75, -1.0]
    assert mixed["reward_extra_info"]["turns"] == [1, 2]


def test_the_judge_gives_each_response_what_it_gives_it_alone(library: Library, tmp_path: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForSequenceClassification

    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    more = {"num_key_value_heads": 2, "num_labels": 1, "pad_token_id": 0, "initializer_range": 0.5}
    Qwen2ForSequenceClassification(Qwen2Config(vocab_size=16, **sizes, **more)).save_pretrained(tmp_path)
    model = library("reward_model").RewardModel(str(tmp_path), Letters(), "cpu", micro_batch_size=2)
    batch = batch_of("abc", "d", "efgh", "ab", "j")
    scores = model.score(batch)
    for score, text in zip(scores, ("abc", "d", "efgh", "ab", "j"), strict=True):
        ids = torch.tensor([[1, 2, *(LETTERS.index(c) for c in text)]])
        with torch.no_grad():
            assert score == pytest.approx(model.model(ids).logits.item(), abs=1e-5)
    assert len(set(scores)) == 5
    placed = model.token_scores(batch)
    assert placed.shape == (5, 4)
    assert placed[0].nonzero().tolist() == [[2]]
    assert placed[2, 3].item() == scores[2]
