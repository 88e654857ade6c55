"""Named fixes of the dataset."""

import functools
import sys
from pathlib import Path
from typing import Any

import datasets
import pandas
import pytest
from omegaconf import OmegaConf

from tests.fixes.support import Case, Part, Vendored

PART = Part(roles=("dataset",))
pytestmark = [pytest.mark.usefixtures("verl"), pytest.mark.filterwarnings("ignore:invalid escape sequence")]
LONGEST = 6


def tokenizer() -> Any:
    """A token per character. By default chat templates give dictionaries, as with transformers 5."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1, "a": 2}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    made = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", unk_token="<unk>")
    made.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    made.apply_chat_template = functools.partial(made.apply_chat_template, return_dict=True)
    return made


def test_overlong_prompts_are_filtered(
    case: Case, fixed: Vendored, broken: Vendored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    prompts = [[{"role": "user", "content": "a" * length}] for length in (LONGEST - 1, LONGEST, LONGEST + 1, 50)]
    pandas.DataFrame({"prompt": prompts}).to_parquet(tmp_path / "prompts.parquet")
    config = {"max_prompt_length": LONGEST, "filter_overlong_prompts": True, "filter_overlong_prompts_workers": 1}

    def lengths(package: Vendored) -> list[int]:
        made = package.get("vendored.data.rl_dataset", "RLHFDataset")(
            str(tmp_path / "prompts.parquet"), tokenizer(), OmegaConf.create(config)
        )
        return [len(row["prompt"][0]["content"]) for row in made.dataframe]

    assert lengths(fixed) == [LONGEST - 1, LONGEST]
    assert lengths(broken) == [LONGEST - 1, LONGEST, LONGEST + 1, 50]


def test_the_class_is_there_without_datasets(
    case: Case, fixed: Vendored, broken: Vendored, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(package: Vendored) -> Any:
        monkeypatch.delitem(sys.modules, f"{package.package}.vendored.data.rl_dataset", raising=False)
        return package.get("vendored.data.rl_dataset", "RLHFDataset")

    monkeypatch.setitem(sys.modules, "datasets", None)
    assert load(fixed).__init__
    with pytest.raises(ModuleNotFoundError, match="datasets"):
        load(broken)
