"""Every kind of data, and what a bad one gets, further than a project's own tests go."""

import datasets
import pandas
import pytest
import torch
from test_data import PLAIN, build, write
from toy.data.datasets import data_section, dataset_of_files
from toy.data.toy import ensure_toy_model
from toy.training import given
from transformers import AutoTokenizer


def dataset_of(form, split, config, tokenizer):
    """Of rows, or of the file that is named."""
    if isinstance(form, str):
        return dataset_of_files([form], split, data_section(config), tokenizer)
    return given.dataset_of(form, split, config, tokenizer)


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_files_whose_columns_differ_in_type_become_one_dataset(data_config, tokenizer, tmp_path, ending):
    truths = ["2", {"inputs": ["1"], "outputs": ["2"]}, ["2", "2.0"]]
    files = []
    for number, truth in enumerate(truths):
        row = {"data_source": f"of{number}", "reward_model": {"style": "rule", "ground_truth": truth}}
        row |= {"prompt": [{"role": "user", "content": "1="}], "level": "1" if number == 1 else number}
        files.append(write(tmp_path / f"{number}.{ending}", [row, row]))
    train, _ = build(data_config, tokenizer, files)
    found = [train[index]["reward_model"]["ground_truth"] for index in (0, 3, 4)]
    assert [truth if isinstance(truth, (str, dict)) else list(truth) for truth in found] == truths
    assert [train[index]["level"] for index in (0, 3, 4)] == [0, "1", 2]


def test_a_prompt_does_not_depend_on_the_form_of_its_row(data_config, tmp_path):
    """Templates ask whether a message has a field: one that a row never had is no null in it."""
    tokenizer = AutoTokenizer.from_pretrained(ensure_toy_model(tmp_path / "model", task="text"))
    tokenizer.chat_template = "{% for m in messages %}{{ m | tojson }}{% endfor %}"
    data_config.data.max_prompt_length, data_config.data.filter_overlong_prompts = 1000, True
    call, asked = {"function": {"name": "f", "arguments": {"a": 1}}}, {"role": "user", "content": "1"}
    chats = [
        [asked, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "content": "2"}],
        [{**asked, "name": "2"}],
        [asked, {"role": "assistant", "content": "", "tool_calls": [call, {"id": "2"}]}, asked],
    ]
    rows = [{"prompt": chat, "ground_truth": "2", "extra_info": {str(n): n}} for n, chat in enumerate(chats)]
    schema = [
        {"prompt": chat, "data_source": "it", "reward_model": {"ground_truth": "2"}, "extra_info": {"index": 0}}
        for chat in chats
    ]
    forms = [rows, datasets.Dataset.from_list(rows)]
    files = [write(tmp_path / f"it.{ending}", rows) for ending in ("jsonl", "json", "parquet")]
    forms += [*files, write(tmp_path / "schema.parquet", schema), pandas.read_parquet(files[2]).to_dict("records")]
    forms += [[{**row, "prompt": tuple(row["prompt"])} for row in rows]]
    wanted = [tokenizer(tokenizer.apply_chat_template(chat, tokenize=False))["input_ids"] for chat in chats]
    for form in forms[:-2] + forms[-1:]:
        found = dataset_of(form, "train", data_config, tokenizer)
        assert [found[row]["raw_prompt_ids"] for row in range(3)] == wanted, form
    assert len(dataset_of(forms[-2], "train", data_config, tokenizer)) == 3  # pandas makes 1.0 of a 1 beside a null
    for form in (rows, *files[:2]):  # what JSON says is known; of a table it is not
        found = dataset_of(form, "train", data_config, tokenizer)
        assert [found[row]["extra_info"] for row in range(3)] == [{"index": n, str(n): n} for n in range(3)]


def test_content_in_parts_is_its_text(data_config, tokenizer, tmp_path):
    parts = [{"type": "text", "text": "1"}, {"type": "text", "text": "+2="}]
    chats = [[{"role": "user", "content": content}] for content in (parts, ["1", "+2="])]
    rows = [{"prompt": chat, "ground_truth": "3"} for chat in chats]
    for form in (rows, write(tmp_path / "it.jsonl", rows), write(tmp_path / "it.parquet", rows[:1])):
        found = dataset_of(form, "train", data_config, tokenizer)
        for row in range(len(found)):
            assert tokenizer.decode(found[row]["raw_prompt_ids"]) == "<user>1+2=<assistant>"


@pytest.mark.parametrize(
    ("truncation", "kept"),
    [("left", "45678<assistant>"), ("right", "<user>12345"), ("middle", "<user>1278<assistant>")],
)
def test_a_batch_is_encoded_as_its_rows_are(data_config, tokenizer, tmp_path, truncation, kept):
    data_config.data.truncation, data_config.data.max_prompt_length = truncation, 6
    file = write(tmp_path / "plain.jsonl", [*PLAIN, {"prompt": "12345678", "ground_truth": "2"}])
    train, _ = build(data_config, tokenizer, file)
    together = getattr(train, "__getitems__", lambda indices: [train[index] for index in indices])
    whole = together([8, 3, 0])
    for item, alone in zip(whole, (train[8], train[3], train[0]), strict=True):
        for name in ("input_ids", "attention_mask", "position_ids"):
            assert torch.equal(item[name], alone[name]) and item[name].shape == (6,)
        assert item["raw_prompt_ids"] == alone["raw_prompt_ids"]
    assert tokenizer.decode(whole[0]["input_ids"]) == kept
    assert whole[1]["attention_mask"].tolist() == [0, 0, 1, 1, 1, 1]
    assert whole[1]["position_ids"].tolist() == [0, 0, 0, 1, 2, 3]
