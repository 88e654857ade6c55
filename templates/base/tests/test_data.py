# vextract:template - edit freely
"""Every kind of data file that the config may name, and what a bad one gets."""

import copy
import itertools
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from __package__.custom.env_dataset import environment_rows
from __package__.data.dataloading import build_loaders
from __package__.data.datasets import DataError, build_datasets
from __package__.vendored.data.rl_dataset import collate_fn

PLAIN = [{"prompt": f"{n}=", "ground_truth": n + 1} for n in range(8)]


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


def build(config, tokenizer, train, val=None):
    config.data.train_files, config.data.val_files = train, val or train
    return build_datasets(config, tokenizer)


def test_without_files_the_environment_gives_the_prompts(data_config, tokenizer):
    data_config.data.truncation = "left"
    for split, dataset in zip(("train", "val"), build_datasets(data_config, tokenizer), strict=True):
        rows = environment_rows(split, data_config.data.env)
        assert len(dataset) == len(rows) > 0
        assert dataset[0]["data_source"] == rows[0]["data_source"]


def test_files_in_verls_schema_are_used_as_they_are(data_config, tokenizer, tmp_path):
    data_config.data.truncation = "left"
    rows, held_out = (environment_rows(split, data_config.data.env) for split in ("train", "val"))
    train, val = write(tmp_path / "train.parquet", rows), write(tmp_path / "val.parquet", held_out)
    train_set, val_set = build(data_config, tokenizer, [train], val)
    assert (len(train_set), len(val_set)) == (len(rows), len(held_out))
    batch = collate_fn([train_set[i] for i in range(3)])
    assert batch["input_ids"].shape == (3, 12) and batch["input_ids"].dtype == torch.int64
    assert list(batch["reward_model"]) == [row["reward_model"] for row in rows[:3]]


@pytest.mark.parametrize("name", ["plain.jsonl", "plain.json", "plain.parquet"])
def test_plain_files_are_converted(data_config, tokenizer, tmp_path, name):
    rows = [dict(row, level=1) for row in PLAIN]
    train, _ = build(data_config, tokenizer, write(tmp_path / name, rows))
    item = train[3]
    assert tokenizer.decode(item["raw_prompt_ids"]) == "<user>3=<assistant>"
    assert item["reward_model"] == {"style": "rule", "ground_truth": "4"}
    assert (item["data_source"], item["index"], item["level"]) == ("plain", 3, 1)


def test_several_files_become_one_dataset_and_max_samples_shortens_it(data_config, tokenizer, tmp_path):
    files = [write(tmp_path / "a.jsonl", PLAIN), write(tmp_path / "b.jsonl", PLAIN[:2])]
    train, _ = build(data_config, tokenizer, files, files[1])
    assert len(train) == 10


def test_messages_and_a_column_of_another_name_are_understood(data_config, tokenizer, tmp_path):
    data_config.data.prompt_key = "question"
    rows = [{"question": [{"role": "system", "content": "+"}, {"role": "user", "content": "1="}], "ground_truth": "2"}]
    train, _ = build(data_config, tokenizer, write(tmp_path / "chat.jsonl", rows))
    assert tokenizer.decode(train[0]["raw_prompt_ids"]) == "<system>+<user>1=<assistant>"


def test_overlong_prompts_are_filtered_or_reported(data_config, tokenizer, tmp_path):
    file = write(tmp_path / "long.jsonl", [*PLAIN, {"prompt": "1" * 40, "ground_truth": "2"}])
    (text, *mended), *_ = build(data_config, tokenizer, file)[0].wrong_prompts  # which a run says along with sizes
    assert text.startswith("train prompt 8 has 42 tokens, more than data.max_prompt_length=12")
    assert mended == ["data.max_prompt_length", "42"]
    data_config.data.filter_overlong_prompts = True
    assert len(build(data_config, tokenizer, file)[0]) == 8
    data_config.data.max_prompt_length = 3
    with pytest.raises(DataError, match="none of the 9 prompts has at most 3 tokens; the shortest has 4|is empty"):
        build(data_config, tokenizer, file)
    data_config.data.filter_overlong_prompts = False
    data_config.data.truncation = "left"
    assert build(data_config, tokenizer, file)[0][8]["input_ids"].shape == (3,)


def test_a_bad_row_is_named_with_a_hint(data_config, tokenizer, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"prompt": "1=", "ground_truth": 2}\n{oops')
    with pytest.raises(DataError, match=r"bad.jsonl:2: not valid JSON(.|\n)*hint: check data.train_files"):
        build(data_config, tokenizer, str(path))
    path.write_text('{"question": "1=", "ground_truth": 2}')
    with pytest.raises(DataError, match="row 0: no column 'prompt'; it has ground_truth, question"):
        build(data_config, tokenizer, str(path))


@pytest.mark.parametrize(("shuffle", "workers"), [(True, 0), (False, 0), (True, 2)])
def test_batches_go_on_from_any_step_of_any_epoch(data_config, shuffle, workers):
    settings = {"shuffle": shuffle, "seed": 3, "train_batch_size": 2, "gen_batch_size": None, "val_batch_size": None}
    data_config.data.update({**settings, "validation_shuffle": False, "dataloader_num_workers": workers})
    rows = [{"number": torch.tensor(number)} for number in range(7)]

    def batches_from(state):
        loader, _ = build_loaders(data_config.data, rows, rows)
        if state is not None:
            loader.load_state_dict(state)
        while True:
            for batch in loader:
                yield batch["number"].tolist(), copy.deepcopy(loader.state_dict())

    steps = list(itertools.islice(batches_from(None), 9))  # three epochs
    numbers = [batch for batch, _ in steps]
    assert (numbers[:3] != numbers[3:6]) == shuffle
    for done in range(1, 9, 1 if workers == 0 else 3):
        rest = itertools.islice(batches_from(steps[done - 1][1]), 9 - done)
        assert [batch for batch, _ in rest] == numbers[done:]
